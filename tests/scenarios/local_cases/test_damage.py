"""The mirror is damaged, or what writes it is killed: it is made anew by itself, and nothing is lost meanwhile."""

import contextlib
import itertools
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pygit2
import pytest

from tests import daemons
from tests.daemons import Daemon, Followed, destination, until, watched
from tests.following import Follow
from tests.repositories import Repository
from tests.scenarios.local_cases.expectations import OFTEN, recovers
from tests.scenarios.local_cases.programs import Git

_numbers = itertools.count(1)
LARGE_BYTES = 40 << 20  # takes long enough to be met in the middle


def mirror(daemon: Daemon) -> Path:
    """The mirror that was made last."""
    made = (daemon.state / "mirrors").glob("[!.]*/config")
    return max(made, key=lambda path: path.stat().st_mtime_ns).parent


def packs(folder: Path) -> list[Path]:
    return sorted((folder / "objects/pack").iterdir())


def empty(paths: list[Path]) -> None:
    for path in paths:
        path.chmod(0o600)
        path.write_bytes(b"")


def objects(folder: Path) -> list[Path]:
    return [path for path in (folder / "objects").rglob("*") if path.is_file()]


def empty_objects(folder: Path) -> None:
    empty(packs(folder))


def cut_objects(folder: Path) -> None:
    for path in objects(folder):
        path.chmod(0o600)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def garble_objects(folder: Path) -> None:
    for path in objects(folder):
        path.chmod(0o600)
        path.write_bytes(b"\0" * path.stat().st_size)


def lose_objects(folder: Path) -> None:
    shutil.rmtree(folder / "objects")
    (folder / "objects").mkdir()


def lose_one_file(suffix: str) -> Callable[[Path], None]:
    def lose(folder: Path) -> None:
        next(path for path in packs(folder) if path.suffix == suffix).unlink()

    lose.__name__ = f"lose_{suffix[1:]}"
    return lose


def lose_everything(folder: Path) -> None:
    shutil.rmtree(folder)


def own_refs(folder: Path) -> list[Path]:
    return [path for path in (folder / "refs").rglob("*") if path.is_file()]


def empty_refs(folder: Path) -> None:
    assert own_refs(folder) != []
    empty(own_refs(folder))


def garble_refs(folder: Path) -> None:
    for path in own_refs(folder):
        path.write_text("not the name of an object\n")


def point_refs_nowhere(folder: Path) -> None:
    for path in own_refs(folder):
        path.write_text("1" * 40 + "\n")


def refs_become_folders(folder: Path) -> None:
    for path in own_refs(folder):
        path.unlink()
        (path / "below").mkdir(parents=True)
        (path / "below/it").write_text("1" * 40 + "\n")


def garble_head(folder: Path) -> None:
    (folder / "HEAD").write_text("\0\1\2")


def garble_configuration(folder: Path) -> None:
    (folder / "config").write_text("[core\n\tbare = perhaps\n")


def garble_packed_refs(folder: Path) -> None:
    (folder / "packed-refs").write_text("# pack-refs with: peeled\nnot a ref\n")


def lock_everything(folder: Path) -> None:
    """Return what a killed git leaves behind."""
    for name in (
        "HEAD",
        "config",
        "packed-refs",
        "shallow",
        *(str(path.relative_to(folder)) for path in own_refs(folder)),
    ):
        (folder / f"{name}.lock").touch()
    for name in (
        "pack/tmp_pack_x",
        "pack/tmp_idx_x",
        "pack/.tmp-1-pack-x.pack",
        "tmp_objdir-incoming-x/pack/tmp_pack_y",
    ):
        (folder / "objects" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "objects" / name).touch()


DAMAGES = [
    empty_objects,
    cut_objects,
    garble_objects,
    lose_objects,
    lose_everything,
    lose_one_file(".pack"),
    lose_one_file(".idx"),
    empty_refs,
    garble_refs,
    point_refs_nowhere,
    refs_become_folders,
    garble_head,
    garble_configuration,
    garble_packed_refs,
]
MEANWHILE = [cut_objects, garble_objects, lose_objects, lose_everything, empty_refs, lock_everything]


