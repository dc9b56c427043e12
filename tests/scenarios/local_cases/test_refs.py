"""Tags, commits and any other ref: followed where they lead, moved, deleted and of every kind."""

from collections.abc import Callable

import pytest

from tests.daemons import Followed, destination, statuses, until
from tests.following import Follow
from tests.repositories import Repository
from tests.scenarios.local_cases.expectations import stays
from tests.scenarios.local_cases.programs import Git

SELDOM = "1h"  # so that what is seen is seen by its event
PULL = "refs/pull/7/head"


def lightweight(source: Repository, at: str) -> None:
    source.git("tag", "--force", "v1", at)


def annotated(source: Repository, at: str) -> None:
    source.git("tag", "--force", "--annotate", "--message=The first", "v1", at)


def tag_of_a_tag(source: Repository, at: str) -> None:
    source.git("tag", "--force", "--annotate", "--message=Inside", "inside", at)
    source.git("tag", "--force", "--annotate", "--message=Around it", "v1", "inside")


TAGS = [annotated, *(pytest.param(tag, marks=pytest.mark.slow) for tag in (lightweight, tag_of_a_tag))]


def another(source: Repository, description: str) -> str:
    """A commit that main is at and that nothing which is followed leads to."""
    source.write("b.yaml", destination("b", description))
    return source.commit()


def is_at(followed: Followed, commit: str) -> dict[str, str]:
    """Return what the run did that brought it to this commit."""

    def there() -> bool:
        shown = followed.state()
        return (shown["state"], shown["commit"]) == ("ready", commit)

    until(there, f"{commit} is applied")
    [newest, *_] = followed.daemon.runs(followed.name)
    assert (newest["commit"], newest["outcome"]) == (commit, "succeeded")
    return statuses(followed.daemon.run(newest["id"]))


@pytest.mark.parametrize("tag", TAGS)
def test_a_tag_is_followed_where_it_leads_and_moved_and_deleted(
    tag: Callable[[Repository, str], None], filled: Repository, follow: Follow
) -> None:
    first = filled.head()
    tag(filled, first)
    second = another(filled, "not tagged yet")
    followed = follow(filled, interval=SELDOM, branch="", tag="v1")
    assert is_at(followed, first) == {"a": "created", "b": "created"}
    tag(filled, second)
    assert is_at(followed, second) == {"b": "configured"}
    filled.git("tag", "--delete", "v1")
    shown = followed.daemon.state_of(followed.name, "branch-missing")
    assert shown["message"] == f"{filled.path} has no tag v1; name another with `tag`"
    assert followed.versions() == {"a": 1, "b": 2}
    tag(filled, first)
    assert is_at(followed, first) == {"b": "configured"}
    assert followed.versions() == {"a": 1, "b": 3}


@pytest.mark.slow
def test_a_tag_that_becomes_annotated_at_the_same_commit_changes_nothing(
    filled: Repository, follow: Follow, git: Git
) -> None:
    lightweight(filled, "HEAD")
    followed = follow(filled, interval="100ms", branch="", tag="v1")
    is_at(followed, filled.head())
    annotated(filled, "HEAD")
    looks = len(git.calls("ls-remote", filled.path))
    until(lambda: len(git.calls("ls-remote", filled.path)) > looks + 1, "the new tag is looked at")
    assert len(followed.daemon.runs(followed.name)) == 1
    assert followed.state()["state"] == "ready"
    assert len(git.calls("fetch", filled.path)) == 2  # the tag is an object now, which may be signed


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["blob", "tree"])
def test_a_tag_that_leads_to_no_commit_says_so(kind: str, followed: Followed) -> None:
    source = followed.source
    source.git("tag", "v1", "HEAD:b.yaml" if kind == "blob" else "HEAD:teams")
    followed.change(interval=SELDOM, branch="", tag="v1")
    told = f"the tag v1 of {source.path} names no commit; let it name one, or another with `tag`"
    stays(followed, "unsupported-format", told)
    lightweight(source, "main")
    assert followed.daemon.state_of(followed.name, "ready")["message"] is None


@pytest.mark.slow
def test_a_branch_and_a_tag_of_one_name_are_two_things(filled: Repository, follow: Follow) -> None:
    first = filled.head()
    filled.git("tag", "main", first)
    second = another(filled, "of the branch")
    followed = follow(filled, interval=SELDOM, branch="", tag="main")
    assert is_at(followed, first) == {"a": "created", "b": "created"}
    followed.change(interval=SELDOM, branch="main")
    assert is_at(followed, second) == {"b": "configured"}


def test_a_commit_stays_whatever_the_branches_do(filled: Repository, follow: Follow) -> None:
    first = filled.head()
    second = another(filled, "later")
    followed = follow(filled, interval=SELDOM, branch="", commit=first)
    assert is_at(followed, first) == {"a": "created", "b": "created"}
    another(filled, "later still")
    filled.delete_branch("main")
    assert followed.daemon.reconcile(followed.name)["commit"] == first
    assert followed.versions() == {"a": 1, "b": 1}
    followed.change(interval=SELDOM, branch="", commit=second)
    assert is_at(followed, second) == {"b": "configured"}


@pytest.mark.slow
def test_a_commit_that_is_not_there_says_so_until_it_is(followed: Followed) -> None:
    source = followed.source
    later = source.git("commit-tree", "-m", "Later", "-p", "HEAD", "HEAD^{tree}")
    stored = source.path / ".git/objects" / later[:2] / later[2:]
    kept = source.path / "kept"
    stored.rename(kept)
    followed.change(interval="200ms", branch="", commit=later)
    stays(followed, "branch-missing", f"{source.path} has no commit {later}; name another with `commit`")
    kept.rename(stored)
    assert is_at(followed, later) == {}


def test_the_head_of_a_pull_request_is_followed_pushed_and_closed(filled: Repository, follow: Follow) -> None:
    main = filled.head()
    filled.git("update-ref", PULL, main)
    followed = follow(filled, interval=SELDOM, branch="", ref=PULL)
    assert is_at(followed, main) == {"a": "created", "b": "created"}
    pushed = another(filled, "pushed")
    filled.git("update-ref", PULL, pushed)
    assert is_at(followed, pushed) == {"b": "configured"}
    filled.git("update-ref", "-d", PULL)
    shown = followed.daemon.state_of(followed.name, "branch-missing")
    assert shown["message"] == f"{filled.path} has no ref {PULL}; name another with `ref`"
    assert followed.versions() == {"a": 1, "b": 2}
    filled.git("update-ref", PULL, main)
    assert is_at(followed, main) == {"b": "configured"}


@pytest.mark.slow
def test_the_full_name_of_a_branch_is_the_branch(followed: Followed, git: Git) -> None:
    followed.change(interval=SELDOM, branch="", ref="refs/heads/main")
    until(lambda: len(followed.daemon.runs(followed.name)) == 2, "it is read again")
    assert followed.head()["counts"] == {"unchanged": 2}
    assert len(git.calls("fetch", followed.source.path)) == 1
    assert is_at(followed, another(followed.source, "by its full name")) == {"b": "configured"}
