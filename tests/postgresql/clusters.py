"""Real replicas behind nginx on one PostgreSQL, or a daemon on SQLite in their place.

    with clusters.running(folder, server=server, repositories=[...]) as cluster:
        cluster.ask("GET", "/v1/resources/Destination")    # through nginx
        cluster.replicas[1].kill()

What happens to them is in `chaos_faults`; what is asked of them, in `chaos_load`.
"""

import contextlib
import functools
import http.client
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tests import daemons
from tests.daemons import COMMAND, KEY, Answer, Daemon
from tests.postgresql import balancers
from tests.postgresql.balancers import Balancer
from tests.postgresql.servers import Server
from tests.servers import processes

COUNT = 3  # as many as the configuration of nginx has
ANSWER_SECONDS = 30.0
READY_SECONDS = 90.0
DATABASE = "cluster"


class Caller:
    """One connection to one port, kept alive as clients do; one request at a time.

    A request that gets no answer is `NO_ANSWER`: whether it was carried out, nobody knows.
    """

    def __init__(self, port: int, *, seconds: float = ANSWER_SECONDS) -> None:
        self._port, self._seconds = port, seconds
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> "Caller":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        project: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """One request, with the operator's key unless it has headers of its own."""
        sent = {"Authorization": f"Bearer {KEY}"} if headers is None else dict(headers)
        if project is not None:
            sent["X-Service-Project"] = project
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=self._seconds)
            self._connection.request(method, path, body, sent)
            answer = self._connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            self.close()
            return NO_ANSWER
        found = {name.lower(): value for name, value in answer.getheaders()}
        is_json = found.get("content-type", "").startswith("application/json")
        return Answer(answer.status, json.loads(content) if content and is_json else None, found)

    def post(self, path: str, body: object, *, project: str | None = None) -> Answer:
        """POST a value as JSON, with the operator's key."""
        return self.ask("POST", path, json.dumps(body).encode(), project=project)

    def close(self) -> None:
        """End the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


NO_ANSWER = Answer(0, None)


class Cluster:
    """Replicas, their balancer, and their server unless they are on SQLite."""

    def __init__(
        self, replicas: list[Daemon], balancer: Balancer, server: Server | None, make: Callable[[int, Path], Daemon]
    ) -> None:
        self.replicas = replicas
        self._make = make
        self.balancer = balancer
        self.server = server

    @property
    def web_url(self) -> str:
        """The address for people."""
        return web_url(self.balancer.port)

    def ask(self, method: str, path: str, body: bytes | None = None, *, project: str | None = None) -> Answer:
        """One request through nginx, with the operator's key, on a connection of its own."""
        with Caller(self.balancer.port) as caller:
            return caller.ask(method, path, body, project=project)

    def post(self, path: str, body: object, *, project: str | None = None) -> Answer:
        """POST a value as JSON through nginx."""
        return self.ask("POST", path, json.dumps(body).encode(), project=project)

    def replace(self, number: int, *, program: Path) -> None:
        """Stop a replica, and start that of another build in its place, with its state."""
        assert self.replicas[number].stop() == 0
        self.replicas[number] = self._make(number, program).start()
        daemons.until(lambda: is_ready(self.replicas[number]), f"replica {number} is ready", seconds=READY_SECONDS)

    def until_ready(self) -> None:
        """Wait until each replica says that it is ready."""
        for number, replica in enumerate(self.replicas):
            daemons.until(functools.partial(is_ready, replica), f"replica {number} is ready", seconds=READY_SECONDS)


def name(number: int) -> str:
    """The name of a replica."""
    return f"replica-{number}"


def web_url(port: int) -> str:
    """The address for people, behind a balancer at this port."""
    return f"http://127.0.0.1:{port}"


def is_ready(replica: Daemon) -> bool:
    """True if the replica answers and its store is open."""
    with Caller(replica.port, seconds=5) as caller:
        return caller.ask("GET", "/readyz", headers={}).status == 200


@contextlib.contextmanager
def running(
    folder: Path,
    *,
    server: Server | None,
    repositories: Sequence[Mapping[str, object]] = (),
    settings: Mapping[str, object] | None = None,
    program: Path = COMMAND,
) -> Iterator[Cluster]:
    """Three replicas on a fresh database of the server; without a server, one daemon on SQLite three times."""
    balanced = processes.free_port()
    shared: dict[str, object] = {"webURL": web_url(balanced), "trustedProxies": ["127.0.0.1"], **(settings or {})}
    if server is not None:
        database = server.database(DATABASE)
        shared["store"] = {"url": database.url, "workerUrl": database.worker_url}
    ports = [processes.free_port() for _ in range(COUNT)]

    def make(number: int, program: Path) -> Daemon:
        own: dict[str, object] = {"listen": f"127.0.0.1:{ports[number]}", **shared}
        if server is not None:
            own["replica"] = {"name": name(number), "url": f"http://127.0.0.1:{ports[number]}"}
        return Daemon(folder / name(number), repositories=repositories, settings=own, program=program, is_started=True)

    with contextlib.ExitStack() as stack:
        replicas = [make(number, program) for number in range(COUNT if server is not None else 1)]
        stack.callback(_end_all, replicas)  # those that are there at the end, which may be others
        for one in replicas:
            one.start()
        balancer = stack.enter_context(
            balancers.running(folder / "nginx", (ports[: len(replicas)] * COUNT)[:COUNT], port=balanced)
        )
        cluster = Cluster(replicas, balancer, server, make)
        cluster.until_ready()
        yield cluster


def _end_all(replicas: Sequence[Daemon]) -> None:
    for one in replicas:
        daemons.end(one)