@pytest.mark.parametrize(
    "damage",
    [
        damage if damage in (cut_objects, empty_refs) else pytest.param(damage, marks=pytest.mark.slow)
        for damage in DAMAGES
    ],
)
def test_a_damaged_mirror_is_mended_with_the_next_commit(damage: Callable[[Path], None], followed: Followed) -> None:
    damage(mirror(followed.daemon))
    followed.write("b.yaml", destination("b", "edited"))
    run = followed.commit()
    assert (run["outcome"], run["rewound"], run["counts"]) == ("succeeded", False, {"configured": 1})
    recovers(followed)


def test_a_damaged_mirror_is_filled_with_the_head_that_is_known(filled: Repository, follow: Follow, git: Git) -> None:
    followed = follow(filled, interval="1h")
    followed.head()
    folder = mirror(followed.daemon)
    empty_objects(folder)
    assert followed.daemon.reconcile(followed.name)["outcome"] == "succeeded"
    asked = [line for line in git.lines() if str(filled.path) in line or f".{folder.name}.new" in line]
    told = {"init", "ls-remote", "upload-pack", "fetch"}
    commands = [word for line in asked for word in line.split() if word in told]
    assert " ".join(commands).rpartition("init ")[2].startswith("fetch")  # and the remote is not asked again
    recovers(followed)


def test_locks_that_something_left_are_swept_and_the_commit_is_read(followed: Followed) -> None:
    lock_everything(mirror(followed.daemon))
    followed.write("b.yaml", destination("b", "edited"))
    assert followed.commit()["outcome"] == "succeeded"
    assert followed.versions() == {"a": 1, "b": 2}
    recovers(followed)


@pytest.mark.parametrize(
    "damage",
    [
        empty_objects,
        *(
            pytest.param(damage, marks=pytest.mark.slow)
            for damage in (lose_one_file(".pack"), lose_one_file(".idx"), lose_everything)
        ),
    ],
)
def test_a_damaged_mirror_is_mended_when_the_same_commit_is_read_again(
    damage: Callable[[Path], None], followed: Followed
) -> None:
    damage(mirror(followed.daemon))
    followed.change(interval=OFTEN, acceptInvalid=True)
    until(lambda: len(followed.daemon.runs(followed.name)) == 2, "it is read again")
    run = followed.head()
    assert (run["outcome"], run["rewound"], run["counts"]) == ("succeeded", False, {"unchanged": 2})
    recovers(followed)


def test_mirrors_that_were_damaged_while_nothing_ran_are_made_anew(tmp_path: Path, filled: Repository) -> None:
    """One for each damage: all follow one repository, by links to it, into projects of their own."""
    repositories = []
    for damage in MEANWHILE:
        name = damage.__name__.replace("_", "-")
        link = tmp_path / name
        link.symlink_to(filled.path)
        repositories.append(watched(name, link, project=name))
    with daemons.running(tmp_path / "daemon", repositories=repositories) as daemon:
        for one in repositories:
            daemon.run_of(str(one["name"]), filled.head())
        daemon.stop()
        mirrors = sorted((daemon.state / "mirrors").iterdir())
        assert len(mirrors) == len(MEANWHILE)
        for damage, folder in zip(MEANWHILE, mirrors, strict=True):
            damage(folder)
        filled.remove("b.yaml")
        filled.write("teams/a.yaml", destination("a", "edited"))
        commit = filled.commit()
        daemon.start()
        for one in repositories:
            name = str(one["name"])
            run = daemon.run_of(name, commit)
            assert (name, run["outcome"], run["counts"]) == (name, "succeeded", {"configured": 1, "deleted": 1})
            assert daemon.repository(name)["message"] is None


