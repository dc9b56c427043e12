"""Mistakes in a database of PostgreSQL, and in the role of the worker, are found before the store is opened."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from reconciler.model.errors import Refused
from reconciler.ops.checks.postgresql import check_postgresql
from reconciler.ops.doctor import FindingStatus
from reconciler.store import engines
from reconciler.store.contract import StoreFault
from reconciler.store.postgresql import inspection
from reconciler.store.postgresql.store import PostgresqlStore
from reconciler.store.records import Record
from tests.daemons import until
from tests.postgresql.engine import PostgresqlEngine
from tests.postgresql.servers import ADMIN, PASSWORDS, SERVICE, Database, Server
from tests.store import rows

pytestmark = pytest.mark.providers


@pytest.fixture
def own() -> Iterator[Server]:
    """A server on TCP that forgets what it wrote, and has few connections."""
    server = Server(tcp=True, fsync="off", synchronous_commit="off", max_connections="12")
    try:
        yield server.start()
    finally:
        server.remove()


def wrong(database: Database, *, worker_url: str | None = None) -> list[str]:
    """Return what the doctor finds that is not ok."""
    found = check_postgresql(database.url, worker_url or database.worker_url, is_full=False)
    return [one.sentence for one in found if one.status is not FindingStatus.OK]


def run(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_an_empty_database_is_said_to_be_empty(database: Database) -> None:
    assert engines.is_empty(database.url)
    assert wrong(database) == ["the database is empty; the first start makes the store in it"]


def test_what_a_server_may_lose_or_lacks_is_found(own: Server) -> None:
    database = own.database("one")
    report = engines.server_report(database.url)
    assert (report.version >= 15, report.is_standby, report.encoding) == (True, False, "UTF8")
    assert report.unsafe == ("fsync = off", "synchronous_commit = off")
    assert 0 < report.connections_left < 10
    assert wrong(database)[:2] == [
        f"{name} = off: a crash may lose what was acknowledged; set it to `on`"
        for name in ("fsync", "synchronous_commit")
    ]
    assert f"{report.connections_left} connections are left" in " ".join(wrong(database))


def test_the_limits_of_the_database_and_the_role_count_too(server: Server, database: Database) -> None:
    run(database.admin_url, f'alter database "{database.name}" connection limit 5')
    try:
        until(lambda: engines.server_report(database.url).connections_left == 4, "others have left")
        run(database.admin_url, f"alter role {SERVICE} connection limit 3")
        until(lambda: engines.server_report(database.url).connections_left == 2, "others have left")
    finally:
        run(server.url("postgres", ADMIN), f"alter role {SERVICE} connection limit -1")


def test_a_worker_that_may_write_is_found(database: Database) -> None:
    run(database.url, *(f"create table {name} (n integer)" for name in "abcd"))
    assert wrong(database)[1:] == []
    run(database.url, *(f"grant insert on {name} to worker" for name in "abcd"))
    run(database.url, "grant create on schema public to worker")
    assert wrong(database)[1:] == [
        "the worker's role worker may make tables, and may write to a, b, c and others; "
        "give the worker a role of its own that may only read"
    ]


def test_the_service_s_own_role_is_none_for_the_worker(database: Database) -> None:
    run(database.url, "create table a (n integer)")
    [owner] = wrong(database, worker_url=database.url)[1:]
    told = "may make tables, and is a member of pg_database_owner, and may write to a"
    assert owner.startswith(f"the worker's role service {told}; ")
    [admin] = wrong(database, worker_url=database.admin_url)[1:]
    assert admin.startswith("the worker's role admin is a superuser, and may make roles, ")


def test_a_table_that_the_worker_needs_and_may_not_read_is_found(database: Database) -> None:
    run(database.url, "create table resource (n integer)", "revoke all on resource from worker")
    assert wrong(database)[1:] == [
        "the worker's role worker may not read resource; start the service again, which grants it"
    ]


def test_a_worker_of_another_database_is_found(server: Server, database: Database) -> None:
    other = server.database(f"{database.name}_other")
    assert wrong(database, worker_url=other.worker_url)[1:] == [
        "`store.workerUrl` leads to another database than `store.url`; name the same database in both"
    ]
    server.drop(other.name)


def test_no_error_shows_a_password(own: Server) -> None:
    database = own.database("one")
    secret = PASSWORDS[SERVICE]
    own.drop("one")
    with pytest.raises(StoreFault, match='database "one" does not exist') as missing:
        engines.is_empty(database.url)
    own.stop()
    with pytest.raises(StoreFault, match="PostgreSQL could not be asked") as stopped:
        engines.is_empty(database.url)
    with pytest.raises(Refused, match=r"^`store\.url` is no URL that libpq can read") as unread:
        engines.is_empty(f"postgresql://ada:{secret}@[db/one")
    with pytest.raises(StoreFault) as unknown:
        engines.is_empty(f"postgresql://ada:{secret}@127.0.0.1:{own.port}/one?connect_timeout=2")
    for raised in (missing, stopped, unread, unknown):
        assert secret not in str(raised.value)
        assert secret not in repr(raised.value.__cause__)


NOT_UNDERSTOOD = {
    "connect_timeout=abc": "gives the option `connect_timeout` a value that libpq does not understand; correct",
    "sslmode=abc": "gives the option `sslmode` a value that libpq does not understand; correct",
    "ssl_min_protocol_version=abc": "gives the option `ssl_min_protocol_version` a value that libpq does not "
    "understand; correct",
    "port=abc": "gives the option `port` a value that libpq does not understand; correct",
    "port=70000": "gives the option `port` a value that libpq does not understand; correct",
    "conect_timeout=2": "has an option `conect_timeout` that libpq does not know; correct",
}


@pytest.mark.parametrize(("option", "told"), NOT_UNDERSTOOD.items())
def test_an_option_that_libpq_does_not_understand_is_named_with_its_setting(
    database: Database, option: str, told: str
) -> None:
    url, worker_url = (f"{one}{'&' if '?' in one else '?'}{option}" for one in (database.url, database.worker_url))
    sentence = f"{told} or remove it (docs/settings.md)."
    with pytest.raises(Refused, match=f"^{re.escape(f'`store.url` {sentence}')}$"):
        PostgresqlStore(url)
    with pytest.raises(Refused, match=f"^{re.escape(f'`store.url` {sentence}')}$"):
        engines.server_report(url)
    with pytest.raises(Refused, match=f"^{re.escape(f'`store.workerUrl` {sentence}')}$"):
        engines.role_report(worker_url, service_url=database.url)


def test_a_passfile_that_libpq_would_pass_over_is_found(server: Server, database: Database, tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    url, worker_url = (
        f"{one}{'&' if '?' in one else '?'}passfile={path}" for one in (database.url, database.worker_url)
    )

    def passfile_findings(worker_url: str = database.worker_url) -> list[str]:
        found = check_postgresql(url, worker_url, is_full=False)
        return [one.sentence for one in found if "passfile" in one.message]

    told = f"{path}, the `passfile` of `store.url`,"
    assert passfile_findings() == [f"{told} cannot be read (No such file or directory); mend that, or name another"]
    path.mkdir()
    assert passfile_findings() == [f"{told} is not a file that can be read; mend that, or name another"]
    path.rmdir()
    path.write_text("*:*:*:*:canary-passfile\n")
    path.chmod(0o640)
    ignored = "is ignored: others than its owner may use it (mode 0640)"
    assert passfile_findings() == [f"{told} {ignored}; `chmod go-rwx {path}`"]
    both = f"{path}, the `passfile` of `store.url` and `store.workerUrl`, {ignored}; `chmod go-rwx {path}`"
    assert passfile_findings(worker_url) == [both]
    server.stop()  # the server's error does not displace it
    assert passfile_findings(worker_url) == [both]
    path.chmod(0o600)
    assert passfile_findings(worker_url) == []


def test_a_lock_on_the_store_does_not_hold_up_the_look(database: Database) -> None:
    with psycopg.connect(database.url) as holder:
        holder.execute("create table fact (n integer)")
        holder.commit()
        holder.execute("lock table fact")
        assert inspection.is_empty(database.url) is False


def test_a_full_look_finds_a_version_that_is_not_what_was_stored(database: Database) -> None:
    engine = PostgresqlEngine(database)
    engine.prepare()

    async def fill() -> None:
        store = engine.open()
        await store.create_project(rows.PROJECT, at=rows.AT)
        await store.commit([rows.stored("a")], record=Record())
        await store.close()

    asyncio.run(fill())
    engine.corrupt(rows.body("a", 1))
    assert not any("damaged" in sentence for sentence in wrong(database))
    found = check_postgresql(database.url, database.worker_url, is_full=True)
    assert [one.message for one in found if "damaged" in one.message] == [
        "1 stored version damaged: version 1 of the Destination a (project default)"
    ]
