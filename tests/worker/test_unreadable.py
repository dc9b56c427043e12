"""An unreadable file deletes nothing: the repository says which file holds it up, and all else is applied."""

from typing import Any

import pytest

from reconciler.planner.pruning import LEAVE_OUT
from tests import daemons
from tests.daemons import Followed, destination, statuses
from tests.following import Follow, holding
from tests.repositories import Repository

FILE_BYTES = 5 * 1024 * 1024
SUBMODULE = "1" * 40


NAMES = ("bad", "edit", "keep")


@pytest.fixture
def followed(source: Repository, follow: Follow) -> Followed:
    """Three resources in three files: `keep` stays as it is, `edit` and `bad` are for the tests."""
    return holding(source, follow, "keep", "edit", "bad")


def held(followed: Followed, place: str) -> str:
    """Commit: the edit is applied, and nothing is deleted because of `place`; the message."""
    followed.write("edit.yaml", destination("edit", "edited"))
    run = followed.commit()
    assert (run["outcome"], statuses(run).get("edit")) == ("partial", "configured")
    assert followed.versions() == {"bad": 1, "edit": 2, "keep": 1}
    state = followed.state()
    assert (state["state"], state["commit"], state["message"]) == ("prune-held", followed.source.head(), run["message"])
    assert run["message"].startswith(f"{place}: ")
    assert "Until then nothing is deleted" in run["message"]
    assert followed.daemon.get("/readyz").status == 200
    return str(run["message"])


def mended(followed: Followed) -> None:
    """Delete the bad file: what it gave goes."""
    followed.source.remove("bad.yaml")
    run = followed.commit()
    assert (run["outcome"], run["counts"], run["message"]) == ("succeeded", {"deleted": 1}, None)
    assert followed.names() == ["edit", "keep"]
    assert followed.state()["state"] == "ready"


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

