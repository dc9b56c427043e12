"""The peer: syslog-ng's `http()` destination behind its reliable disk buffer, on the same records and the same sink.

Lines come over one TCP connection and are JSON strings already, so that it formats nothing. Its buffer writes every
line to a file and never forces it to the disk.
"""

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import delivery_bodies
from benchmarks.sink import Sink

PROGRAM = "syslog-ng"
NAME = "syslog-ng, reliable disk buffer"
MISSING = "`syslog-ng` is not installed (apt-get install syslog-ng-core syslog-ng-mod-http)"
START_SECONDS = 20.0
STOP_SECONDS = 20.0
DRAIN_SECONDS = 180.0
WORKERS = 10  # as a Destination has consumers
CONFIGURATION = """\
@version: 3.38
options {{
  stats-level(0); log-msg-size(65536); log-fifo-size(500000); threaded(yes);
  keep-hostname(yes); use-dns(no); chain-hostnames(no);
}};
source lines {{
  network(ip(127.0.0.1) port({port}) transport("tcp") flags(no-parse) max-connections(4)
    log-iw-size(160000) log-fetch-limit(1000));
}};
destination sink {{
  http(url("http://127.0.0.1:{sink}/hook") method("POST") headers("Content-Type: application/json")
    body-prefix("[") delimiter(",") body-suffix("]") body("${{MSG}}")
    workers({workers}) batch-lines({batch}) batch-bytes(4Mb) batch-timeout(1000) timeout(5) retries(3) time-reopen(5)
    disk-buffer(reliable(yes) mem-buf-size(64Mb) disk-buf-size(1024Mb) dir("{folder}"))
    persist-name("sink"));
}};
log {{ source(lines); destination(sink); flags(flow-control); }};
"""


def missing() -> bool:
    """Return True if it, or its module for HTTP, is missing."""
    program = shutil.which(PROGRAM) or shutil.which(PROGRAM, path="/usr/sbin:/usr/local/sbin")
    if program is None:
        return True
    modules = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return "http" not in modules.partition("Available-Modules:")[2].split("\n")[0].split(",")


def version() -> str:
    """Its version, `3.38.1` for instance."""
    told = subprocess.run([_program(), "--version"], capture_output=True, text=True, check=True).stdout
    return next(line.partition("(")[2].rstrip(")") for line in told.splitlines() if line.startswith("syslog-ng"))


def rate(folder: Path, sink: Sink, *, batch: int, lines: int) -> float:
    """Lines a second from the first that is sent to the last at the sink, so many to a request at most."""
    data = b"".join(line + b"\n" for line in delivery_bodies.fragments(1_000))
    with _running(folder, sink, batch=batch) as port:
        before = sink.counts().records
        begun = time.perf_counter()
        with socket.create_connection(("127.0.0.1", port), timeout=DRAIN_SECONDS) as connection:
            for _ in range(lines // 1_000):
                connection.sendall(data)
        last = sink.until(before + lines // 1_000 * 1_000, seconds=DRAIN_SECONDS)
    return lines // 1_000 * 1_000 / (last - begun)


@contextlib.contextmanager
def _running(folder: Path, sink: Sink, *, batch: int) -> Iterator[int]:
    folder.mkdir(parents=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    file = folder / "syslog-ng.conf"
    file.write_text(
        CONFIGURATION.format(port=port, sink=sink.port, workers=WORKERS, batch=batch, folder=folder), encoding="utf-8"
    )
    # Without a control socket and a file of its own for each, it takes those of the machine's.
    own: list[str | Path] = ["-R", folder / "persist", "-p", folder / "pid", "-c", folder / "control"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([_program(), "-F", "-f", file, "--no-caps", *own], stdout=log, stderr=log)
    try:
        _until_listens(port, process, folder / "log")
        yield port
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _until_listens(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.perf_counter() + START_SECONDS
    while time.perf_counter() < end and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"syslog-ng does not listen: {log.read_text(errors='replace')}")


def _program() -> str:
    found = shutil.which(PROGRAM) or shutil.which(PROGRAM, path="/usr/sbin:/usr/local/sbin")
    assert found is not None
    return found