class Shared:
    """Two branches of one repository, which two entries follow into one project from one mirror. Both hold `x`, which
    is stored from main.
    """

    def __init__(self, daemon: Daemon, source: Repository, *, name: str) -> None:
        self.daemon, self.source, self.project = daemon, source, name
        self.main, self.next = f"{name}-main", f"{name}-next"
        self.root = source.head()
        for branch, documents in (("main", "xyzuvw"), ("next", "xq")):
            source.switch(branch)
            for document in documents:
                source.write(f"{document}.yaml", destination(document, f"of {branch}"))
            commit = source.commit()
            self.follow(f"{name}-{branch}", branch)
            daemon.run_of(f"{name}-{branch}", commit)
        self.folder = mirror(daemon)

    def follow(self, name: str, branch: str, **settings: object) -> None:
        """Follow it, or change how."""
        every = {"branch": branch, "project": self.project, "interval": OFTEN, **settings}
        self.daemon.follow({**watched(name, self.source.path), **every})

    def commit(self, branch: str) -> dict[str, Any]:
        """Commit what was written on a branch, and wait for the run."""
        commit = self.source.commit()
        return self.daemon.run_of(self.main if branch == "main" else self.next, commit)

    def loses_its_mirror(self, *, others_look: bool = True) -> None:
        """It is found lost at the next commit of main, and made anew for that; whoever follows the other branch finds
        that out when it looks next, unless it is suspended.
        """
        self.source.switch("next")
        applied = self.source.head()
        self.source.switch("main")
        for path in packs(self.folder):
            path.unlink()
        self.source.write("note.txt", os.urandom(8).hex())
        assert self.daemon.applied(self.main, self.source.commit())["state"] == "ready"
        if others_look:
            until(lambda: applied in pygit2.Repository(str(self.folder)), "the mirror holds the other branch")

    def amends_next(self) -> dict[str, Any]:
        """A force-push that leaves out the commit that was applied, and has an ancestor in common with it."""
        self.source.switch("next")
        self.source.rewind(self.root)
        for document in "xq":
            self.source.write(f"{document}.yaml", destination(document, "amended"))
        return self.commit("next")


@pytest.fixture
def shared(daemon: Daemon, source: Repository) -> Iterator[Shared]:
    source.commit()
    source.branch("next")
    yield Shared(daemon, source, name=f"shared-{next(_numbers)}")
    daemon.follow_nothing()


def test_a_mirror_that_was_made_anew_for_another_holds_what_was_applied_from_it(shared: Shared) -> None:
    shared.loses_its_mirror()
    run = shared.amends_next()
    assert (run["outcome"], run["rewound"], run["counts"]) == ("partial", True, {"configured": 1, "forbidden": 1})


@pytest.mark.slow
def test_what_passes_to_another_is_read_from_a_mirror_that_was_made_anew(shared: Shared) -> None:
    shared.loses_its_mirror()
    shared.source.remove("x.yaml")
    commit = shared.source.commit()
    until(lambda: shared.daemon.repository(shared.main)["commit"] == commit, "the commit is applied")
    stored = shared.daemon.resource("Destination", "x", project=shared.project)
    assert stored is not None
    assert (stored["metadata"]["description"], stored["metadata"]["version"]) == ("of next", 2)


@pytest.mark.slow
@pytest.mark.parametrize("is_running", [True, False], ids=["pushed-afterwards", "pushed-meanwhile"])
def test_a_mirror_that_was_lost_while_nothing_ran_makes_no_other_history_of_an_amended_commit(
    tmp_path: Path, filled: Repository, is_running: bool
) -> None:
    first = filled.head()
    filled.write("c.yaml", destination("c"))
    applied = filled.commit()
    with daemons.running(tmp_path / "daemon", repositories=[watched("one", filled.path, interval=OFTEN)]) as daemon:
        daemon.run_of("one", applied)
        folder = mirror(daemon)
        daemon.stop()
        shutil.rmtree(folder)
        if is_running:
            daemon.start()
            until(lambda: list(folder.glob("objects/pack/*.pack")), "the mirror is filled though there is nothing new")
        filled.rewind(first)
        filled.write("c.yaml", destination("c", "amended"))
        commit = filled.commit()
        if not is_running:
            daemon.start()
        run = daemon.run_of("one", commit)
        assert (run["outcome"], run["rewound"], run["counts"]) == ("succeeded", True, {"configured": 1})


@pytest.mark.slow
def test_a_lost_mirror_of_a_pinned_commit_is_filled_and_read_by_its_neighbour(
    shared: Shared, source: Repository
) -> None:
    shared.follow(shared.next, "", commit=source.head("next"))
    until(lambda: len(shared.daemon.runs(shared.next)) == 2, "it is read by its id")
    shared.loses_its_mirror()
    source.remove("x.yaml")
    commit = source.commit()
    until(lambda: shared.daemon.repository(shared.main)["commit"] == commit, "the commit is applied")
    stored = shared.daemon.resource("Destination", "x", project=shared.project)
    assert stored is not None
    assert stored["metadata"]["description"] == "of next"


