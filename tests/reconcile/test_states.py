"""Everything that may happen to a repository deletes nothing: its cause, its state, and the message for a person."""

import shutil
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from reconciler.planner.pruning import LEAVE_OUT
from tests import daemons
from tests.daemons import Answer, Followed, destination
from tests.following import Follow
from tests.repositories import Repository

NAMES = ["a", "b", "c", "d", "e", "f"]
FOREIGN = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: b}\n"
BAD_YAML = "metadata: {name: b"
WOULD_GO = "Destination a, Destination b, Destination c, Destination d, Destination e and 1 more"
KEPT = "Until then nothing is deleted"
BURST = 100  # commits


class Cause(NamedTuple):
    """An event in the repository, the state it comes into, and its message, or the beginning and the end of it."""

    happens: Callable[[Followed], object]
    state: str
    read: str | tuple[str, str] | None


def empty_remote(followed: Followed) -> None:
    shutil.rmtree(followed.source.path)
    Repository.init(followed.source.path)


def no_branch(followed: Followed) -> None:
    followed.source.branch("kept")
    followed.source.delete_branch("main")


def no_path(followed: Followed) -> None:
    followed.source.move("conf", "config")
    followed.source.commit()


def path_is_a_file(followed: Followed) -> None:
    followed.source.remove("conf")
    followed.source.write("conf", "x")
    followed.source.commit()


def content(text: str | bytes, path: str = "conf/b.yaml") -> Callable[[Followed], None]:
    """A file gets this text."""

    def happens(followed: Followed) -> None:
        followed.source.write(path, text)
        followed.source.commit()

    return happens


def moved(followed: Followed) -> None:
    followed.source.move("conf/b.yaml", "conf/deep/other.yaml")
    followed.source.commit()


def moved_into_another_file(followed: Followed) -> None:
    followed.source.remove("conf/b.yaml")
    followed.source.write("conf/a.yaml", destination("b") + "---\n" + destination("a"))
    followed.source.commit()


def link(followed: Followed) -> None:
    followed.source.remove("conf/b.yaml")
    followed.source.link("conf/b.yaml", "a.yaml")
    followed.source.commit()


def everything_removed(followed: Followed) -> None:
    followed.source.remove("conf")
    followed.source.write("conf/README.md", "nothing")
    followed.source.commit()


def most_removed(followed: Followed) -> None:
    for name in "abcd":
        followed.source.remove(f"conf/{name}.yaml")
    followed.source.commit()


def two_repositories(followed: Followed) -> None:
    """A second repository holds the same resources, differently, and then lets go of them."""
    other = Repository.init(followed.source.path.with_name("other"))
    for name in NAMES:
        other.write(f"{name}.yaml", destination(name, "of the other"))
    other.commit()
    second = Followed(followed.daemon, other, name=f"{followed.name}-other", project=followed.project)
    second.head()
    for name in NAMES[1:]:
        other.remove(f"{name}.yaml")
    second.commit()


def another_url(followed: Followed) -> None:
    """The settings name a repository that holds something else."""
    other = Repository.init(followed.source.path.with_name("other"))
    other.write("conf/z.yaml", destination("z"))
    other.commit()
    followed.source = other
    followed.change(path="conf", interval="200ms")


def another_branch(followed: Followed) -> None:
    source = followed.source
    source.branch("next")
    source.switch("next")
    source.remove("conf")
    source.write("conf/z.yaml", destination("z"))
    source.commit()
    followed.change(path="conf", branch="next", interval="200ms")


def another_path(followed: Followed) -> None:
    followed.source.write("elsewhere/z.yaml", destination("z"))
    followed.source.commit()
    followed.change(path="elsewhere", interval="200ms")


def a_path_that_is_not_there(followed: Followed) -> None:
    followed.change(path="elsewhere", interval="200ms")


def burst(followed: Followed) -> None:
    """Every second commit lacks everything; the last one has it all."""
    for number in range(BURST):
        if number % 2:
            followed.source.git("revert", "--no-edit", "HEAD")
        else:
            everything_removed(followed)


def another_root(followed: Followed) -> None:
    followed.source.restart()
    followed.source.remove("conf/b.yaml")
    followed.source.write("conf/a.yaml", destination("a", "of another history"))
    followed.source.commit()


