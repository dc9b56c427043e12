"""The facts of commits that people read: author, subject and date, whatever strangers write."""

import asyncio
import shutil
from pathlib import Path

import pytest

from reconciler.git.refs import RefHead
from reconciler.git.remotes.commit_facts import SUBJECT_CHARACTERS, CommitFacts
from reconciler.git.remotes.following import Following, Remotes
from tests.git.remotes import followings
from tests.git.remotes.shims import Shim
from tests.repositories import Repository

pytestmark = pytest.mark.anyio

ABSENT = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # of a tree, and of no commit here


@pytest.fixture
def origin(tmp_path: Path) -> Repository:
    return Repository.init(tmp_path / "origin")


def follow(remotes: Remotes, origin: Repository) -> Following:
    return remotes.follow(followings.source(origin, followings.branch("main")))


async def told(following: Following, commit: str) -> CommitFacts | None:
    await following.read_facts(commit)
    return following.facts(commit)


def raw_commit(origin: Repository, message: bytes, *, author: bytes, header: bytes = b"") -> str:
    """Make a commit that git itself would not write, and have the branch at it."""
    tree = origin.git("hash-object", "-w", "-t", "tree", "/dev/null")
    whole = b"tree %b\nauthor %b\ncommitter Ada <ada@example.com> 1750000000 +0000\n%b\n%b"
    data = whole % (tree.encode(), author, header, message)
    commit = origin.git("hash-object", "-w", "-t", "commit", "--literally", "--stdin", data=data)
    return origin.lead_to(commit)


async def test_are_unknown_until_they_are_read_from_the_mirror(remotes: Remotes, origin: Repository) -> None:
    commit = origin.commit("Send the logs of the edge to the SIEM\n\nIt asked for them.")
    following = follow(remotes, origin)
    assert await told(following, commit) is None
    assert not following.path.exists()
    await followings.brought(following)
    assert following.facts(commit) is None
    found = await told(following, commit)
    assert found is not None
    when = origin.git("log", "-1", "--date=format-local:%Y-%m-%dT%H:%M:%S.000Z", "--format=%ad")
    subject = "Send the logs of the edge to the SIEM"
    assert found == CommitFacts(commit, "Ada Lovelace <ada@example.com>", subject, when)
    assert following.facts(None) is None


async def test_are_read_once_for_all_that_follow_the_remote(
    remotes: Remotes, origin: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = Shim(tmp_path / "shim", monkeypatch)
    commit = origin.commit()
    one, other = follow(remotes, origin), remotes.follow(followings.source(origin))
    await followings.brought(one)
    await asyncio.gather(*(each.read_facts(commit, None, commit) for each in (one, other, one)))
    assert shim.count("log") == 1
    shutil.rmtree(one.path)
    assert await told(other, commit) is not None


async def test_are_unknown_of_what_is_no_commit(remotes: Remotes, origin: Repository) -> None:
    origin.commit()
    following = follow(remotes, origin)
    await followings.brought(following)
    assert (await told(following, ABSENT), await told(following, "0" * 40)) == (None, None)


LONG = "x" * 1_000


@pytest.mark.parametrize(
    ("message", "subject"),
    [
        (b"", ""),
        (b"\n\n", ""),
        (b"Two\nlines\n\nand a body", "Two lines"),
        (b"<b>Bold</b> & `quoted`", "<b>Bold</b> & `quoted`"),
        (b"red \x1b[31m", "red \x1b[31m"),  # data: whoever shows it escapes it
        (b"forged\x0bline", "forged"),
        ("forged\u2028line".encode(), "forged"),
        (b"\xff\xfe raw", "\ufffd\ufffd raw"),
        (LONG.encode(), LONG[:SUBJECT_CHARACTERS]),
        (b"$(touch x) %an %s", "$(touch x) %an %s"),
    ],
)
async def test_the_subject_is_one_bounded_line(
    remotes: Remotes, origin: Repository, message: bytes, subject: str
) -> None:
    commit = raw_commit(origin, message, author=b"Ada <ada@example.com> 1750000000 +0000")
    following = follow(remotes, origin)
    await followings.brought(following)
    found = await told(following, commit)
    assert found == CommitFacts(commit, "Ada <ada@example.com>", subject, "2025-06-15T15:06:40.000Z")


async def test_text_of_another_encoding_becomes_unicode(remotes: Remotes, origin: Repository) -> None:
    author = "Ana Muñoz <ana@example.com> 1750000000 +0000".encode("latin-1")
    commit = raw_commit(origin, "Señal".encode("latin-1"), author=author, header=b"encoding ISO-8859-1\n")
    following = follow(remotes, origin)
    await followings.brought(following)
    found = await told(following, commit)
    assert found is not None
    assert (found.author, found.subject) == ("Ana Muñoz <ana@example.com>", "Señal")


@pytest.mark.parametrize(
    ("author", "shown", "date"),
    [
        (b"A\x1b[2J\x07 \xe2\x80\xaeB <a\x1b@b> 1 +0000", "A[2J B <a@b>", "1970-01-01T00:00:01.000Z"),
        (b"%b <%b> 1 +0000" % (b"n" * 9_000, b"a" * 9_000), f"{'n' * 256} <{'a' * 256}>", "1970-01-01T00:00:01.000Z"),
        (b"A <a@b> 99999999999999 +0000", "A <a@b>", "1970-01-01T00:00:00.000Z"),
    ],
)
async def test_the_author_is_shown_as_in_the_source_of_a_resource(
    remotes: Remotes, origin: Repository, author: bytes, shown: str, date: str
) -> None:
    commit = raw_commit(origin, b"Change", author=author)
    following = follow(remotes, origin)
    await following.fetch(RefHead("refs/heads/main", commit))
    found = await told(following, commit)
    assert found is not None
    assert (found.author, found.date) == (shown, date)
