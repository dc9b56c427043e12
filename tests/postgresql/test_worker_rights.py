"""The worker's role reads what plans need, and can do nothing else; a role that can is refused at the start."""

import asyncio
import inspect
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import errors, sql

from reconciler.model.errors import Refused
from reconciler.model.names import Key
from reconciler.store import engines
from reconciler.store.contract import PlanningView
from reconciler.store.postgresql import rights
from tests.postgresql.servers import WORKER, Database, Server

pytestmark = [pytest.mark.providers, pytest.mark.anyio]

KEYS = [Key("Destination", "one")]
# Each read of a plan.
READS: dict[str, Callable[[PlanningView], object]] = {
    "stored": lambda view: view.stored("default", KEYS),
    "last_versions": lambda view: view.last_versions("default", KEYS),
    "bodies": lambda view: view.bodies("default", KEYS),
    "documents": lambda view: view.documents("default", KEYS),
    "configurations": lambda view: list(view.configurations("default")),
    "referrers": lambda view: view.referrers("default", KEYS),
    "versions_naming": lambda view: list(view.versions_naming("default", ["Destination"], ["otlp"])),
    "versions": lambda view: list(view.versions("default", KEYS[0])),
    "unrendered": lambda view: view.unrendered("default", "1"),
    "past_routes": lambda view: view.past_routes("default"),
    "quotes": lambda view: list(view.quotes("default", ["text"])),
    "taken_ids": lambda view: view.taken_ids("default", ["id"]),
    "owned": lambda view: (view.owned("one", "default"), view.owned("one", "default", unwanted=True)),
    "owned_count": lambda view: view.owned_count("one", "default"),
    "standing_at": lambda view: view.standing_at("one", "default", ["a.yaml"]),
    "without_lineage": lambda view: view.without_lineage("one", "default", limit=1),
    "origins": lambda view: view.origins([]),
    "vacant_files": lambda view: view.vacant_files("one"),
    "given": lambda view: view.given("one"),
    "wanted_at": lambda view: view.wanted_at("one", ["a.yaml"]),
    "index": lambda view: view.index("one"),
    "wanted_count": lambda view: view.wanted_count("one"),
    "wanted_in": lambda view: view.wanted_in("one", ["a.yaml"]),
    "wanted_of": lambda view: view.wanted_of("one", KEYS),
    "unmet": lambda view: view.unmet("default", KEYS, without=()),
    "blobs": lambda view: view.blobs("one", ["a.yaml"]),
    "unconverged": lambda view: view.unconverged("one"),
    "pruned_since": lambda view: view.pruned_since("one", 0),
    "stays": lambda view: view.stays("one"),
    "approval": lambda view: view.approval("one"),
    "suspended": lambda view: view.suspended("2026-11-28T00:00:00Z"),
    "repository": lambda view: view.repository("one"),
}


@pytest.fixture
def connection(database: Database, tmp_path: Path) -> str:
    """How the worker connects to a database in which there is a store."""

    async def make() -> str:
        opened = await engines.open_store(database.url, tmp_path, worker_url=database.worker_url)
        await opened.store.create_project("default", at="2026-11-28T00:00:00Z")
        await opened.operations.flow_key()
        await opened.operations.close()
        await opened.store.close()
        return opened.worker_connection

    return asyncio.run(make())


