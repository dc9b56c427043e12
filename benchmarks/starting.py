"""From the exec of `reconciler serve` to `/readyz` answering 200, with many resources stored; what they take on disk.

The daemon has read a repository and was stopped; what it reads at a start is in the page cache. By turns with it, a
bare interpreter, and one that imports what the daemon imports.
"""

import http.client
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from benchmarks import corpus, serving_ports
from benchmarks.daemons import BENCH, until_read
from benchmarks.figures import Figure
from tests import daemons
from tests.daemons import Daemon

ROUNDS = 5
LIMIT_SECONDS, TARGET_SECONDS = 1.5, 1.0
VERSION_LIMIT_BYTES = 2_000
STEP_SECONDS = 0.002
START_SECONDS = 60.0
BARE = "pass"
IMPORTS = "import api.app, reconciler.cli.serve, reconciler.server.daemon"


def measure(*, files: int) -> list[Figure]:
    """The median of starts after a first one, and the size of the store by how many versions it holds."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        corpus.make(folder / "corpus.git", files=files)
        settings = {"listen": f"127.0.0.1:{serving_ports.free()}"}
        watched = [daemons.watched(BENCH, folder / "corpus.git")]
        with daemons.running(folder / "daemon", repositories=watched, settings=settings, is_started=True) as running:
            until_read(running, files=files)
            time.sleep(2)  # until what follows a first read is done
            running.stop()
            size = _bytes_of_a_version(running.state / "store.db")
            _ready(running)
            ours, bare, imports = [], [], []
            for _ in range(ROUNDS):
                running.stop()
                bare.append(_python(BARE))
                imports.append(_python(IMPORTS))
                ours.append(_ready(running))
    mine = statistics.median(ours)
    beside = f"`python -c pass` {statistics.median(bare):.2f} s, its imports alone {statistics.median(imports):.2f} s"
    return [
        Figure(
            f"start with {files:,} stored, from the exec to `/readyz`",
            f"{mine:.2f} s",
            f"limit {LIMIT_SECONDS:g} s; target {TARGET_SECONDS:g} s; {beside}",
            f"{mine / LIMIT_SECONDS:.2f}",
        ),
        Figure(
            f"disk for each stored version, first read of {files:,} files",
            f"{size:,.0f} bytes",
            f"limit {VERSION_LIMIT_BYTES:,} bytes; a document is {_document_bytes(files):,.0f}",
            f"{size / VERSION_LIMIT_BYTES:.2f}",
        ),
    ]


def _ready(running: Daemon) -> float:
    """Seconds until it is ready."""
    host, port = "127.0.0.1", serving_ports.of(running.config)
    begun = time.perf_counter()
    running.launch()
    while time.perf_counter() - begun < START_SECONDS:
        connection = http.client.HTTPConnection(host, port, timeout=START_SECONDS)
        try:
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return time.perf_counter() - begun
        except ConnectionError:
            time.sleep(STEP_SECONDS)  # nobody listens yet
        finally:
            connection.close()
    raise RuntimeError(f"it was not ready within {START_SECONDS:g} s: {running.output()[-2000:]}")


def _python(code: str) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - begun


def _bytes_of_a_version(store: Path) -> float:
    """Of a store that nobody has open, its log taken into the file."""
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")
        (versions,) = connection.execute("select count(*) from version").fetchone()
    return store.stat().st_size / int(versions)


def _document_bytes(files: int) -> float:
    return corpus.size(files=files) / files
