"""A server that speaks the smart protocol to a look, and the older one, of plain files, to a fetch."""

import hashlib
import http.server
import threading
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import RefHead, following
from reconciler.git.remotes.mirrors import Mirror
from reconciler.git.remotes.program import GitProgram
from reconciler.git.remotes.sources import Source
from tests.repositories import Repository
from tests.servers import https

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
FOLLOWED = following(branch="main")


def objects() -> tuple[str, dict[str, bytes]]:
    """A commit that git's checks refuse, and all objects as a server has them in files."""
    found: dict[str, bytes] = {}

    def add(kind: bytes, content: bytes) -> str:
        whole = kind + b" %d\0" % len(content) + content
        name = hashlib.sha1(whole).hexdigest()  # noqa: S324 - as git does
        found[name] = zlib.compress(whole)
        return name

    entry = b"100644 a\0" + bytes.fromhex(add(b"blob", b"x\n"))
    people = b"author A <a@b> 1700000000 +0000\ncommitter A <a@b> 1700000000 +0000\n\nm\n"
    return add(b"commit", b"tree %s\n" % add(b"tree", entry * 2).encode() + people), found


class Plain(http.server.BaseHTTPRequestHandler):
    """Files of a repository, without git."""

    protocol_version = "HTTP/1.1"
    commit, objects = objects()

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the name is the library's
        """Nothing."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].split(".git/")[1]
        files: Mapping[str, bytes] = {
            "info/refs": f"{self.commit}\trefs/heads/main\n".encode(),
            "HEAD": b"ref: refs/heads/main\n",
        }
        body = files.get(path, self.objects.get(path.removeprefix("objects/").replace("/", ""), b""))
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def plain() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Plain)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/telemetry.git"
    server.shutdown()
    thread.join()
    server.server_close()


async def test_nothing_of_a_fetch_without_the_smart_protocol_is_kept(tmp_path: Path, plain: str) -> None:
    origin = Repository.init(tmp_path / "served/telemetry.git")
    origin.write("a.yaml", "a")
    first = origin.commit()
    with https.serving(tmp_path / "served") as server:
        url = server.url("telemetry.git/.git")
        mirror = Mirror(tmp_path / "one.git", GitProgram(tmp_path / "home", url=url), url=url)
        await mirror.ensure()
        source = Source(url=url, follows=FOLLOWED)
        found = await mirror.poll(source, [FOLLOWED])
        assert found == {FOLLOWED: RefHead("refs/heads/main", first)}
        await mirror.fetch(source, FOLLOWED, RefHead("refs/heads/main", first))
    mirror = Mirror(mirror.path, GitProgram(tmp_path / "other", url=plain), url=plain)
    other = following(branch="other")
    with pytest.raises(GitFault) as caught:
        await mirror.fetch(Source(url=plain, follows=other), other, RefHead("refs/heads/main", Plain.commit))
    assert (caught.value.state, "went on without Git's smart protocol" in caught.value.message) == (
        RepositoryState.MIRROR_CORRUPT,
        True,
    )
    assert (await mirror.heads()).keys() <= {FOLLOWED.private_ref}
    await mirror.rebuild()
    assert [file for file in (mirror.path / "objects").rglob("*") if file.is_file()] == []