@pytest.fixture
def worker(connection: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection as the worker has it, in the hands of somebody who wants more."""
    with closing(psycopg.connect(connection, autocommit=True)) as opened:
        opened.execute("set default_transaction_read_only = off")
        yield opened


def tables(database: Database) -> set[str]:
    with psycopg.connect(database.url) as owner:
        return {name for (name,) in owner.execute("select tablename from pg_tables where schemaname = 'public'")}


def test_every_read_of_a_plan_is_tried_here() -> None:
    methods = {name for name, _ in inspect.getmembers(PlanningView, inspect.isfunction) if not name.startswith("_")}
    assert methods - {"close", "snapshot"} == set(READS)


@pytest.mark.parametrize("name", READS)
def test_a_plan_may_read(name: str, connection: str) -> None:
    connected = engines.connect_views(connection, ["one"])
    with closing(connected.views["one"]) as view, view.snapshot():
        READS[name](view)


def test_nothing_else_can_be_read(worker: psycopg.Connection[Any], database: Database) -> None:
    readable = {name.partition(".")[0] for name in rights.READABLE}
    hidden = tables(database) - readable
    assert {"user", "member", "api_key", "invitation", "session", "notification", "lease", "notice"} <= hidden
    for name in hidden:
        with pytest.raises(errors.InsufficientPrivilege):
            worker.execute(sql.SQL("select * from {}").format(sql.Identifier(name)))
    for column in (sql.SQL("*"), sql.Identifier("bytes"), sql.Identifier("text")):  # keys of digests, cookies, peers
        with pytest.raises(errors.InsufficientPrivilege):
            worker.execute(sql.SQL("select {} from fact").format(column))


def test_nothing_can_be_written(worker: psycopg.Connection[Any], database: Database) -> None:
    for name in tables(database):
        table = sql.Identifier(name)
        for statement in ("insert into {} default values", "delete from {}", "truncate {}", "drop table {}"):
            with pytest.raises(errors.InsufficientPrivilege):
                worker.execute(sql.SQL(statement).format(table))
    for statement in (
        "create table one (n integer)",
        "create schema one",
        "create role one",
        "alter role service password 'one'",
        "set role service",
        "set session authorization service",
        "copy resource to '/tmp/one'",
        "copy resource to program 'true'",
        "select pg_read_file('/etc/passwd')",
        "select lo_export(1, '/tmp/one')",
        "select pg_reload_conf()",
        "alter system set fsync = off",
        "select * from pg_authid",
    ):
        with pytest.raises(errors.InsufficientPrivilege):
            worker.execute(statement.encode())


def test_a_transaction_is_one_revision_and_read_only(connection: str) -> None:
    with closing(psycopg.connect(connection)) as opened:
        found = [
            opened.execute(f"show {name}".encode()).fetchone() for name in ("transaction_read_only", "search_path")
        ]
    assert found == [("on",), ("public",)]


GRANTS = {
    "insert": ("grant insert on resource to {role}", "may write to resource"),
    "delete": ("grant delete on audit to {role}", "may write to audit"),
    "insert of a column": ("grant update (number) on fact to {role}", "may write to fact"),
    "read people": ('grant select on "user", api_key to {role}', "may read api_key, user"),
    "make tables": ("grant create on schema public to {role}", "may make tables"),
}


@pytest.mark.parametrize("grant", GRANTS)
async def test_what_somebody_else_granted_is_refused_with_its_name(
    grant: str, connection: str, database: Database, tmp_path: Path
) -> None:
    statement, told = GRANTS[grant]
    with psycopg.connect(database.admin_url) as admin:
        admin.execute(statement.format(role="public").encode())
    assert connection
    with pytest.raises(Refused) as refused:
        await engines.open_store(database.url, tmp_path, worker_url=database.worker_url)
    assert refused.value.message == (
        f"The role {WORKER} of the worker {told}; name a role in `store.workerUrl` that has no rights of its own; "
        "the service grants it what it reads."
    )


async def test_what_the_service_itself_granted_is_taken_back(
    connection: str, database: Database, tmp_path: Path
) -> None:
    with psycopg.connect(database.url) as owner:
        owner.execute("grant all on all tables in schema public to worker")
    opened = await engines.open_store(database.url, tmp_path, worker_url=database.worker_url)
    await opened.operations.close()
    await opened.store.close()
    assert opened.worker_connection == connection
    report = rights.role_report(database.worker_url, service_url=database.url)
    assert (report.more, report.unread) == ((), ())


async def test_the_service_s_own_role_and_a_superuser_are_refused(database: Database, tmp_path: Path) -> None:
    for url, told in ((database.url, "service of the worker may make tables"), (database.admin_url, "is a superuser")):
        with pytest.raises(Refused, match=told):
            await engines.open_store(database.url, tmp_path, worker_url=url)


async def test_another_database_is_refused(server: Server, database: Database, tmp_path: Path) -> None:
    other = server.database(f"{database.name}_other")
    with pytest.raises(Refused, match="leads to another database"):
        await engines.open_store(database.url, tmp_path, worker_url=other.worker_url)
    server.drop(other.name)
