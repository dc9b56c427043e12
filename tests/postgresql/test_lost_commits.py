"""A commit whose connection is lost during COMMIT may be stored or not: that is told, and what comes next is right."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import stores
from tests.daemons import Daemon, asked, destination, end, until, watched
from tests.postgresql.cutting import Line, cut
from tests.postgresql.servers import Server
from tests.repositories import Repository

pytestmark = pytest.mark.providers

UNKNOWN = (
    "The connection to PostgreSQL was lost while a change was confirmed, so it may have been stored, or not; read the "
    "state again before you repeat it."
)


@pytest.fixture(scope="module")
def own() -> Iterator[Server]:
    server = Server(tcp=True)
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture
def line(own: Server) -> Iterator[Line]:
    with cut(own) as line:
        yield line


@pytest.fixture
def daemon(own: Server, line: Line, tmp_path: Path) -> Iterator[Daemon]:
    database = own.database("lost")
    stores.keep(tmp_path / "daemon" / "state", database._replace(url=line.url(database.url)))
    daemon = Daemon(tmp_path / "daemon")
    try:
        yield daemon.start()
    finally:
        end(daemon)


def test_a_request_is_told_so_and_is_stored_once_when_it_is_repeated(daemon: Daemon, line: Line) -> None:
    daemon.apply(asked("one"))
    line.cuts = 1
    answer = daemon.post("/v1/apply", {"resources": [asked("one", "changed")]})
    assert (answer.status, answer.body["errors"]) == (503, [UNKNOWN])
    assert line.lost.acquire(timeout=5)
    until(lambda: len(daemon.history("Destination", "one")) == 2, "it is stored nevertheless")
    assert [update["status"] for update in daemon.apply(asked("one", "changed"))] == ["unchanged"]
    assert [one["metadata"]["version"] for one in daemon.history("Destination", "one")] == [2, 1]


def test_the_next_run_of_a_repository_comes_right(daemon: Daemon, line: Line, tmp_path: Path) -> None:
    source = Repository.init(tmp_path / "source")
    source.write("one.yaml", destination("one"))
    source.commit()
    daemon.follow(watched("source", source.path, interval="500ms"))
    daemon.applied("source", source.head())
    for number in range(3):
        source.write("one.yaml", destination("one", f"changed {number}"))
        line.cuts = 1
        head = source.commit()
        assert line.lost.acquire(timeout=20)
        daemon.applied("source", head)
        shown = daemon.resource("Destination", "one")
        assert shown is not None
        assert shown["metadata"]["description"] == f"changed {number}"
    assert [one["metadata"]["version"] for one in daemon.history("Destination", "one")] == [4, 3, 2, 1]
    assert daemon.repository("source")["state"] == "ready"
