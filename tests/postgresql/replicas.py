"""Several daemons on one database: replicas of one service, which call each other on loopback."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.daemons import Daemon, until
from tests.postgresql.servers import Database
from tests.servers import processes

NAMES = ("one", "two", "three")
SETTLED_SECONDS = 60.0


class Replica(Daemon):
    """One of them."""

    def __init__(
        self,
        name: str,
        folder: Path,
        *,
        database: Database,
        port: int,
        settings: Mapping[str, object] | None = None,
        **options: Any,
    ) -> None:
        self.name = name
        address = f"{processes.ADDRESS}:{port}"
        own = {
            "listen": address,
            "store": {"url": database.url, "workerUrl": database.worker_url},
            "replica": {"name": name, "url": f"http://{address}"},
        }
        super().__init__(folder / name, settings={**own, **(settings or {})}, **options)


class Replicas:
    """All of them, by name."""

    def __init__(
        self,
        folder: Path,
        *,
        database: Database,
        repositories: Sequence[Mapping[str, object]],
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.repositories = [str(one["name"]) for one in repositories]
        self.every = {
            name: Replica(
                name,
                folder,
                database=database,
                port=processes.free_port(),
                repositories=repositories,
                settings=settings,
            )
            for name in NAMES
        }

    def __getitem__(self, name: str) -> Replica:
        return self.every[name]

    def living(self) -> list[Replica]:
        """Those that run."""
        return [one for one in self.every.values() if hasattr(one, "process") and one.process.poll() is None]

    def holders(self, *, asked: str | None = None) -> dict[str, str | None]:
        """The holder of each repository, as one of them says; none while it answers with an error."""
        asking = self.living()[0] if asked is None else self[asked]
        answer = asking.get("/v1/repositories")
        return {str(one["name"]): one["holder"] for one in answer.body["repositories"]} if answer.status == 200 else {}

    def settled(self, *names: str, without: str = "") -> dict[str, str]:
        """The holders, once each repository has one, all of these replicas have some, and all say the same."""
        wanted = set(names or NAMES) - {without}

        def look() -> dict[str, str] | None:
            first, *others = [self.holders(asked=one.name) for one in self.living() if one.name in wanted]
            is_shared = set(first.values()) == wanted
            return (
                {name: str(holder) for name, holder in first.items()}
                if is_shared and others == [first] * len(others)
                else None
            )

        return until(look, f"{sorted(wanted)} follow all repositories", seconds=SETTLED_SECONDS)


@contextlib.contextmanager
def running(
    folder: Path,
    *,
    database: Database,
    repositories: Sequence[Mapping[str, object]],
    settings: Mapping[str, object] | None = None,
) -> Iterator[Replicas]:
    """Three replicas that run until the end of the context."""
    replicas = Replicas(folder, database=database, repositories=repositories, settings=settings)
    try:
        for one in replicas.every.values():
            one.start()
        yield replicas
    finally:
        for one in replicas.living():
            one.kill()
