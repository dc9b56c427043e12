"""The cost of a poll: nothing is fetched or read twice, and of many commits the newest alone counts."""

from pathlib import Path

import pytest

from tests.daemons import Followed, destination, until
from tests.repositories import Repository
from tests.scenarios.local_cases.expectations import OFTEN, recovers
from tests.scenarios.local_cases.programs import Git

COMMITS = 100
LOOKS = 3


def fetches(git: Git, followed: Followed) -> int:
    return len(git.calls("fetch", followed.source.path))


def looks(git: Git, followed: Followed) -> int:
    return len(git.calls("ls-remote", followed.source.path))


def written(folder: Path) -> dict[str, tuple[int, int]]:
    """When each file was last written, and how large it is. The index of a store's log is memory that is shared."""
    found = ((file, file.stat()) for file in sorted(folder.rglob("*")) if file.is_file() and file.suffix != ".db-shm")
    return {str(file): (status.st_mtime_ns, status.st_size) for file, status in found}


def test_an_unchanged_head_is_looked_at_and_not_fetched(followed: Followed, git: Git) -> None:
    before, runs = looks(git, followed), len(followed.daemon.runs(followed.name))
    until(lambda: looks(git, followed) >= before + LOOKS, "it is looked at several times")
    assert fetches(git, followed) == 1
    followed.daemon.reconcile(followed.name)
    assert fetches(git, followed) == 1
    assert len(followed.daemon.runs(followed.name)) == runs + 1  # the one that was asked for
    recovers(followed)
    assert fetches(git, followed) == 2


def test_a_look_that_finds_nothing_new_writes_nothing(followed: Followed, git: Git) -> None:
    def is_quiet() -> bool:
        before, seen = written(followed.daemon.state), looks(git, followed)
        until(lambda: looks(git, followed) >= seen + LOOKS, "it is looked at several times")
        return bool(before) and written(followed.daemon.state) == before

    until(is_quiet, "what followed the first read is written, and nothing more")


def test_other_names_of_the_same_head_change_nothing(followed: Followed) -> None:
    source = followed.source
    source.branch("also")
    for branch in ("also", "", "main"):
        followed.change(interval=OFTEN, branch=branch)
        run = followed.daemon.reconcile(followed.name)
        assert (run["outcome"], run["commit"], run["rewound"]) == ("succeeded", source.head(), False)
    assert followed.versions() == {"a": 1, "b": 1}


@pytest.mark.slow
def test_other_settings_read_the_same_commit_again_and_fetch_nothing(followed: Followed, git: Git) -> None:
    followed.change(interval=OFTEN, allow={"kinds": ["*"], "names": ["a"]})
    until(lambda: len(followed.daemon.runs(followed.name)) == 2, "it is read again")
    run = followed.head()
    assert (run["trigger"], run["counts"]) == ("reload", {"unchanged": 1, "forbidden": 1})
    assert fetches(git, followed) == 1
    assert followed.versions() == {"a": 1, "b": 1}


def test_of_a_hundred_commits_the_newest_is_applied(followed: Followed) -> None:
    """Each is a push of its own, as fast as Git writes them; what is between two looks is never applied."""
    source = followed.source
    commits = chain(source)
    for commit in commits:
        source.git("update-ref", "refs/heads/main", commit)
    run = followed.daemon.run_of(followed.name, commits[-1])
    assert run["outcome"] == "succeeded"
    stored = followed.destination("b")
    assert stored is not None
    assert stored["metadata"]["description"] == f"number {COMMITS - 1}"
    applied = [commits.index(one["commit"]) for one in followed.daemon.runs(followed.name)[:-1]]
    assert applied == sorted(applied, reverse=True)
    assert len(applied) < COMMITS / 2
    assert stored["metadata"]["version"] == 1 + len(applied)


def chain(source: Repository) -> list[str]:
    """Commits upon `main` that no branch leads to yet; each writes b.yaml."""
    pieces = [b"reset refs/burst/tip\nfrom refs/heads/main^0\n"]
    for number in range(COMMITS):
        content = destination("b", f"number {number}").encode()
        pieces.append(b"commit refs/burst/tip\ncommitter Ada <ada@example.com> 1800000000 +0000\ndata 0\n")
        pieces.append(b"M 100644 inline b.yaml\ndata %d\n%s\n" % (len(content), content))
    source.git("fast-import", "--quiet", data=b"".join(pieces))
    return source.git("rev-list", "--reverse", "main..refs/burst/tip").split()