def another_root_and_back(followed: Followed) -> None:
    head = followed.source.head()
    another_root(followed)
    followed.daemon.state_of(followed.name, "unrelated-root")
    followed.source.git("reset", "--quiet", "--hard", head)


def back_and_forth(followed: Followed) -> None:
    """A force-push to an earlier commit that lacks most, and back."""
    head = followed.source.head()
    followed.source.rewind(followed.source.git("rev-list", "--max-parents=0", "HEAD"))
    followed.daemon.state_of(followed.name, "prune-held")
    followed.source.rewind(head)


def vacated(before: str, after: Callable[[Followed], object]) -> Callable[[Followed], None]:
    """The resource moves into another file, from where it cannot be stored; then that file gives nothing any more."""

    def happens(followed: Followed) -> None:
        followed.source.remove("conf/b.yaml")
        followed.source.write("conf/moved.yaml", before)
        followed.commit()
        after(followed)

    return happens


def moved_link(followed: Followed) -> None:
    followed.source.remove("conf/moved.yaml")
    followed.source.link("conf/moved.yaml", "a.yaml")
    followed.source.commit()


def forbidden_and_vacated(followed: Followed) -> None:
    followed.change(path="conf", interval="200ms", allow={"kinds": ["*"], "names": ["[ac-f]"]})
    vacated(destination("b"), content("", "conf/moved.yaml"))(followed)


def broken_and_emptied(followed: Followed) -> None:
    content(BAD_YAML, "conf/moved.yaml")(followed)
    followed.head()
    content("", "conf/moved.yaml")(followed)


def duplicate_left_alone_and_emptied(followed: Followed) -> None:
    followed.source.write("conf/moved.yaml", destination("b", "again"))
    followed.commit()
    followed.source.remove("conf/b.yaml")
    content("# to do\n", "conf/moved.yaml")(followed)


def folder_vacated(followed: Followed) -> None:
    followed.source.remove("conf/b.yaml")
    followed.source.write("conf/deep/moved.yaml", INVALID)
    followed.commit()
    followed.source.remove("conf/deep")
    followed.source.link("conf/deep", "elsewhere")
    followed.source.commit()


def ignore_file_too_large(followed: Followed) -> None:
    followed.source.write("conf/.serviceignore", "#" * 70_000)
    followed.source.write("conf/a.yaml", destination("a", "not to be read"))
    followed.source.write("conf/hidden.yaml", destination("hidden"))
    followed.source.remove("conf/b.yaml")
    followed.source.commit()


INVALID = destination("b").replace("  type:", "  tipe:")
TWICE = destination("b", "x") + "---\n" + destination("b", "y")
VACATED = "gave resources and now {}; delete it or restore it. " + KEPT + " (1 would go). " + LEAVE_OUT
EMPTIED = "conf/moved.yaml:1:1: " + VACATED.format("is empty")

