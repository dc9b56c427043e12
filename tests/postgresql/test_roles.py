"""examples/replicas/roles.sh: the database, its owner, and the worker's role, which may only read."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import errors

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


def test_the_owner_makes_tables_and_the_worker_reads_them(prepared: Server) -> None:
    with connect(prepared, "reconciler", password="canary-reconciler's") as owner:
        owner.execute("create table thing (name text)")
        owner.execute("insert into thing values ('one')")
    with connect(prepared, "reconciler_worker", password="canary-worker's") as worker:
        assert worker.execute("select name from thing").fetchall() == [("one",)]


@pytest.mark.parametrize(
    "statement", ["create table mine (name text)", "create temporary table mine (name text)", "create schema mine"]
)
def test_the_worker_makes_nothing(prepared: Server, statement: str) -> None:
    with connect(prepared, "reconciler_worker", password="canary-worker's") as worker:
        worker.execute("set default_transaction_read_only = off")
        with pytest.raises(errors.InsufficientPrivilege):
            worker.execute(statement)


def test_nobody_else_connects(prepared: Server) -> None:
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        connect(prepared, servers.SERVICE, password=servers.PASSWORDS[servers.SERVICE])
