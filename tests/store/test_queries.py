"""The statements of `queries.sql`: each is right, each is used, and the planner's never walk a whole table."""

import ast
import re
import sqlite3
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import pytest

from reconciler.store import database

FOLDER = Path(database.__file__).parent
STATEMENTS = database.load_queries("reconciler.store")
WHOLE = {
    "all_invitations",
    "all_keys",
    "all_members",
    "all_projects",
    "all_users",
    "links",
    "repositories",
    "runs",
    "suspended_at",
}  # they tell all rows, or the newest ones in the order of the primary key
SORTS = {
    "last_versions": ["USE TEMP B-TREE FOR GROUP BY"],
    "unconverged": ["USE TEMP B-TREE FOR ORDER BY"],  # of what is incomplete, to be merged with what comes in order
}
LOOKED_THROUGH = {"deprecated_in_use", "quotes", "versions_naming"}  # for a text inside others, which no index finds
FILTERED = {"audit_events"}  # by an array of projects as well
VERIFIED = {"chained_events", "rewrites_in_all", "stray_event"}  # which looks at all that there is
INSERTS = {name for name, sql in STATEMENTS.items() if sql.startswith("insert")}
OF_FEW = {"unmet"}  # which looks at all repositories
FOLLOWING = {"put_rendering", "unrendered"}  # what they found themselves, from one reference to the next
KEYED = sorted(set(STATEMENTS) - WHOLE - INSERTS - LOOKED_THROUGH - FILTERED - VERIFIED - OF_FEW - FOLLOWING)


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """Of a store that holds nothing, and that nobody writes: statements are explained only."""
    opened = database.open_writer(tmp_path_factory.mktemp("queries") / "store.db")
    database.migrate(opened, steps=database.migrations())
    yield opened
    opened.close()


def arguments(sql: str) -> list[None]:
    numbered = [int(number) for number in re.findall(r"\?([0-9]+)", sql)]
    return [None] * (max(numbered) if numbered else sql.count("?"))


def plan(connection: sqlite3.Connection, name: str) -> list[str]:
    sql = STATEMENTS[name]
    return [row[3] for row in connection.execute(f"explain query plan {sql}", arguments(sql))]


def named_in_code(paths: Iterable[Path], names: Collection[str] | None = None) -> set[str]:
    """Every name of a statement that is a text in the code of modules."""
    nodes = [node for path in paths for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return texts & set(database.load_queries() if names is None else names)


def test_every_statement_is_used() -> None:
    assert sorted(named_in_code(FOLDER.glob("*.py"))) == sorted(database.load_queries())


def test_every_statement_of_the_file_is_found() -> None:
    text = (FOLDER / "queries.sql").read_text(encoding="utf-8")
    statements = [line for line in text.splitlines() if line.endswith(";") and not line.startswith("--")]
    assert (len(STATEMENTS), len(STATEMENTS)) == (text.count("-- name: "), len(statements))


def test_no_name_stands_in_both_files() -> None:
    assert len(database.load_queries()) == sum(len(database.load_queries(package)) for package in database.PACKAGES)


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_every_statement_prepares_against_the_schema(connection: sqlite3.Connection, name: str) -> None:
    sql = STATEMENTS[name]
    assert connection.execute(f"explain {sql}", arguments(sql)).fetchone() is not None


@pytest.mark.parametrize("name", KEYED)
def test_what_asks_for_keys_searches_by_an_index(connection: sqlite3.Connection, name: str) -> None:
    # `SCAN k` is the array of keys that comes in.
    steps = [step for step in plan(connection, name) if step != "SCAN k VIRTUAL TABLE INDEX 1:"]
    scans = [step for step in steps if step.startswith("SCAN") and step != "SCAN CONSTANT ROW"]
    sorts = [step for step in steps if "TEMP B-TREE" in step]
    assert (scans, sorts) == ([], SORTS.get(name, []))
    assert any(step.startswith("SEARCH") for step in steps)


@pytest.mark.parametrize("name", sorted(FOLLOWING))
def test_what_follows_references_searches_by_an_index(connection: sqlite3.Connection, name: str) -> None:
    scans = {step for step in plan(connection, name) if step.startswith("SCAN")}
    assert scans <= {"SCAN u", "SCAN m", "SCAN CONSTANT ROW"}


def test_a_page_of_events_is_read_in_its_order(connection: sqlite3.Connection) -> None:
    steps = [step for step in plan(connection, "audit_events") if "json_each" not in step]
    assert [step for step in steps if step.startswith("SCAN") or "TEMP B-TREE" in step] == []


@pytest.mark.parametrize("name", sorted(VERIFIED))
def test_what_verifies_goes_through_the_rows_in_their_order(connection: sqlite3.Connection, name: str) -> None:
    # What is sorted is one row's own look-up, by an index.
    scans = [step for step in plan(connection, name) if step.startswith(("SCAN", "USE TEMP B-TREE"))]
    assert len(scans) <= 1


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_what_tells_all_rows_needs_no_sorting(connection: sqlite3.Connection, name: str) -> None:
    [step] = plan(connection, name)
    assert step.startswith("SCAN")
