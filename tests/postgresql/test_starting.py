"""A service starts on PostgreSQL without files of a store, and the commands for files say what to use there."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from reconciler.cli import exits
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications.board import Board, Owners
from reconciler.notifications.models import Cause, Domain, Finding, Observation
from reconciler.store.postgresql.operations import PostgresqlOperations
from tests import daemons
from tests.api.parts import Moment
from tests.cli.conftest import Program
from tests.daemons import Daemon
from tests.notifications.boards import PLACE
from tests.postgresql.engine import PostgresqlEngine
from tests.postgresql.servers import PASSWORDS, Database, Server

pytestmark = pytest.mark.providers


def settings(database: Database, **more: object) -> dict[str, object]:
    return {"store": {"url": database.url, "workerUrl": database.worker_url}, **more}


@pytest.fixture
def service(tmp_path: Path, database: Database) -> Iterator[Daemon]:
    with daemons.running(tmp_path / "daemon", settings=settings(database)) as daemon:
        daemon.apply(daemons.asked("a"))
        yield daemon


def ends(daemon: Daemon) -> tuple[int, str]:
    """The exit code of a start that fails, and what it wrote."""
    daemon.log.write_bytes(b"")
    daemon.launch()
    code = daemon.process.wait(daemons.START_SECONDS)
    told = daemon.output()
    daemon.log.write_bytes(b"")  # that is no line of JSON, as all others are
    return code, told


def empty(server: Server, database: Database) -> None:
    server.database(database.name)


def program(daemon: Daemon) -> Program:
    return Program(daemon.config.parent)


def test_there_is_no_file_of_a_store_and_a_restart_finds_everything(service: Daemon) -> None:
    service.restart()
    assert [one["metadata"]["name"] for one in service.resources("Destination")] == ["a"]
    assert sorted(path.name for path in service.state.glob("*.db*")) == []
    assert (service.state / "postgresql").stat().st_mode & 0o777 == 0o600


def test_a_second_replica_with_a_directory_of_its_own_simply_works(
    service: Daemon, tmp_path: Path, database: Database
) -> None:
    other = settings(database, replica={"name": "other"})
    with daemons.running(tmp_path / "other", settings=other) as second:
        assert [one["metadata"]["name"] for one in second.resources("Destination")] == ["a"]
        second.apply(daemons.asked("b"))
    assert {one["metadata"]["name"] for one in service.resources("Destination")} == {"a", "b"}


def test_a_replica_whose_name_another_one_took_is_not_ready(
    service: Daemon, tmp_path: Path, database: Database
) -> None:
    with daemons.running(tmp_path / "other", settings=settings(database)):
        daemons.until(lambda: service.get("/readyz").status == 503, "it is not ready")
        refused = service.get("/readyz")
        assert (refused.body["codes"], "`replica.name`" in refused.body["errors"][0]) == (["replica-unavailable"], True)
    daemons.until(lambda: service.get("/readyz").status == 200, "it is ready again")


def test_a_used_directory_begins_with_an_empty_database_only_if_that_is_meant(
    service: Daemon, server: Server, database: Database
) -> None:
    service.stop()
    empty(server, database)
    told = (
        f"error: the database of `store.url` is empty, and {service.state} is of a service that had a store; correct "
        "`store.url`, copy the store with `reconciler store copy`, restore a dump with `pg_restore`, or start once "
        "with --new-store to begin with an empty one\n"
    )
    assert ends(service) == (1, told)
    with psycopg.connect(database.url) as connection:
        assert connection.execute("select count(*) from pg_tables where schemaname = 'public'").fetchone() == (0,)
    service.options = ("--new-store",)
    service.start()
    assert service.resources("Destination") == []


def test_a_directory_with_a_store_of_sqlite_does_not_begin_anew_on_postgresql(
    tmp_path: Path, database: Database
) -> None:
    with daemons.running(tmp_path / "daemon") as daemon:
        daemon.stop()
        daemon.configure([], **settings(database))
        code, told = ends(daemon)
        assert (code, "is of a service that had a store" in told) == (1, True)


def test_a_directory_with_a_store_on_postgresql_does_not_begin_anew_on_sqlite(service: Daemon) -> None:
    service.stop()
    service.configure([], store={"url": f"sqlite:///{service.state}/store.db"})
    code, told = ends(service)
    assert (code, "is missing, and" in told, "on PostgreSQL; set `store.url`" in told) == (1, True, True)


def test_a_server_that_is_gone_ends_the_start_with_one_sentence(tmp_path: Path) -> None:
    server = Server(tcp=True)
    try:
        database = server.start().database("one")
        server.stop()
        daemon = Daemon(tmp_path / "daemon", settings=settings(database))
        code, told = ends(daemon)
        assert (code, told.startswith("error: "), told.count("\n")) == (1, True, 1)
        assert not any(password in told for password in PASSWORDS.values())
    finally:
        server.remove()


@pytest.mark.parametrize(
    ("command", "use"),
    [
        (
            ["backup", "there"],
            "use `pg_dump --format=custom --exclude-table-data=session --file=FILE DATABASE`, while the service runs "
            "or not",
        ),
        (
            ["restore", "there"],
            "stop all replicas, and use `pg_restore --clean --if-exists --single-transaction --dbname=DATABASE FILE` "
            "with what `pg_dump` wrote",
        ),
    ],
)
def test_backup_and_restore_name_the_programs_of_postgresql(
    tmp_path: Path, database: Database, command: list[str], use: str
) -> None:
    daemon = Daemon(tmp_path / "daemon", settings=settings(database))
    told = program(daemon)(*command, "--config", str(daemon.config))
    sentence = f"error: the store is on PostgreSQL, which has its own programs for this: {use}\n"
    assert (told.code, told.out, told.err) == (exits.ERROR, "", sentence)


def test_the_doctor_looks_at_the_server_and_the_worker_s_role(service: Daemon) -> None:
    told = program(service)("doctor", "--config", str(service.config), "-o", "json")
    found = [one for one in json.loads(told.out)["findings"] if one["check"] in ("postgresql", "store.db", "ops.db")]
    assert {one["status"] for one in found} == {"ok"}, found
    assert [one["message"].split()[0] for one in found] == ["PostgreSQL", "the", "the"]
    assert found[-1]["message"] == "the worker's role worker may only read"


def test_the_doctor_names_queues_that_lost_batches_with_their_replica(tmp_path: Path, database: Database) -> None:
    daemon = Daemon(tmp_path / "daemon", settings=settings(database))

    def queues() -> list[dict[str, str]]:
        told = program(daemon)("doctor", "--config", str(daemon.config), "-o", "json")
        return [one for one in json.loads(told.out)["findings"] if one["check"] == "queues"]

    async def note(replica: str, *findings: Finding) -> None:
        operations = PostgresqlOperations(database.url)
        board = Board(operations, clock=Moment(), place=PLACE, owners=Owners(replica))
        await board.load()
        await board.take(Observation(Domain.DELIVERY, findings))
        await operations.close()

    def damaged(severity: Severity, lost: int) -> Finding:
        cause = Cause(NotificationType.QUEUE_DAMAGED, "siem", "default")
        return Finding(cause, severity, "The queue is damaged", f"Damaged files: 1. Lost batches: {lost}.")

    assert queues() == []  # there is no store
    PostgresqlEngine(database).prepare()
    asyncio.run(note("one", damaged(Severity.ERROR, 2)))
    asyncio.run(note("two", damaged(Severity.WARNING, 0)))
    told = (
        "project default, replica one: The queue is damaged (Damaged files: 1. Lost batches: 2); look at the disk, and "
        "have senders send them again"
    )
    assert queues() == [{"check": "queues", "status": "error", "message": told}]
    asyncio.run(note("one"))
    assert queues() == []


def test_the_audit_of_a_store_on_postgresql_is_verified(service: Daemon, database: Database) -> None:
    verify = ["audit", "verify", "--config", str(service.config)]
    told = program(service)(*verify)
    assert told.code == exits.OK, told.err
    assert told.out.startswith("verified: ")
    assert told.out.splitlines()[-1].startswith(f"store: the database {database.name} on ")
    head = next(line for line in told.out.splitlines() if line.startswith("head: ")).removeprefix("head: ")
    service.apply(daemons.asked("b"))
    assert program(service)(*verify, "--head", head).code == exits.OK
    with psycopg.connect(database.admin_url) as admin:
        admin.execute("update audit set actor = 'key:other' where id = (select max(id) from audit)")
    broken = program(service)(*verify)
    assert broken.code == exits.ERROR
    assert broken.err.startswith("error: ")
    missing = program(service)("audit", "verify", "--config", str(service.config), "--head", f"9999:{'0' * 64}")
    assert missing.code == exits.ERROR


def test_a_dump_is_a_backup(service: Daemon, server: Server, database: Database, tmp_path: Path) -> None:
    dump = str(tmp_path / "dump")
    server.run("pg_dump", "--format=custom", "--exclude-table-data=session", f"--file={dump}", database.admin_url)
    service.apply(daemons.asked("later"))
    service.stop()
    server.run("pg_restore", "--clean", "--if-exists", "--single-transaction", f"--dbname={database.admin_url}", dump)
    service.start()
    assert [one["metadata"]["name"] for one in service.resources("Destination")] == ["a"]
    assert program(service)("audit", "verify", "--config", str(service.config)).code == exits.OK