UNREADABLE: dict[str, tuple[bytes, str]] = {
    "bad YAML": (b"kind: Destination\n  metadata: [\n", "bad.yaml:2:11"),
    "not UTF-8": (b"kind: Destination # \xff\n", "bad.yaml:1:21"),
    "NUL": (b"kind: Desti\0nation\n", "bad.yaml:1:12"),
    "empty": (b"", "bad.yaml:1:1"),
    "comments alone": (b"# nothing\n---\n# more\n", "bad.yaml:1:1"),
    "6 MB": (b"# " + b"x" * 6_000_000, "bad.yaml:1:1"),
    "an alias bomb": (BOMB.encode(), "bad.yaml:5:36"),
    "deep nesting": (b"[" * 100_000, "bad.yaml:1:101"),
    "two documents, the second broken": (destination("bad").encode() + b"---\na: b: c\n", "bad.yaml:8:5"),
    "a typo in the kind": (destination("bad").replace("Destination", "Destinaton").encode(), "bad.yaml:2:7"),
    "no name": (destination("bad").replace("name: bad, ", "").encode(), "bad.yaml:4:3"),
    "a name that is no name": (destination("bad").replace("name: bad", "name: -").encode(), "bad.yaml:4:10"),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_a_file_that_cannot_be_read_holds_deletions(what: str, followed: Followed) -> None:
    content, place = UNREADABLE[what]
    followed.source.write("bad.yaml", content)
    held(followed, place)
    mended(followed)


def test_a_symbolic_link_in_place_of_a_file_holds_deletions(followed: Followed) -> None:
    followed.source.remove("bad.yaml")
    followed.source.link("bad.yaml", "keep.yaml")
    assert "is a symbolic link, which is not followed" in held(followed, "bad.yaml:1:1")
    mended(followed)


def test_a_pointer_of_git_lfs_in_place_of_a_file_holds_deletions(followed: Followed) -> None:
    followed.source.write("bad.yaml", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n")
    message = held(followed, "bad.yaml:1:1")
    assert "is a pointer of Git LFS, which is not followed" in message
    assert message.count("bad.yaml") == 1  # told once, and not again as a file that is not read
    mended(followed)


def test_a_link_left_where_a_file_was_moved_from_holds_nothing(followed: Followed) -> None:
    followed.source.move("bad.yaml", "moved/bad.yaml")
    followed.source.link("bad.yaml", "moved/bad.yaml")
    run = followed.commit()
    assert (run["outcome"], run["counts"], run["message"]) == (
        "succeeded",
        {"unchanged": 1},
        "bad.yaml is not read: it is a symbolic link, which is not followed.",
    )


@pytest.mark.parametrize("ending", ["YAML", "Yml"])
def test_a_file_renamed_to_an_ending_in_capitals_deletes_nothing(followed: Followed, ending: str) -> None:
    followed.source.move("bad.yaml", f"BAD.{ending}")
    run = followed.commit()
    assert (run["outcome"], run["counts"], run["message"]) == ("succeeded", {"unchanged": 1}, None)
    assert followed.names() == ["bad", "edit", "keep"]
    followed.source.remove(f"BAD.{ending}")
    assert followed.commit()["counts"] == {"deleted": 1}


def test_a_submodule_in_place_of_a_file_holds_deletions(followed: Followed) -> None:
    source = followed.source
    keep, edited = source.blob(destination("keep").encode()), source.blob(destination("edit", "edited").encode())
    entries = [("160000", b"bad.yaml", SUBMODULE), ("100644", b"edit.yaml", edited), ("100644", b"keep.yaml", keep)]
    run = followed.daemon.run_of(followed.name, source.commit_tree(source.tree(*entries)))
    assert (run["outcome"], run["counts"]) == ("partial", {"configured": 1})
    assert "bad.yaml:1:1: gave resources and now is a submodule" in run["message"]
    assert followed.names() == ["bad", "edit", "keep"]
    run = followed.daemon.run_of(followed.name, source.commit_tree(source.tree(*entries[1:])))
    assert (run["counts"], followed.names()) == ({"deleted": 1}, ["edit", "keep"])


def test_links_and_submodules_that_never_gave_anything_are_nothing(source: Repository, follow: Follow) -> None:
    blob, target = source.blob(destination("a").encode()), source.blob(b"a.yaml")
    entries = [
        ("100644", b"a.yaml", blob),
        ("120000", b"link.yaml", target),
        ("160000", b"module.yaml", SUBMODULE),
        ("160000", b"vendor", SUBMODULE),
    ]
    source.commit_tree(source.tree(*entries))
    run = follow(source).head()
    told = [
        "link.yaml is not read: it is a symbolic link, which is not followed.",
        "module.yaml is not read: it is a submodule, which is not followed.",
        "vendor is not read: it is a submodule, which is not followed.",
    ]
    assert (run["outcome"], run["counts"], run["message"]) == ("succeeded", {"created": 1}, " ".join(told))


def test_a_name_that_no_file_should_have_is_told_and_the_daemon_lives(followed: Followed) -> None:
    source = followed.source
    entries = [("100644", name, source.blob(destination(name[:3].decode()).encode())) for name in (b"bad.yaml",)]
    odd = source.blob(destination("odd").encode())
    tree = source.tree(*entries, ("100644", b"o\xffd.yaml", odd), ("100644", b"turned\xe2\x80\xaelmay.yaml", odd))
    run = followed.daemon.run_of(followed.name, source.commit_tree(tree))
    assert run["phase"] == "finished"
    assert "odd" not in followed.names()
    assert followed.daemon.get("/readyz").status == 200


def test_a_file_renamed_to_a_name_that_no_file_should_have_deletes_nothing(followed: Followed) -> None:
    source = followed.source
    blobs = {name: source.blob(destination(name).encode()) for name in ("bad", "edit", "keep")}
    named = [("100644", name.encode(), blobs[name.split(".")[0]]) for name in ("edit.yaml", "keep.yaml")]
    tree = source.tree(("100644", b"bad\\d.yaml", blobs["bad"]), *named)
    run = followed.daemon.run_of(followed.name, source.commit_tree(tree))
    assert (run["outcome"], run["counts"]) == ("partial", {"invalid": 1})
    assert "has a name that no file should have; rename it. Until then nothing is deleted" in run["message"]
    edited = ("100644", b"edit.yaml", source.blob(destination("edit", "edited").encode()))
    tree = source.tree(("100644", b"bad\\d.yaml", source.blob(destination("new").encode())), edited, named[1])
    run = followed.daemon.run_of(followed.name, source.commit_tree(tree))
    assert (run["outcome"], run["counts"]) == ("partial", {"configured": 1, "invalid": 1})
    assert followed.names() == ["bad", "edit", "keep"]


@pytest.mark.parametrize("mode", ["120000", "160000"])
def test_a_link_named_as_an_ignore_file_holds_everything_below_it(followed: Followed, mode: str) -> None:
    source = followed.source
    rules = SUBMODULE if mode == "160000" else source.blob(b"bad.yaml")

    def commit(text: str, *more: tuple[str, bytes, str]) -> dict[str, Any]:
        kept = [name for name in NAMES if name != "bad"]
        files = [("100644", f"{name}.yaml".encode(), source.blob(destination(name, text).encode())) for name in kept]
        return followed.daemon.run_of(followed.name, source.commit_tree(source.tree(*more, *files)))

    for text in ("first", "second"):
        run = commit(text, (mode, b".serviceignore", rules))
        assert (run["outcome"], run["counts"]) == ("partial", {"invalid": 1})
        assert run["message"].startswith(".serviceignore:1:1: says which files count and cannot be read, so nothing ")
        assert "which is not followed; make it a regular file, or remove it. Until then nothing is" in run["message"]
        assert followed.versions() == {"bad": 1, "edit": 1, "keep": 1}
    assert commit("third")["counts"] == {"configured": 2, "deleted": 1}


IGNORING = "hidden.yaml\r\n"
UNUSABLE = {
    "too many patterns": (b"x\n" * 2_000, "has 2000 patterns, and at most 1000 are allowed; use wildcards"),
    "too large": (b"#" * 70_000, "the file has 70000 bytes, and at most 65536 are read; split it"),
    "UTF-16 with a mark": (IGNORING.encode("utf-16"), "UTF-16, which PowerShell writes (byte 0xFF); save it as UTF-8"),
    "big-endian UTF-16 with a mark": (b"\xfe\xff" + IGNORING.encode("utf-16-be"), "(byte 0xFE); save it as UTF-8"),
    "UTF-16 without a mark": (IGNORING.encode("utf-16-le"), "PowerShell writes (a NUL character); save it as UTF-8"),
    "Latin-1": (b"h\xe9dden.yaml\n", "its text is not UTF-8 (byte 0xE9); save it as UTF-8"),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_below_an_ignore_file_that_cannot_be_used_nothing_changes_until_it_is_mended(
    what: str, source: Repository, follow: Follow
) -> None:
    rules, why = UNUSABLE[what]
    for path in ("team/moved.yaml", "team/gone.yaml", "other.yaml"):
        source.write(path, destination(path.rpartition("/")[2].removesuffix(".yaml")))
    source.write("team/.serviceignore", "hidden.yaml\n")
    source.write("team/hidden.yaml", destination("hidden"))
    source.commit()
    followed = follow(source)
    assert followed.head()["counts"] == {"created": 3}
    source.write("team/.serviceignore", rules)
    source.write("team/moved.yaml", destination("moved", "edited"))
    source.remove("team/gone.yaml")
    source.write("other.yaml", destination("other", "edited"))
    run = followed.commit()
    assert (run["outcome"], run["counts"]) == ("partial", {"configured": 1, "invalid": 1})
    assert run["message"].startswith("team/.serviceignore:1:1: ")
    assert run["message"].endswith(f"{why}. Until then nothing is deleted. {LEAVE_OUT}")
    # The next commit is read from what changed, and everything anew when somebody asks for it.
    source.write("team/new.yaml", destination("new"))
    source.write("other.yaml", destination("other", "again"))
    run = followed.commit()
    assert (run["counts"], followed.state()["state"]) == ({"configured": 1, "invalid": 1}, "prune-held")
    followed.daemon.reconcile(followed.name)
    assert followed.versions() == {"gone": 1, "moved": 1, "other": 3}
    source.write("team/.serviceignore", b"\xef\xbb\xbf" + IGNORING.encode())  # a mark before UTF-8 is no fault
    run = followed.commit()
    assert (run["outcome"], run["counts"]) == (
        "succeeded",
        {"created": 1, "configured": 1, "deleted": 1, "unchanged": 1},
    )
    assert (followed.versions(), followed.state()["state"]) == ({"moved": 2, "new": 1, "other": 3}, "ready")


@pytest.mark.parametrize("mode", ["120000", "160000"])
def test_a_folder_that_becomes_a_link_or_a_submodule_deletes_nothing(
    source: Repository, follow: Follow, mode: str
) -> None:
    source.write("team/a.yaml", destination("a"))
    source.write("b.yaml", destination("b"))
    source.commit()
    followed = follow(source)
    followed.head()
    target = SUBMODULE if mode == "160000" else source.blob(b"elsewhere")
    kept = ("100644", b"b.yaml", source.blob(destination("b").encode()))
    run = followed.daemon.run_of(followed.name, source.commit_tree(source.tree(kept, (mode, b"team", target))))
    assert (run["outcome"], run["counts"]) == ("partial", {})
    assert run["message"].startswith("team:1:1: gave resources and now is a ")
    edited = ("100644", b"b.yaml", source.blob(destination("b", "edited").encode()))
    again = source.commit_tree(source.tree(edited, (mode, b"team", target)))
    run = followed.daemon.run_of(followed.name, again)
    assert (run["outcome"], run["counts"], followed.names()) == ("partial", {"configured": 1}, ["a", "b"])
    run = followed.daemon.run_of(followed.name, source.commit_tree(source.tree(edited)))
    assert (run["outcome"], run["counts"], followed.names()) == ("succeeded", {"deleted": 1}, ["b"])


def test_several_bad_files_are_all_named_and_others_counted(followed: Followed) -> None:
    for number in range(7):
        followed.source.write(f"x{number}.yaml", "a: b: c\n")
    followed.source.remove("bad.yaml")
    run = followed.commit()
    message = run["message"]
    assert "(1 would go)" in message
    assert [f"x{number}.yaml:1:5: " in message for number in range(7)] == [True] * 5 + [False] * 2
    assert message.endswith(f"; and 2 more. Until then nothing is deleted (1 would go). {LEAVE_OUT}")
    assert run["counts"] == {"invalid": 7}
    assert followed.names() == ["bad", "edit", "keep"]
    followed.source.remove("x*.yaml")
    assert followed.commit()["counts"] == {"deleted": 1}


def test_what_was_held_is_deleted_although_the_fix_touches_another_file(followed: Followed) -> None:
    followed.source.remove("bad.yaml")
    followed.source.write("broken.yaml", "a: [\n")
    assert followed.commit()["counts"] == {"invalid": 1}
    followed.write("keep.yaml", destination("keep", "meanwhile"))
    assert followed.commit()["counts"] == {"configured": 1, "invalid": 1}
    followed.write("broken.yaml", destination("new"))
    assert followed.commit()["counts"] == {"created": 1, "deleted": 1}
    assert followed.names() == ["edit", "keep", "new"]


def test_what_was_held_is_deleted_although_the_repository_was_away_meanwhile(followed: Followed) -> None:
    source = followed.source
    followed.change(interval="100ms")
    followed.source.remove("bad.yaml")
    source.write("broken.yaml", "a: [\n")
    followed.commit()
    away = source.path.with_name("away")
    source.path.rename(away)
    followed.daemon.state_of(followed.name, "unreachable")
    away.rename(source.path)
    source.remove("broken.yaml")
    run = followed.commit()
    assert (run["outcome"], run["counts"]) == ("succeeded", {"deleted": 1})
    assert followed.names() == ["edit", "keep"]


def test_a_head_without_any_resource_deletes_nothing(followed: Followed) -> None:
    for name in ("keep", "edit", "bad"):
        followed.source.remove(f"{name}.yaml")
    followed.source.write("README.md", "moved")
    run = followed.commit()
    message = (
        "The head holds no resource at all, so nothing is deleted; 3 stay as they were: restore them, or release this "
        "with `reconciler approve`."
    )
    assert (run["outcome"], run["counts"], run["message"]) == ("partial", {}, message)
    state = followed.state()
    assert (state["state"], state["message"], state["commit"]) == ("empty", message, followed.source.head())
    assert followed.versions() == {"bad": 1, "edit": 1, "keep": 1}
    for name in ("keep", "edit"):
        followed.write(f"{name}.yaml", destination(name))
    assert followed.commit()["counts"] == {"unchanged": 2, "deleted": 1}
    assert followed.state()["state"] == "ready"


def test_a_serviceignore_that_hides_everything_deletes_nothing(followed: Followed) -> None:
    followed.source.write(".serviceignore", "*\n")
    run = followed.commit()
    assert (run["outcome"], run["counts"], followed.state()["state"]) == ("partial", {}, "empty")
    assert followed.names() == ["bad", "edit", "keep"]
    followed.source.remove(".serviceignore")
    assert followed.commit()["counts"] == {"unchanged": 3}
    assert followed.state()["state"] == "ready"


def test_a_protected_resource_stays(source: Repository, follow: Follow) -> None:
    source.write("a.yaml", destination("a", labels={"service/prune": "disabled"}))
    source.write("b.yaml", destination("b"))
    source.write("c.yaml", destination("c"))
    source.commit()
    followed = follow(source)
    followed.head()
    source.remove("a.yaml")
    source.remove("b.yaml")
    run = followed.commit()
    assert (run["outcome"], statuses(run)) == ("succeeded", {"b": "deleted"})
    assert followed.names() == ["a", "c"]


def test_without_prune_nothing_is_deleted(source: Repository, follow: Follow) -> None:
    source.write("a.yaml", destination("a"))
    source.write("b.yaml", destination("b"))
    source.commit()
    followed = follow(source, prune={"enabled": False})
    followed.head()
    source.remove("a.yaml")
    assert followed.commit()["counts"] == {}
    assert followed.names() == ["a", "b"]
    followed.change(prune={"enabled": True})
    daemons.until(lambda: len(followed.daemon.runs(followed.name)) == 3, "everything is read again")
    assert followed.head()["counts"] == {"unchanged": 1, "deleted": 1}


def test_without_prune_a_file_that_cannot_be_read_is_told_all_the_same(source: Repository, follow: Follow) -> None:
    source.write("a.yaml", destination("a"))
    source.write("bad.yaml", "a: b: c\n")
    source.commit()
    run = follow(source, prune={"enabled": False}).head()
    assert run["outcome"] == "partial"
    assert "bad.yaml:1:5: " in run["message"]
