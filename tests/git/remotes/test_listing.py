"""What a repository on this machine lists is what `git ls-remote` says of it."""

import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reconciler.git import refs
from reconciler.git.refs import Listing
from reconciler.git.remotes import local_repositories
from tests.needs import require
from tests.repositories import Repository

COMMIT, TAG = "a" * 40, "b" * 40


def listed(repository: Repository, *names: str) -> Listing:
    told = subprocess.run(
        [require("git"), *local_repositories.COMMAND, f"{repository.path}/"],
        input=local_repositories.listing_request(names),
        env={"GIT_PROTOCOL": "version=2"},
        check=True,
        capture_output=True,
    )
    return local_repositories.parse_listing(told.stdout)


def by_ls_remote(repository: Repository, *names: str) -> Listing:
    asked = [one for name in names for one in (name, f"{name}^{{}}")]
    return refs.parse_listing(repository.git("ls-remote", "--symref", "--", f"{repository.path}/", *asked).encode())


def test_every_sort_of_ref_is_told_as_by_ls_remote(origin: Repository) -> None:
    origin.git("tag", "light")
    origin.git("tag", "--annotate", "--message=one", "v1")
    origin.git("tag", "--annotate", "--message=of a tag", "v2", "v1")
    origin.git("update-ref", "refs/pull/7/head", origin.commit())
    origin.git("symbolic-ref", "refs/heads/alias", "refs/heads/main")
    origin.branch("wörter")
    names = [*(f"refs/tags/{tag}" for tag in ("light", "v1", "v2")), "refs/pull/7/head", "HEAD", "refs/heads/gone"]
    names += ["refs/heads/alias", "refs/heads/main", "refs/heads/wörter"]
    assert listed(origin, *names) == by_ls_remote(origin, *names)
    origin.git("pack-refs", "--all")
    assert listed(origin, *names) == by_ls_remote(origin, *names)
    origin.git("config", "transfer.hideRefs", "refs/pull")
    assert listed(origin, *names) == by_ls_remote(origin, *names)
    origin.git("checkout", "--detach", "--quiet")
    assert listed(origin, *names) == by_ls_remote(origin, *names)


def test_of_a_repository_without_a_commit_there_is_nothing(origin: Repository) -> None:
    empty = Repository.init(origin.path.parent / "empty")
    assert listed(empty, "HEAD", "refs/heads/main") == Listing({}, {})


def line(text: str) -> str:
    return f"{len(text) + 4:04x}{text}"


@pytest.mark.parametrize(
    "output",
    [
        "",
        "0000more",
        "0000" * 2,
        "0001",
        "0004",
        "00",
        "-001",
        line(f"{COMMIT} HEAD\n"),
        line(f"{COMMIT} HEAD\n")[:-1] + "0000",
        line("unborn HEAD\n") + "0000",
        line(f"{COMMIT[1:]} HEAD\n") + "0000",
        line(f"{COMMIT}\n") + "0000",
        line(f"{TAG} refs/tags/v1 peeled:\n") + "0000",
        line("ERR no\n"),
        "fatal: not a git repository\n",
    ],
)
def test_anything_else_is_no_answer(output: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - what it says is shown to nobody
        local_repositories.parse_listing(output.encode())


@given(st.binary(max_size=60))
@example(line(f"{TAG} refs/tags/v1 peeled:{COMMIT}\n").encode() + b"0000")
def test_whatever_comes_is_read_or_refused(output: bytes) -> None:
    try:
        found = local_repositories.parse_listing(output)
    except ValueError:
        return
    assert all(map(refs.OBJECT_ID.fullmatch, found.refs.values()))