CAUSES = {
    "an empty remote": Cause(empty_remote, "empty", "{path} has no commit yet; commit something to it"),
    "no branch": Cause(no_branch, "branch-missing", "{path} has no branch main; name another with `branch`"),
    "no folder": Cause(
        no_path,
        "path-missing",
        f"there is no folder conf in the commit {{head}}; add it, or correct `path`. {KEPT} (6 would go).",
    ),
    "a file in place of the folder": Cause(
        path_is_a_file,
        "path-missing",
        f"there is no folder conf in the commit {{head}}; add it, or correct `path`. {KEPT} (6 would go).",
    ),
    "a file that is no YAML": Cause(
        content(BAD_YAML), "prune-held", ("conf/b.yaml:2:1: is not valid YAML", f"{KEPT}. {LEAVE_OUT}")
    ),
    "a file that is no UTF-8": Cause(
        content(b"a: \xff"),
        "prune-held",
        ("conf/b.yaml:1:", f"{KEPT}. {LEAVE_OUT}"),
    ),
    "an empty file": Cause(
        content(""),
        "prune-held",
        f"conf/b.yaml:1:1: gave resources and now is empty; delete it or restore it. {KEPT}. {LEAVE_OUT}",
    ),
    "a typo in kind": Cause(
        content(destination("b").replace("Destination", "Destinatoin")),
        "prune-held",
        ("conf/b.yaml:2:7: /kind: ", f"{KEPT}. {LEAVE_OUT}"),
    ),
    "a typo in apiVersion": Cause(
        content(destination("b").replace("service/v1", "servise/v1")), "ready", ("Not stored as the head says: ", "")
    ),
    "no name": Cause(
        content(destination("b").replace("name: b", "nam: b")), "prune-held", ("conf/b.yaml:", f"{KEPT}. {LEAVE_OUT}")
    ),
    "a foreign manifest in its place": Cause(
        content(FOREIGN),
        "prune-held",
        "conf/b.yaml:1:1: gave resources and now holds only documents that are not ours; delete it or restore it. "
        f"{KEPT}. {LEAVE_OUT}",
    ),
    "an invalid resource": Cause(
        content(destination("b").replace("  type:", "  tipe:")),
        "ready",
        "Not stored as the head says: 1 invalid; the run names them.",
    ),
    "a duplicate": Cause(
        content(destination("b", "again"), "conf/again.yaml"),
        "ready",
        "Not stored as the head says: 2 invalid; the run names them.",
    ),
    "a file moved": Cause(moved, "ready", None),
    "a resource moved into another file": Cause(moved_into_another_file, "ready", None),
    "a symbolic link in its place": Cause(
        link,
        "prune-held",
        "conf/b.yaml:1:1: gave resources and now is a symbolic link, which is not followed; delete it or restore it. "
        f"{KEPT}. {LEAVE_OUT}",
    ),
    "an invalid resource that moved and is emptied": Cause(
        vacated(INVALID, content("", "conf/moved.yaml")), "prune-held", EMPTIED
    ),
    "a duplicate that moved and is a link": Cause(
        vacated(TWICE, moved_link),
        "prune-held",
        "conf/moved.yaml:1:1: " + VACATED.format("is a symbolic link, which is not followed"),
    ),
    "an unresolved resource that moved and is foreign": Cause(
        vacated(destination("b").replace("type: otlp", "type: nope"), content(FOREIGN, "conf/moved.yaml")),
        "prune-held",
        "conf/moved.yaml:1:1: " + VACATED.format("holds only documents that are not ours"),
    ),
    "an invalid resource that moved, is broken and emptied": Cause(
        vacated(INVALID, broken_and_emptied), "prune-held", EMPTIED
    ),
    "a forbidden resource that moved and is emptied": Cause(forbidden_and_vacated, "prune-held", EMPTIED),
    "a duplicate that is emptied as the other file goes": Cause(
        duplicate_left_alone_and_emptied, "prune-held", EMPTIED
    ),
    "a folder of an invalid resource that becomes a link": Cause(
        folder_vacated,
        "prune-held",
        "conf/deep:1:1: " + VACATED.format("is a symbolic link, which is not followed"),
    ),
    "a .serviceignore that is too large": Cause(
        ignore_file_too_large,
        "prune-held",
        "conf/.serviceignore:1:1: says which files count and cannot be read, so nothing below its folder changes: the "
        f"file has 70000 bytes, and at most 65536 are read; split it. {KEPT}. {LEAVE_OUT}",
    ),
    "a .serviceignore that hides everything": Cause(
        content("*\n", "conf/.serviceignore"),
        "empty",
        "The head holds no resource at all, so nothing is deleted; 6 stay as they were: restore them, or "
        "release this with `reconciler approve`.",
    ),
    "everything removed": Cause(
        everything_removed,
        "empty",
        "The head holds no resource at all, so nothing is deleted; 6 stay as they were: restore them, or "
        "release this with `reconciler approve`.",
    ),
    "most removed": Cause(
        most_removed,
        "prune-held",
        "Nothing is deleted: 4 of 6 resources would go, more than 25 percent (Destination a, Destination b, "
        "Destination c, Destination d); restore them, or release this with `reconciler approve`.",
    ),
    "another repository that wants the same": Cause(two_repositories, "ready", None),
    "another url": Cause(
        another_url,
        "prune-held",
        f"Nothing is deleted: 6 of 6 resources would go, more than 25 percent ({WOULD_GO}); restore them, or release "
        "this with `reconciler approve`.",
    ),
    "another branch": Cause(
        another_branch,
        "prune-held",
        f"Nothing is deleted: 6 of 6 resources would go, more than 25 percent ({WOULD_GO}); restore them, or release "
        "this with `reconciler approve`.",
    ),
    "another path": Cause(
        another_path,
        "prune-held",
        f"Nothing is deleted: 6 of 6 resources would go, more than 25 percent ({WOULD_GO}); restore them, or release "
        "this with `reconciler approve`.",
    ),
    "a path that is not there": Cause(
        a_path_that_is_not_there,
        "path-missing",
        f"there is no folder elsewhere in the commit {{head}}; add it, or correct `path`. {KEPT} (6 would go).",
    ),
    "a hundred commits in a burst": Cause(burst, "ready", None),
    "another root": Cause(
        another_root,
        "unrelated-root",
        "The head has no known history in common with the commit that was applied last, so nothing of it is applied "
        "(1 would go); push that history back, or release this with `reconciler approve`.",
    ),
    "another root, and back": Cause(another_root_and_back, "ready", None),
    "an earlier commit, and back": Cause(back_and_forth, "ready", None),
}


