"""Which names may be proposed, and the ref that a commit is the tip of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.git import refs as git_refs
from reconciler.git.refs import HEAD, PATTERNS, Followed, ProposalNotFound, RefKind
from reconciler.model.errors import Refused

URL = "https://git.example/telemetry.git"
COMMIT = "1" * 40


@pytest.mark.parametrize(
    ("name", "is_allowed"),
    [
        ("refs/heads/a", True),
        ("refs/heads/a/b", True),
        ("refs/tags/v1", True),
        ("refs/pull/7/head", True),
        ("refs/pull/7/merge", True),
        ("refs/merge-requests/7/head", True),
        ("refs/pull/7", False),
        ("refs/pull/7/8/head", False),
        ("refs/pull/7/head/x", False),
        ("refs/headsx/a", False),
        ("xrefs/heads/a", False),
        ("refs/heads/", False),
        ("refs/notes/commits", False),
        ("refs/keep-around/1", False),
        ("refs/reconciler/1", False),
    ],
)
def test_names_are_allowed_by_their_patterns(name: str, is_allowed: bool) -> None:
    assert git_refs.is_allowed_proposal(name) is is_allowed


@given(st.text(max_size=50) | st.sampled_from(["refs/heads/", "refs/"]).flatmap(lambda at: st.text().map(at.__add__)))
def test_whatever_is_asked_for_is_taken_whole_or_refused_in_one_line(text: str) -> None:
    wanted, told = None, ""
    try:
        wanted = git_refs.wanted_refs(text, follows=HEAD, url=URL)
    except Refused as refused:
        told = refused.message
    assert wanted is None or wanted.full == text
    assert wanted is None or text == "HEAD" or git_refs.is_allowed_proposal(text) or wanted.kind is RefKind.COMMIT
    assert (wanted is None, "\n" in told, len(told) < 1500) == (bool(told), False, True)


def test_what_is_followed_is_wanted_as_it_is_followed() -> None:
    for follows in (HEAD, Followed(RefKind.BRANCH, "main"), Followed(RefKind.REF, "refs/custom/x")):
        assert git_refs.wanted_refs(follows.full, follows=follows, url=URL) == follows
    with pytest.raises(ProposalNotFound):
        git_refs.wanted_refs("refs/custom/x", follows=HEAD, url=URL)


def listing(*lines: tuple[str, str]) -> bytes:
    return "".join(f"{commit}\t{ref}\n" for commit, ref in lines).encode()


def test_the_tip_is_the_first_ref_by_name_that_may_be_proposed() -> None:
    other = "2" * 40
    refs = ["refs/pull/7/head", "refs/tags/v1^{}", "refs/heads/b", "refs/heads/a", "refs/heads/0..1", "refs/notes/x"]
    for count in range(len(refs), 0, -1):
        lines = listing((other, "refs/heads/0"), *((COMMIT, ref) for ref in refs[:count]))
        expected = ["refs/pull/7/head", "refs/pull/7/head", "refs/heads/b", *["refs/heads/a"] * 3][count - 1]
        assert git_refs.proposal_tip(lines, COMMIT) == expected
    for lines in (b"", listing((COMMIT, "refs/notes/x")), COMMIT.encode(), listing((other, COMMIT))):
        assert git_refs.proposal_tip(lines, COMMIT) is None


def test_the_patterns_are_those_that_git_is_asked_for() -> None:
    assert all(git_refs.is_allowed_proposal(pattern.replace("*", "x")) for pattern in PATTERNS)
