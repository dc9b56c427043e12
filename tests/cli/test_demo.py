"""`reconciler demo`: what somebody sees who tries the product."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TextIO

import pytest

from reconciler.cli import demo as cli_demo
from tests.cli import forking
from tests.daemons import COMMAND, destination, until
from tests.repositories import Repository

PATH = "/v1/resources/Configuration/hosts/collector.yaml"
SECONDS = 60.0  # for a daemon to start, and for everything else


def demo() -> subprocess.CompletedProcess[str]:
    """A demonstration that ends by itself."""
    ran = forking.run(
        COMMAND,
        ["demo", "--once", "--listen", "127.0.0.1:0"],
        stdin=b"",
        folder=Path.cwd(),
        environment=forking.without_start(os.environ),
        seconds=SECONDS,
        has_forked_reader=True,
    )
    return subprocess.CompletedProcess(ran.args, ran.returncode, ran.stdout.decode(), ran.stderr.decode())


def test_the_example_is_stored_whole() -> None:
    done = demo()
    lines = done.stdout.splitlines()
    notes = [line for line in lines if "note: " in line]
    assert notes
    assert [line for line in notes if not re.match(r"\S+\.yaml:\d+: note: ", line)] == []
    rows = [line.split() for line in lines if "/" in line and "note: " not in line]
    assert (done.returncode, done.stderr, {row[0] for row in rows}) == (0, "", {"created"})
    assert len(rows) == 29


def test_says_each_commit_until_it_is_interrupted() -> None:
    command = [str(COMMAND), "demo", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            lines = (line.strip() for line in process.stdout)
            copy = Repository(Path(after(lines, "Repository  ")))
            after(lines, "Watching; stop with Ctrl-C.")
            copy.write("b.yaml", destination("b"))
            commit = copy.commit()
            assert after(lines, "created   Destination   b").split() == ["b.yaml:1"]
            assert after(lines, f"Commit {commit[:12]}: ") == "succeeded."
            copy.write("b.yaml", destination("b").replace("otlp", "5"))
            commit = copy.commit()
            assert after(lines, "invalid   Destination   b").split() == ["b.yaml:1"]
            assert after(lines, "b.yaml:6:9: ") == "/spec/type: is not a string"
            assert after(lines, f"Commit {commit[:12]}: ").startswith("partial.")
            process.send_signal(signal.SIGINT)
            assert list(lines) == ["Stopped."]
            assert process.wait(SECONDS) == 0
            assert not copy.path.exists()
        finally:
            process.kill()


@pytest.mark.parametrize("is_taken", [False, True])
def test_a_record_that_is_sent_shows(*, is_taken: bool) -> None:
    """Also when somebody listens where the example's webhook posts to."""
    with taken(cli_demo.PORT) if is_taken else contextlib.nullcontext(), started() as (process, told):
        lines = (line.strip() for line in told)
        copy = Path(after(lines, "Repository  "))
        address, key = after(lines, "Console").split()[0], after(lines, "Key")
        endpoint = after(lines, "Endpoint").split()[0]
        rendered = after(lines, "otelcol --config=")
        assert rendered == f"http://demo:{key}@{address.removeprefix('http://')}{PATH}"
        assert (endpoint != f"http://127.0.0.1:{cli_demo.PORT}") or not is_taken
        after(lines, "Watching; stop with Ctrl-C.")
        for text, shown in (
            ("order 17\u202e", '["order 17\\u202e"]'),
            ("x" * 600, f'["{"x" * 498} ... and 104 bytes more'),
        ):
            until(partial(sent, address, key, text), "the Configuration is followed")
            assert after(lines, f"{endpoint} got ") == shown
        process.send_signal(signal.SIGINT)
        assert list(lines) == ["Stopped."]
        assert process.wait(SECONDS) == 0
        assert not copy.exists()


@contextlib.contextmanager
def started() -> Iterator[tuple[forking.Process, TextIO]]:
    """A demonstration that somebody has to end, and what it says."""
    out, into = os.pipe()
    with open(out, encoding="utf-8") as told, open(os.devnull, "rb") as nothing:  # noqa: PTH123 - one is no path
        process = forking.Process(
            COMMAND,
            ["demo", "--listen", "127.0.0.1:0"],
            streams=[nothing.fileno(), into, into],
            folder=Path.cwd(),
            environment=forking.without_start(os.environ),
            has_forked_reader=True,
        )
        os.close(into)
        end = threading.Timer(SECONDS, process.kill)  # who waits for a line that does not come finds no more lines
        end.start()
        try:
            yield process, told
        finally:
            end.cancel()
            process.kill()


@contextlib.contextmanager
def taken(port: int) -> Iterator[None]:
    """Somebody listens there, this test or anybody else."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            listener.listen()
        yield


def sent(address: str, key: str, text: str) -> bool:
    """Return True when the service takes a record of the orders team."""
    attributes = [{"key": "service.name", "value": {"stringValue": "orders"}}]
    records = [{"logRecords": [{"body": {"stringValue": text}}]}]
    body = {"resourceLogs": [{"resource": {"attributes": attributes}, "scopeLogs": records}]}
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=SECONDS)
    try:
        connection.request("POST", "/v1/logs", json.dumps(body), headers)
        answer = connection.getresponse()
        return (answer.status, json.loads(answer.read())) == (200, {})
    finally:
        connection.close()


def after(lines: Iterator[str], beginning: str) -> str:
    """The rest of the first line that begins so."""
    for line in lines:
        if line.startswith(beginning):
            return line.removeprefix(beginning).strip()
    raise AssertionError(f"no line begins with {beginning}")
