"""The statements of PostgreSQL: the same names as on SQLite, each right, and those of keys read no whole table."""

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from reconciler.store import statements
from reconciler.store.postgresql import connection as postgresql
from tests.postgresql.engine import PostgresqlEngine
from tests.postgresql.servers import Server
from tests.store.test_queries import KEYED, named_in_code

pytestmark = pytest.mark.providers

FOLDER = Path(postgresql.__file__).parent
STATEMENTS = statements.load(postgresql.PACKAGE)
SQLITE_ALONE = {"fact", "make_fact", "tables", "forget_sessions", "forget_flow_key"}  # of files


@pytest.fixture(scope="module")
def service(shared_server: Server) -> "Iterator[psycopg.Connection[tuple[str, ...]]]":
    """A session in a store that holds nothing. It reads whole tables only where nothing else is possible."""
    made = PostgresqlEngine(shared_server.database("queries"))
    made.prepare()
    with psycopg.connect(made.database.url, autocommit=True, prepare_threshold=None) as opened:
        for setting in ("enable_seqscan = off", "enable_bitmapscan = off", "plan_cache_mode = force_generic_plan"):
            opened.execute(f"set {setting}".encode())
        yield opened
    shared_server.drop("queries")


def plan(service: "psycopg.Connection[tuple[str, ...]]", name: str) -> list[str]:
    sql = STATEMENTS[name]
    arguments = max((int(number) for number in re.findall(r"\$([0-9]+)", sql)), default=0)
    service.execute(f"prepare {name}_statement as {sql}".encode())
    given = f"({', '.join(['null'] * arguments)})" if arguments else ""
    return [line for (line,) in service.execute(f"explain execute {name}_statement{given}".encode())]


def test_the_names_are_those_of_sqlite() -> None:
    both = statements.load("reconciler.store", "reconciler.store.ops_db")
    assert set(both) - SQLITE_ALONE <= set(STATEMENTS)


def test_every_statement_is_used() -> None:
    here = named_in_code([*FOLDER.glob("*.py"), *FOLDER.parent.glob("*.py")], names=STATEMENTS.keys())
    assert sorted(here) == sorted(STATEMENTS)


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_every_statement_prepares_against_the_schema(service: "psycopg.Connection[tuple[str, ...]]", name: str) -> None:
    if STATEMENTS[name].startswith("create"):
        return
    assert plan(service, name) != []
    service.execute("deallocate all")


@pytest.mark.parametrize("name", sorted(set(KEYED) & set(STATEMENTS)))
def test_what_asks_for_keys_searches_by_an_index(service: "psycopg.Connection[tuple[str, ...]]", name: str) -> None:
    steps = plan(service, name)
    service.execute("deallocate all")
    assert [step for step in steps if "Seq Scan" in step] == []
