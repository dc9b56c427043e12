"""Texts made to hurt, through the doors that take them: each is refused or stored, in a few seconds of processor time.

The budgets are about five times what was measured: what grows too fast is over them, and a slow machine is not.
Rows with a larger one are slow.
"""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from reconciler.worker.messages import Verb
from tests import worlds
from tests.worlds import Following, World

MEBIBYTE = 2**20
LARGEST = 8 * MEBIBYTE  # of a body


class Row(NamedTuple):
    """A request; the status, and what the answer, or the first thing that a run tells, holds."""

    name: str
    made: Callable[[], str]
    expected: str
    seconds: float = 2.0


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with worlds.world({"a": Following()}) as world:
        world.apply([resource("Fleet", "warm")])  # compiles the schemas
        yield world


def resource(kind: str, name: str, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "service/v1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec or {}}


def typed(*parameters: dict[str, Any], name: str = "t") -> dict[str, Any]:
    return resource("DestinationType", name, {"parameters": list(parameters)})


def body(*resources: dict[str, Any]) -> str:
    """As many bytes as a body may have: the limit of nodes grows with them."""
    return json.dumps({"resources": resources}).ljust(LARGEST)


def lines(head: str, line: str, count: int) -> str:
    return head + "".join(line.format(number) for number in range(count))


FLEET = "apiVersion: service/v1\nkind: Fleet\nmetadata:\n  name: a\n"
CROWDED = "/metadata/labels: has more than 1,000 labels; take some away"

FILES = [
    Row("good labels", lambda: lines(f"{FLEET}  labels:\n", "    k{}: v\n", 49_000), CROWDED),
    Row("bad labels", lambda: lines(f"{FLEET}  labels:\n", "    -k{}: v\n", 49_000), CROWDED),
    Row(
        "bad labels of the largest number",
        lambda: lines(f"{FLEET}  labels:\n", "    -k{}: v\n", 1_000),
        "/metadata/labels/-k0: must be 1 to 63",
    ),
    Row("a long name", lambda: f"{FLEET[:-2]}{'a-' * 2_400_000}\n", "/metadata/name: must be 1 to 63"),
    Row("a long key", lambda: f"{FLEET}  labels:\n    ? {'a.' * 2_400_000}\n    : v\n", "must be 1 to 63"),
    Row("unknown keys", lambda: lines(FLEET, "k{}: v\n", 49_000), "/k0: is not a known field", 3.0),
    Row("documents", lambda: "---\nkind: No\n" * 11_000, "holds more than 10,000 documents"),
    Row("invalid documents", lambda: "---\nkind: No\n" * 9_000, "/apiVersion: is required", 8.0),
    Row(
        "one broken component under many aliases",
        lambda: f"kind: Configuration\nspec:\n  sources:\n  - &a\n    {'x' * 900}: 1\n" + "  - *a\n" * 16_000,
        "needs one of `name`, `type`",
        10.0,
    ),
]
ENUM = {"name": "p", "type": "enums", "validValues": [f"v{number}" for number in range(9_000)]}
STRINGS = [{"name": f"p{number}", "type": "string"} for number in range(1_000)]
NEEDED = [{**one, "required": True} for one in STRINGS]


def users(count: int, parameters: list[Any] | None = None) -> list[dict[str, Any]]:
    spec = {"type": "t", "parameters": parameters or []}
    return [resource("Destination", f"d{number}", spec) for number in range(count)]


def on(operator: str, value: Any) -> dict[str, Any]:
    return {"relevantIf": [{"name": "p0", "operator": operator, "value": value}], "type": "string", "required": True}


def conditional(count: int, operator: str) -> dict[str, Any]:
    some = ({"name": f"q{number}", **on(operator, [f"v{number}"])} for number in range(count))
    return typed({"name": "p0", "type": "strings"}, *some)


BODIES = [
    Row("open lists", lambda: "[" * LARGEST, "400 is nested deeper than 102 levels"),
    Row("open objects", lambda: '{"a":' * (LARGEST // 5), "400 is nested deeper than 102 levels"),
    Row("numbers", lambda: "[" + "1," * (LARGEST // 2 - 1) + "1]", "400 holds more than 1,048,576 values", 12.0),
    Row("a number", lambda: "[" + "9" * (LARGEST - 2) + "]", "400 the integer is outside"),
    Row(
        "one id", lambda: body(*(resource("Fleet", f"n{one}", id="x") for one in range(10_000))), "202 has this id", 3.0
    ),
    Row("one name", lambda: body(*[resource("Fleet", "n")] * 10_000), "202 is given more than once", 3.0),
    Row(
        "a large resource",
        lambda: body(resource("AgentVersion", "a", {"l": [1] * 100_000})),
        "413 /resources/0: holds more than 100,000 values and keys; make several resources of it",
    ),
    Row("parameters of a type", lambda: body(typed(*STRINGS, *STRINGS)), "202 has more than 1,000 parameters"),
    Row(
        "valid values of a type",
        lambda: body(typed(ENUM, {**ENUM, "name": "q"})),
        "202 lists more than 10,000 valid values in all",
    ),
    Row(
        "conditions of a parameter",
        lambda: body(typed({"name": "p", "type": "string", "relevantIf": on("equals", 1)["relevantIf"] * 101})),
        "202 /spec/parameters/0/relevantIf: has more than 100 conditions",
    ),
    Row("conditions of a type", lambda: body(conditional(999, "equals")), "202 created", 3.0),
    Row(
        "searches of a type",
        lambda: body(conditional(101, "containsAny")),
        "202 has more than 100 conditions `containsAny` in all",
    ),
    Row(
        "a long list that is searched",
        lambda: body(
            conditional(100, "containsAny"),
            *users(1, [{"name": "p0", "value": [f"w{number}" for number in range(99_900)]}]),
        ),
        "202 created",
        3.0,
    ),
    Row(
        "bad entries of a list",
        lambda: body(typed(ENUM), *users(1, [{"name": "p", "value": ["x"] * 99_000}])),
        "202 is not one of",
        4.0,
    ),
    Row(
        "missing beside a large one",
        lambda: body(typed(*NEEDED), *users(1, [{"name": "p0", "value": "x" * 5_000_000}])),
        "202 `p1` is required",
    ),
    Row(
        "components that lack all",
        lambda: body(typed(*NEEDED), resource("Configuration", "c", {"destinations": [{"type": "t"}] * 30_000})),
        "202 `p0` is required",
        8.0,
    ),
    Row(
        "a text that is YAML",
        lambda: body(typed({"name": "y", "type": "yaml"}), *users(1, [{"name": "y", "value": "- x\n" * 1_000_000}])),
        "202 does not parse as YAML",
        4.0,
    ),
    Row(
        "resources that lack all",
        lambda: body(typed(*NEEDED), *users(9_000)),
        "413 The resources take more than 20 s to judge; send them in several requests.",
        60.0,
    ),
]


FEW_SECONDS = 2.0


def row_of(row: Row) -> Any:
    return pytest.param(row, id=row.name, marks=[pytest.mark.slow] if row.seconds > FEW_SECONDS else [])


@pytest.mark.parametrize("row", [row_of(row) for row in FILES])
def test_a_file_is_done_with_soon(row: Row, world: World) -> None:
    text = row.made()
    assert len(text.encode()) <= 5 * MEBIBYTE
    world.push("a", {"a.yaml": text})
    begun = time.process_time()
    ran = world.plan("a", full=True)
    assert time.process_time() - begun < row.seconds
    assert row.expected in (ran.told[0].reason or "")


@pytest.mark.parametrize("row", [row_of(row) for row in BODIES])
def test_a_body_is_done_with_soon(row: Row, world: World) -> None:
    text = row.made().encode()[:LARGEST]
    begun = time.process_time()
    planned = world.request_text(Verb.APPLY, text).planned
    assert time.process_time() - begun < row.seconds
    status, _, told = row.expected.partition(" ")
    assert planned.status == int(status)
    assert told in planned.answer.decode()