@pytest.fixture
def followed(source: Repository, follow: Follow) -> Followed:
    """Six resources in the folder `conf`; the first commit of the history holds none of them but one."""
    source.write("conf/f.yaml", destination("f"))
    source.commit()
    for name in NAMES:
        source.write(f"conf/{name}.yaml", destination(name))
    source.commit()
    followed = follow(source, path="conf", interval="200ms")
    assert followed.head()["counts"] == {"created": 6}
    return followed


# What holds them is held so in another case as well, or by another test.
SLOW = {
    "no branch",
    "a file in place of the folder",
    "a file that is no UTF-8",
    "no name",
    "a file moved",
    "a duplicate that moved and is a link",
    "an unresolved resource that moved and is foreign",
    "an invalid resource that moved, is broken and emptied",
    "a forbidden resource that moved and is emptied",
    "a .serviceignore that hides everything",
    "another branch",
    "a path that is not there",
    "a hundred commits in a burst",
    "an earlier commit, and back",
}
assert CAUSES.keys() > SLOW


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in CAUSES]
)
def test_nothing_is_deleted_by(name: str, followed: Followed) -> None:
    cause = CAUSES[name]
    cause.happens(followed)
    shown = settled(followed, cause)
    assert [name for name in followed.names() if name in NAMES] == NAMES
    assert not [run for run in followed.daemon.runs(followed.name) if "deleted" in run["counts"]]
    assert (shown["state"], is_read(shown["message"], cause, followed)) == (cause.state, True), shown["message"]


@pytest.mark.parametrize(
    ("name", "left"),
    [
        pytest.param("no folder", [], marks=pytest.mark.slow),
        ("a .serviceignore that hides everything", []),
        pytest.param("everything removed", [], marks=pytest.mark.slow),
        ("most removed", ["e", "f"]),
        pytest.param("another path", ["z"], marks=pytest.mark.slow),
        ("another root", ["a", "c", "d", "e", "f"]),
    ],
)
def test_an_approval_releases(name: str, left: list[str], followed: Followed) -> None:
    CAUSES[name].happens(followed)
    shown = settled(followed, CAUSES[name])
    assert shown["held"]["approvable"] is True
    answer = approve(followed)
    assert answer.status == 202
    run = followed.daemon.finished(answer.body["run"])
    assert (run["outcome"], followed.names()) == ("succeeded", left)
    shown = followed.state()
    assert (shown["state"], shown["held"], shown["commit"]) == ("ready", None, followed.source.head())
    # Whoever asks again is told the same.
    assert (followed.daemon.reconcile(followed.name)["outcome"], followed.state()["state"]) == ("succeeded", "ready")


@pytest.mark.parametrize(
    "name",
    [
        "a typo in kind",
        "a duplicate",
        pytest.param("a file that is no YAML", marks=pytest.mark.slow),
        pytest.param("a symbolic link in its place", marks=pytest.mark.slow),
    ],
)
def test_no_approval_releases(name: str, followed: Followed) -> None:
    CAUSES[name].happens(followed)
    shown = settled(followed, CAUSES[name])
    assert shown["held"] is None
    answer = approve(followed)
    assert (answer.status, followed.names()) == (409, NAMES)
    assert ("mend the file: conf/b.yaml:" in answer.body["errors"][0]) == (shown["state"] == "prune-held")


