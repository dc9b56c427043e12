"""Addresses of lines at a forge."""

import pytest

from reconciler.model import forges
from reconciler.model.plan import PlanPlace, PlanTip

GITHUB = "https://github.com/team/Telemetry/blob/{commit}/{path}#L{line}"
SIDE = PlanTip(ref="main", commit="3f2a1c9")
OWN = "https://review.example.org/?c={commit}&f={path}&l={line}"


@pytest.mark.parametrize(
    ("url", "page", "pattern"),
    [
        ("https://github.com/team/Telemetry.git", "", GITHUB),
        ("https://github.com/team/Telemetry/", "", GITHUB),
        ("git@github.com:team/Telemetry.git", "", GITHUB),
        ("ssh://git@GitHub.com:22/team/Telemetry", "", GITHUB),
        ("https://ci:glcbt-secret@gitlab.com/a/b/c.git", "", "https://gitlab.com/a/b/c/-/blob/{commit}/{path}#L{line}"),
        ("ssh://git@gitlab.example.org:2222/a/b.git", "", "https://gitlab.example.org/a/b/-/blob/{commit}/{path}#L{line}"),
        ("https://codeberg.org/a/b", "", "https://codeberg.org/a/b/src/commit/{commit}/{path}#L{line}"),
        ("https://gitea.com/a/b", "", "https://gitea.com/a/b/src/commit/{commit}/{path}#L{line}"),
        ("https://git.example.org/a/b", "", ""),
        ("https://git.example.org/a/b", OWN, OWN),
        ("/srv/github/a/b.git", "https://github.com/team/Telemetry/", GITHUB),
        ("https://github.com/team/telemetry", "none", ""),
        ("https://github.com/", "", ""),
        ("https://gitlab:pass@word@gitlab.com/a/b", "", ""),
        ("https://gitlab:pass/word@gitlab.com/a/b", "", ""),
        ("http://github.com/a/b", "", ""),
        ("https://github.com.evil.example/a/b?c", "", ""),
        ("/srv/git/a", "", ""),
        ("../github.com/a", "", ""),
        ("file:///srv/github.com/a", "", ""),
        ("", "", ""),
    ],
)  # fmt: skip
def test_the_pattern_comes_from_the_page_or_from_the_host_of_the_remote(url: str, page: str, pattern: str) -> None:
    assert forges.line_pattern(url, page) == pattern


@pytest.mark.parametrize(
    ("url", "page", "pattern"),
    [
        ("https://ci:glcbt-secret@github.com/team/Telemetry.git", "", "https://github.com/team/Telemetry/commit/{commit}"),
        ("git@gitlab.com:a/b.git", "", "https://gitlab.com/a/b/-/commit/{commit}"),
        ("https://codeberg.org/a/b", "", "https://codeberg.org/a/b/commit/{commit}"),
        ("/srv/a", "https://forgejo.example.org/a/b/", "https://forgejo.example.org/a/b/commit/{commit}"),
        ("https://gitea.com/a/b", "", "https://gitea.com/a/b/commit/{commit}"),
        ("https://github.com/team/telemetry", "none", ""),
        ("https://github.com/team/telemetry", OWN, ""),
        ("https://git.example.org/a/b", "", ""),
        ("/srv/git/a", "", ""),
    ],
)  # fmt: skip
def test_a_commit_has_a_page_where_the_page_of_the_repository_is_known(url: str, page: str, pattern: str) -> None:
    assert forges.commit_pattern(url, page) == pattern


def test_an_address_holds_what_it_is_given_and_nothing_that_ends_a_part_of_it() -> None:
    place = PlanPlace(path="a b/#{line}?.yaml", line=7)
    told = "https://github.com/team/Telemetry/blob/3f2a1c9/a%20b/%23%7Bline%7D%3F.yaml#L7"
    assert forges.line_address(GITHUB, place, SIDE) == told
    assert forges.line_address("", place, SIDE) is None


def test_what_is_not_committed_has_no_address() -> None:
    assert forges.line_address(GITHUB, PlanPlace(path="a"), PlanTip(ref="x", commit="3f2a1c9", worktree=True)) is None
