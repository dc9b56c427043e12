"""A source."""

import pytest

from reconciler.git.remotes.sources import Source
from reconciler.model.errors import Refused


@pytest.mark.parametrize(
    ("url", "folder", "operand"),
    [
        ("/srv/git/telemetry.git", "/srv/git/telemetry.git", "/srv/git/telemetry.git/"),
        ("file:///srv/git/telemetry.git", "/srv/git/telemetry.git", "/srv/git/telemetry.git/"),
        ("file://localhost/srv/a%20b", "/srv/a b", "/srv/a b/"),
        ("/srv/odd:name", "/srv/odd:name", "/srv/odd:name/"),
        ("https://git.example:8443/a/b.git", None, "https://git.example:8443/a/b.git"),
        ("ssh://git@git.example:2222/a/b.git", None, "ssh://git@git.example:2222/a/b.git"),
        ("git://localhost:9418/a", None, "git://localhost:9418/a"),
        ("http://[::1]:8000/a", None, "http://[::1]:8000/a"),
    ],
)
def test_is_a_folder_here_or_a_remote(url: str, folder: str | None, operand: str) -> None:
    source = Source(url=url)
    assert (source.is_local, source.folder and str(source.folder), source.operand) == (
        folder is not None,
        folder,
        operand,
    )


@pytest.mark.parametrize(
    "url",
    [
        "",
        "--upload-pack=touch /tmp/x",
        "-oProxyCommand=touch /tmp/x",
        "relative/path",
        "ext::sh -c true",
        "fd::17/a",
        "git@example.com:a/b.git",
        "ftp://example.com/a",
        "HTTPS://example.com/a",
        "http://example.com/a.git",
        "git://example.com/a.git",
        "ssh://-oProxyCommand=touch/a",
        "ssh://-oProxyCommand=touch@example.com/a",
        "https://-example.com/a",
        "https://example.com/a?b",
        "https://example.com/a\nb",
        "https://example.com/a\x1b[2J",
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


def test_does_not_repeat_a_password() -> None:
    with pytest.raises(Refused) as refusal:
        Source(url="https://bob:canary-5e1f@git.example/a")
    assert refusal.value.message == (
        "the URL of the repository must not hold a user name or password; put them under credentials"
    )