@pytest.mark.slow
def test_an_applied_commit_that_is_nowhere_any_more_holds_an_amended_one_until_somebody_approves_it(
    shared: Shared, source: Repository
) -> None:
    source.switch("next")
    source.rewind(shared.root)
    source.write("q.yaml", destination("q", "amended"))
    shared.follow(shared.next, "next", suspend=True)
    commit = source.commit()
    source.git("reflog", "expire", "--expire=now", "--all")
    source.git("gc", "--quiet", "--prune=now")
    shared.loses_its_mirror(others_look=False)
    shared.follow(shared.next, "next")
    run = shared.daemon.run_of(shared.next, commit)
    assert (run["outcome"], run["rewound"]) == ("refused", True)
    assert shared.daemon.state_of(shared.next, "unrelated-root")["message"] == (
        "The head has no known history in common with the commit that was applied last, so nothing of it is applied; "
        "push that history back, or release this with `reconciler approve`."
    )
    answer = shared.daemon.post(f"/v1/repositories/{shared.next}/approve", {"commit": commit})
    assert shared.daemon.finished(answer.body["run"])["counts"] == {"configured": 1}


@pytest.mark.slow
def test_a_mirror_that_cannot_be_made_anew_is_corrupt_until_it_can(followed: Followed, git: Git) -> None:
    lose_everything(mirror(followed.daemon))
    why = "cannot mkdir it: Input/output error"
    git.fail("init", f"fatal: {why}\n")
    try:
        followed.write("b.yaml", destination("b", "edited"))
        commit = followed.source.commit()
        shown = followed.daemon.state_of(followed.name, "mirror-corrupt")
        told = f"the mirror of {followed.source.path} cannot be read ({why}); it is built again by itself"
        assert shown["message"] == told
        assert followed.versions() == {"a": 1, "b": 1}
    finally:
        git.work("init")
    until(lambda: followed.state()["commit"] == commit, "the mirror is made")
    assert followed.versions() == {"a": 1, "b": 2}
    recovers(followed)


@pytest.fixture
def large(filled: Repository) -> Repository:
    filled.write("large.bin", os.urandom(LARGE_BYTES))
    filled.commit()
    return filled


@pytest.mark.slow
def test_a_git_that_is_killed_in_the_middle_of_a_fetch_leaves_nothing_behind(large: Repository, follow: Follow) -> None:
    followed = follow(large, interval=OFTEN)
    for fetching in caught(followed.daemon):
        os.killpg(fetching, signal.SIGKILL)
    shown = followed.daemon.state_of(followed.name, "unreachable")
    assert shown["message"] == f"{large.path} cannot be read (a signal ended git); mend that, and it is read"
    until(lambda: followed.versions() == {"a": 1, "b": 1}, "it is fetched again")
    assert [path.name for path in packs(mirror(followed.daemon)) if "tmp" in path.name] == []
    recovers(followed)


@pytest.mark.slow
def test_a_service_that_is_killed_in_the_middle_of_a_fetch_reads_it_at_the_next_start(
    large: Repository, tmp_path: Path
) -> None:
    with daemons.running(tmp_path / "daemon", repositories=[watched("one", large.path)]) as daemon:
        stopped = caught(daemon)
        daemon.kill()
        try:
            daemon.start()
            assert daemon.run_of("one", large.head())["counts"] == {"created": 2}
        finally:
            for fetching in stopped:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(fetching, signal.SIGCONT)
        assert daemon.state_of("one", "ready")["message"] is None
        assert [one["metadata"]["version"] for one in daemon.resources("Destination")] == [1, 1]


def caught(daemon: Daemon) -> list[int]:
    """The process groups of git, stopped as soon as a fetch has written the beginning of a pack."""

    def begun() -> bool:
        return any(path.stat().st_size > 1 << 20 for path in daemon.state.glob("mirrors/*/objects/pack/tmp_pack_*"))

    groups: list[int] = []

    def found() -> bool:
        with contextlib.suppress(FileNotFoundError):
            if not begun():
                return False
        groups.extend(child for child in daemon.children() if os.getpgid(child) == child and is_git(child))
        for group in groups:
            os.killpg(group, signal.SIGSTOP)
        return True

    daemons.until(found, "a fetch is in the middle")
    assert groups != []
    return groups


def is_git(process: int) -> bool:
    with contextlib.suppress(OSError):
        return b"fetch" in Path(f"/proc/{process}/cmdline").read_bytes()
    return False