def test_an_approval_lets_another_repository_take_over(followed: Followed) -> None:
    other = Repository.init(followed.source.path.with_name("other"))
    for name in NAMES:
        other.write(f"{name}.yaml", destination(name))
    other.commit()
    second = Followed(followed.daemon, other, name=f"{followed.name}-other", project=followed.project)
    assert second.head()["counts"] == {"unchanged": 6}
    everything_removed(followed)
    shown = settled(followed, CAUSES["everything removed"])
    assert shown["held"]["count"] == 6
    followed.daemon.finished(approve(followed).body["run"])
    assert followed.versions() == dict.fromkeys(NAMES, 1)
    owners = {
        one["status"]["source"]["repository"]
        for one in followed.daemon.resources("Destination", project=followed.project)
    }
    assert (owners, followed.state()["state"]) == ({second.name}, "ready")


def test_commits_that_delete_a_little_each_are_held_together(followed: Followed) -> None:
    for name in "abc":
        followed.source.remove(f"conf/{name}.yaml")
        assert followed.commit()["counts"] == {"deleted": 1}
    followed.source.remove("conf/d.yaml")
    run = followed.commit()
    assert (run["counts"], run["message"]) == (
        {},
        "Nothing is deleted: 1 of 6 resources would go, after 3 within 24 hours, more than 25 percent (Destination d); "
        "restore them, or release this with `reconciler approve`.",
    )
    assert followed.names() == ["d", "e", "f"]


def test_a_file_without_anything_of_ours_holds_until_it_is_gone_or_its_resources_stand_elsewhere(
    followed: Followed,
) -> None:
    content(FOREIGN)(followed)
    followed.daemon.state_of(followed.name, "prune-held")
    followed.write("conf/c.yaml", destination("c", "edited"))
    assert (followed.commit()["counts"], followed.state()["state"]) == ({"configured": 1}, "prune-held")
    followed.write("conf/c.yaml", destination("c"), destination("b"))
    assert (followed.commit()["outcome"], followed.state()["state"]) == ("succeeded", "ready")
    content(FOREIGN, "conf/d.yaml")(followed)
    followed.daemon.state_of(followed.name, "prune-held")
    followed.source.remove("conf/d.yaml")
    assert followed.commit()["counts"] == {"deleted": 1}
    assert followed.names() == ["a", "b", "c", "e", "f"]


def test_a_file_that_gave_what_was_stored_from_elsewhere_holds_as_long_as_it_gives_nothing(followed: Followed) -> None:
    vacated(INVALID, moved_link)(followed)
    followed.daemon.state_of(followed.name, "prune-held")
    followed.write("conf/c.yaml", destination("c", "edited"))
    assert (followed.commit()["counts"], followed.state()["state"]) == ({"configured": 1}, "prune-held")
    followed.daemon.reconcile(followed.name)
    assert (followed.names(), followed.state()["state"]) == (NAMES, "prune-held")
    followed.write("conf/third.yaml", INVALID)
    assert (followed.commit()["counts"], followed.state()["state"]) == ({"invalid": 1}, "ready")
    content("", "conf/third.yaml")(followed)
    followed.daemon.state_of(followed.name, "prune-held")
    followed.source.remove("conf/third.yaml")
    assert (followed.commit()["counts"], followed.state()["state"]) == ({"deleted": 1}, "ready")
    assert followed.names() == ["a", "c", "d", "e", "f"]


def approve(followed: Followed) -> Answer:
    return followed.daemon.post(f"/v1/repositories/{followed.name}/approve", {"commit": followed.source.head()})


def settled(followed: Followed, cause: Cause) -> dict[str, Any]:
    """The repository, once it is in this state and says this, about the present head if there is one."""
    heads = followed.source.git("rev-parse", "--quiet", "--verify", "HEAD", statuses=(0, 1)).split()

    def there() -> dict[str, Any] | None:
        shown = followed.state()
        is_seen = shown["head"] in heads or not heads or cause.state == "branch-missing"
        is_told = shown["state"] == cause.state and is_read(shown["message"], cause, followed)
        return shown if is_seen and is_told else None

    return daemons.until(there, f"{followed.name} is {cause.state}: {followed.state()}")


def is_read(message: str | None, cause: Cause, followed: Followed) -> bool:
    if message is None or cause.read is None:
        return message is cause.read
    if isinstance(cause.read, tuple):
        return message.startswith(cause.read[0]) and message.endswith(cause.read[1])
    head = followed.source.git("rev-parse", "--quiet", "--verify", "HEAD", statuses=(0, 1))
    return message == cause.read.format(path=followed.source.path, head=head[:12])
