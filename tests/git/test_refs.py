"""The ref of a remote that is followed."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.git import refs
from reconciler.git.refs import HEAD, Followed, Listing, RefHead, RefKind
from reconciler.model.errors import Refused

ONE, TWO = "1" * 40, "2" * 40

BRANCH = Followed(RefKind.BRANCH, "main")
TAG = Followed(RefKind.TAG, "v1")
REF = Followed(RefKind.REF, "refs/pull/7/head")
COMMIT = Followed(RefKind.COMMIT, ONE)


def test_is_the_one_that_the_settings_name() -> None:
    assert refs.following() == HEAD
    assert refs.following(branch="main") == BRANCH
    assert refs.following(tag="v1") == TAG
    assert refs.following(commit=ONE) == COMMIT
    assert refs.following(ref="refs/pull/7/head") == REF


@pytest.mark.parametrize(
    ("followed", "listing", "head"),
    [
        (HEAD, Listing({"HEAD": ONE}, {"HEAD": "refs/heads/main"}), RefHead("refs/heads/main", ONE)),
        (HEAD, Listing({"HEAD": ONE}, {}), RefHead("HEAD", ONE)),
        (HEAD, Listing({"HEAD": ONE}, {"HEAD": "refs/tags/v1"}), RefHead("HEAD", ONE)),
        (HEAD, Listing({"HEAD": ONE}, {"HEAD": "refs/heads/-x y"}), RefHead("HEAD", ONE)),
        (HEAD, Listing({}, {}), None),
        (BRANCH, Listing({"refs/heads/main": ONE}, {}), RefHead("refs/heads/main", ONE)),
        (BRANCH, Listing({"refs/remotes/o/refs/heads/main": ONE, "refs/tags/main": TWO}, {}), None),
        (TAG, Listing({"refs/tags/v1": ONE}, {}), RefHead("refs/tags/v1", ONE)),
        (TAG, Listing({"refs/tags/v1": ONE, "refs/tags/v1^{}": TWO}, {}), RefHead("refs/tags/v1", TWO, tag=ONE)),
        (TAG, Listing({"refs/heads/v1": ONE}, {}), None),
        (REF, Listing({"refs/pull/7/head": ONE}, {}), RefHead("refs/pull/7/head", ONE)),
        (COMMIT, Listing({}, {}), RefHead(ONE, ONE)),
    ],
)
def test_is_found_in_what_a_remote_lists(followed: Followed, listing: Listing, head: RefHead | None) -> None:
    assert followed.found(listing) == head


@pytest.mark.parametrize(
    ("head", "branch"),
    [
        (RefHead("refs/heads/team/a", ONE), "team/a"),
        (RefHead("refs/tags/v1", ONE), None),
        (RefHead("HEAD", ONE), None),
        (RefHead(ONE, ONE), None),
    ],
)
def test_has_a_short_name_only_as_a_branch(head: RefHead, branch: str | None) -> None:
    assert head.branch == branch


def test_is_kept_under_a_name_that_meets_no_other() -> None:
    nested = [Followed(RefKind.BRANCH, name) for name in ("a", "a/b", "a/b/c")]
    everything = [HEAD, BRANCH, TAG, REF, COMMIT, Followed(RefKind.TAG, "main"), *nested]
    private = [followed.private_ref for followed in everything]
    assert len(set(private)) == len(everything)
    assert not any(a != b and a.startswith(f"{b}/") for a in private for b in private)
    assert Followed(RefKind.REF, "refs/heads/main").private_ref == BRANCH.private_ref  # the same by another setting
    assert TAG.refspec(RefHead("refs/tags/v1", ONE)) == f"+refs/tags/v1:{TAG.private_ref}"


@pytest.mark.parametrize("kind", [RefKind.BRANCH, RefKind.TAG])
@pytest.mark.parametrize("name", ["main", "release/1.2", "a-b_c", "été", "HEAD2", "x@y"])
def test_takes_names_that_git_allows(kind: RefKind, name: str) -> None:
    assert Followed(kind, name).full == f"refs/{'heads' if kind is RefKind.BRANCH else 'tags'}/{name}"


@pytest.mark.parametrize(
    "name",
    [
        *("", "-x", "--all", "a b", "a..b", "a:b", "+a~1", "a^", "a?", "*", "[a", "a\\b", "/a", "a/", "a//b", ".a"),
        *("a/.b", "a.lock", "a.lock/b", "a.", "@", "a@{1}", "a\nb", "a\0b", "a\x7f", "x" * 1025),
    ],
)
@pytest.mark.parametrize("kind", [RefKind.BRANCH, RefKind.TAG, RefKind.REF])
def test_refuses_names_that_git_forbids(kind: RefKind, name: str) -> None:
    with pytest.raises(Refused) as refusal:
        Followed(kind, f"refs/{name}" if kind is RefKind.REF and name not in {"@", "-x", "--all", "/a"} else name)
    assert refusal.value.message.isprintable()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (RefKind.REF, "main"),
        (RefKind.REF, "HEAD"),
        (RefKind.COMMIT, "a" * 39),
        (RefKind.COMMIT, "A" * 40),
        (RefKind.COMMIT, "HEAD"),
    ],
)
def test_refuses_what_may_be_ambiguous(kind: RefKind, name: str) -> None:
    with pytest.raises(Refused):
        Followed(kind, name)


@given(st.text(st.sampled_from("a./@{}-~^:?*[\\ \x01é"), min_size=1, max_size=12))
def test_takes_no_name_that_git_would_not(name: str) -> None:
    try:
        full = Followed(RefKind.TAG, name).full
    except Refused:
        return
    assert subprocess.run(["git", "check-ref-format", full], check=False).returncode == 0


@given(st.binary(max_size=200))
def test_reads_whatever_a_remote_lists(data: bytes) -> None:
    found = refs.parse_listing(data)
    assert all(isinstance(name, str) for name in (*found.refs, *found.symbolic))


def test_reads_a_listing() -> None:
    text = f"ref: refs/heads/main\tHEAD\n{ONE}\tHEAD\n{TWO}\trefs/tags/v1^{{}}\n{ONE}\trefs/heads/odd\u2028name\n"
    assert refs.parse_listing(text.encode()) == Listing(
        {"HEAD": ONE, "refs/tags/v1^{}": TWO, "refs/heads/odd\u2028name": ONE}, {"HEAD": "refs/heads/main"}
    )
