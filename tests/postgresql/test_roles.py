"""examples/replicas/roles.sh: the database, its owner, and the worker's role, which may only read."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

from tests import daemons
from tests.postgresql import servers
from tests.postgresql.servers import Server

pytestmark = pytest.mark.providers

SCRIPT = Path(__file__).parents[2] / "examples" / "replicas" / "roles.sh"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of its own, since roles belong to all databases, after the script."""
    secrets = tmp_path_factory.mktemp("secrets")
    for name in ("reconciler", "worker"):
        (secrets / f"{name}_password").write_text(f"canary-{name}'s")
    server = Server(tcp=True)
    try:
        server.start()
        programs = servers.programs()
        path = f"{programs.folder}{os.pathsep}{programs.environment['PATH']}"
        libpq = {"PGHOST": str(server.socket), "PGPORT": str(server.port), "POSTGRES_USER": servers.ADMIN}
        environment = {**programs.environment, **libpq, "PATH": path, "SECRETS": str(secrets)}
        done = subprocess.run([SCRIPT], env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        yield server
    finally:
        server.remove()


def connect(server: Server, role: str, *, password: str) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(
        host=server.host, port=server.port, dbname="reconciler", user=role, password=password, autocommit=True
    )


def test_a_service_starts_with_the_roles(prepared: Server, tmp_path: Path) -> None:
    passwords = tmp_path / "pgpass"
    passwords.write_text("*:*:*:reconciler:canary-reconciler's\n*:*:*:reconciler_worker:canary-worker's\n")
    passwords.chmod(0o600)
    address = f"@{prepared.host}:{prepared.port}/reconciler?passfile={passwords}"
    urls = {"url": f"postgresql://reconciler{address}", "workerUrl": f"postgresql://reconciler_worker{address}"}
    with daemons.running(tmp_path / "service", settings={"store": urls}) as daemon:
        assert daemon.post("/v1/projects", {"name": "one"}).status == 201
        assert daemon.apply(daemons.asked("first"), project="one")[0]["status"] == "created"
    with connect(prepared, "reconciler_worker", password="canary-worker's") as worker:
        assert worker.execute("select name from resource").fetchall() == [("first",)]
        with pytest.raises(errors.InsufficientPrivilege):
            worker.execute("select * from api_key")


@pytest.mark.parametrize(
    "statement", ["create table mine (name text)", "create temporary table mine (name text)", "create schema mine"]
)
def test_the_worker_makes_nothing(prepared: Server, statement: str) -> None:
    with (
        connect(prepared, "reconciler_worker", password="canary-worker's") as worker,
        pytest.raises(errors.InsufficientPrivilege),
    ):
        worker.execute(statement)


def test_nobody_else_connects(prepared: Server) -> None:
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        connect(prepared, servers.SERVICE, password=servers.PASSWORDS[servers.SERVICE])
