"""The instruments of the benchmarks."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from benchmarks import __main__ as program
from benchmarks import asking, beside, corpus, figures, moving, processes, watching
from benchmarks.beside import Beside
from benchmarks.figures import Figure
from tests.daemons import until

REQUEST = b"GET /@@@@@@@@ HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Answering(BaseHTTPRequestHandler):
    """Answers with the path that was asked for, in two chunks, or at once; `/missing` with 404."""

    protocol_version = "HTTP/1.1"
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        body = self.path.encode()
        self.send_response(404 if self.path == "/missing" else 200)
        if self.path == "/chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for part in (body[:3], body[3:], b""):
                self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
                self.wfile.flush()
        else:
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named so where it is called
        """Nothing."""


@pytest.fixture
def server() -> Iterator[int]:
    Answering.asked = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as serving:
        threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01}).start()
        yield serving.server_port
        serving.shutdown()


def test_an_answer_is_read_whole_whatever_its_form(server: int) -> None:
    with asking.Connection(server) as connection:
        plain = connection.ask(b"GET /plain HTTP/1.1\r\n\r\n")
        chunked = connection.ask(b"GET /chunked HTTP/1.1\r\n\r\n")
        again = connection.ask(b"GET /plain HTTP/1.1\r\n\r\n")
    assert (plain.status, plain.body) == (200, b"/plain") == (again.status, again.body)
    assert (chunked.status, chunked.body) == (200, b"3\r\n/ch\r\n5\r\nunked\r\n0\r\n\r\n")
    assert 0 < chunked.first <= chunked.whole


@pytest.mark.parametrize("paced", [True, False])
def test_a_client_beside_asks_until_it_is_ended_and_numbers_what_it_asks(
    server: int, tmp_path: Path, paced: bool
) -> None:
    with Beside(REQUEST, port=server, every=0.01, file=tmp_path / "request", paced=paced) as client:
        until(lambda: len(Answering.asked) >= 5, "five requests came")
        found = client.ended()
    assert Answering.asked == [f"/{number:08d}" for number in range(found.requests)]
    assert 0 < found.p50_ms <= found.p99_ms <= found.worst_ms


def test_a_client_beside_that_is_refused_fails(server: int, tmp_path: Path) -> None:
    request = REQUEST.replace(b"/" + beside.NUMBER, b"/missing")
    client = Beside(request, port=server, every=0.01, file=tmp_path / "request", paced=True)
    with client, pytest.raises(RuntimeError, match="failed"):
        client.ended()


def test_a_branch_moves_to_commits_that_were_made_before(tmp_path: Path) -> None:
    repository = tmp_path / "corpus.git"
    corpus.make(repository, files=3)
    commits = moving.prepare(repository, [(corpus.path(1), "one\n"), (corpus.path(2), "two\n")])
    more = moving.prepare(repository, [(corpus.path(1), "three\n")], after=commits[-1])
    before = _git(repository, "rev-parse", moving.REF)
    assert _git(repository, "rev-parse", f"{commits[0]}^") == before
    seen = []
    for commit in (*commits, *more):
        moving.move(repository, commit)
        assert _git(repository, "rev-parse", moving.REF) == commit
        seen.append([_git(repository, "show", f"{moving.REF}:{corpus.path(number)}")[:5] for number in (1, 2)])
    assert seen[1:] == [["one", "two"], ["three", "two"]]
    assert _git(repository, "log", "--format=%H", moving.REF).split() == [*more, *reversed(commits), before]


def test_a_flat_corpus_holds_the_same_documents_in_one_folder(tmp_path: Path) -> None:
    for name, flat in (("deep", False), ("flat", True)):
        corpus.make(tmp_path / name, files=150, flat=flat)
    folders = {corpus.path(number, flat=True).rpartition("/")[0] for number in range(150)}
    assert len(folders) == 1
    assert [_git(tmp_path / "flat", "rev-parse", f"main:{corpus.path(number, flat=True)}") for number in (0, 149)] == [
        _git(tmp_path / "deep", "rev-parse", f"main:{corpus.path(number)}") for number in (0, 149)
    ]
    listed = _git(tmp_path / "deep", "ls-tree", "-r", "--long", "main").splitlines()
    assert sum(int(line.split()[3]) for line in listed) == corpus.size(files=150)


def test_what_a_process_and_its_children_take_is_seen_from_outside(tmp_path: Path) -> None:
    (tmp_path / "store.db-wal").write_bytes(bytes(2_000_000))
    child = "import sys, time; kept = bytearray(30_000_000); print(flush=True); time.sleep(60)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        family = processes.family(process.pid)
        assert family[0] == process.pid
        assert len(family) == 2
        begun = time.perf_counter()
        with watching.watching(*family, state=tmp_path, every=0.01) as watch:
            until(lambda: len(watch.samples) >= 3, "somebody looked")
        found, most = watch.stretch(begun, time.perf_counter()), watch.most()
        assert most.all_mb > found.child_mb > 30 > found.main_mb > 0
        assert most.wal_mb == 2.0
        assert min(found.main_files, found.child_files) >= 3
        os.kill(family[1], 9)
        process.wait()
    with pytest.raises(OSError, match=str(family[0])), watching.watching(*family, state=tmp_path, every=0.01):
        until(lambda: "watch a daemon" not in [thread.name for thread in threading.enumerate()], "nobody looks")


def test_what_is_over_its_limit_is_told() -> None:
    found = [
        Figure("within", "1", "limit 2", "0.50"),
        Figure("over", "3", "limit 2", "1.50"),
        Figure("beside a floor", "3", "floor 2", "1.50"),
        Figure("too little", "3", "at least 4", "0.75", missed=True),
    ]
    assert figures.over(found) == ["over", "too little"]


@pytest.mark.parametrize("full", [True, False])
def test_each_measurement_has_a_name_and_an_unknown_one_is_refused(
    full: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = program.measures(full=full)
    assert {"large-reconcile", "one-change", "starting", "listing", "idle-following", "first-read"} <= names.keys()
    monkeypatch.setattr(sys, "argv", ["benchmarks", "--only", "nonsense"])
    with pytest.raises(SystemExit):
        program.main()
    assert "there is no nonsense; there are version, " in capsys.readouterr().err


def test_a_log_that_is_not_there_has_no_size(tmp_path: Path) -> None:
    assert watching.size_mb(tmp_path / "nothing") == 0.0


def _git(repository: Path, *arguments: str) -> str:
    command = ["git", "-C", str(repository), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
