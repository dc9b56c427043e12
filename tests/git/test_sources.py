"""A source."""

import pytest

from reconciler.errors import Refused
from reconciler.git.sources import Source


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("/srv/git/telemetry.git", "/srv/git/telemetry.git"),
        ("file:///srv/git/telemetry.git", "/srv/git/telemetry.git"),
        ("file://localhost/srv/a%20b", "/srv/a b"),
        ("/srv/odd:name", "/srv/odd:name"),
    ],
)
def test_is_a_path_or_a_file_url(url: str, folder: str) -> None:
    assert str(Source(url=url).folder) == folder


@pytest.mark.parametrize(
    "url",
    [
        "",
        "--upload-pack=touch /tmp/x",
        "relative/path",
        "ext::sh -c true",
        "git@example.com:a/b.git",
        "https://example.com/a.git",
        "file://example.com/a.git",
        "file:///a?b",
        "file:///a%0Ab",
        "/a\nb",
        "/a\0b",
        "/a\x1b[2J",
        "/a\u202eb",
    ],
)
def test_refuses_every_other_url(url: str) -> None:
    with pytest.raises(Refused) as refusal:
        Source(url=url)
    assert refusal.value.message.isprintable()


def test_refuses_what_is_not_local() -> None:
    with pytest.raises(Refused, match="is not on this machine"):
        Source(url="/srv/a", local=False)


@pytest.mark.parametrize("branch", ["main", "release/1.2", "a-b_c", "été", "HEAD2", "x@y"])
def test_takes_branch_names_that_git_allows(branch: str) -> None:
    assert Source(url="/srv/a", branch=branch).ref == f"refs/heads/{branch}"


@pytest.mark.parametrize(
    "branch",
    [
        *("", "-x", "--all", "a b", "a..b", "a:b", "+a~1", "a^", "a?", "*", "[a", "a\\b", "/a", "a/", "a//b", ".a"),
        *("a/.b", "a.lock", "a.lock/b", "a.", "@", "a@{1}", "a\nb", "a\0b", "a\x7f", "x" * 1025),
    ],
)
def test_refuses_branch_names_that_git_forbids(branch: str) -> None:
    with pytest.raises(Refused) as refusal:
        Source(url="/srv/a", branch=branch)
    assert refusal.value.message.isprintable()
