"""docs/routing.md: its example delivers as it says, and its reasons are all there are."""

import re

from reconciler.model import cron, names, positions, routes
from reconciler.model import documents as model_documents
from reconciler.model.routes import Route
from tests import worlds
from tests.docs import pages
from tests.worlds import Following

PAGE = pages.read(pages.ROOT / "docs/routing.md")
[EXAMPLE] = pages.blocks(PAGE, "yaml")
REASONS = (
    routes.ON_COLLECTORS,
    routes.INCOMPLETE,
    routes.RAW,
    routes.UNREADABLE,
    routes.NEITHER,
    routes.ROUTES,
    (routes.PROCESSOR, routes.NAMED_PROCESSOR, routes.IS_PROCESSOR),
    (routes.NO_SOURCE, routes.NO_DESTINATION),
    (routes.NO_ID, routes.BAD_ID, routes.SAME_ID),
    routes.UNFIT,
)


def test_the_example_delivers_as_it_says() -> None:
    documents = model_documents.read(EXAMPLE.encode(), syntax=model_documents.Syntax.YAML, limits=positions.FILE_LIMITS)
    with worlds.world({"a": Following()}) as world:
        assert world.apply([one.value for one in documents]).statuses == ["created"] * 3
        found, _ = world.routes()
    destinations = ("siem", "web-servers:archive")
    assert found.routes == (Route(configuration="web-servers", labels=(("role", "web"),), destinations=destinations),)


def test_every_reason_has_its_row() -> None:
    rows = pages.table(pages.section(PAGE, "What delivers, and why not"))
    assert len(rows) == len(REASONS)
    told = re.findall(r'^[A-Z_]+ = "[^"]+[.]"', pages.read(pages.ROOT / "reconciler/model/routes.py"), re.MULTILINE)
    flat = [text for one in REASONS for text in ((one,) if isinstance(one, str) else one)]
    assert len(flat) == len(told) + 1, "one is put together of two texts"
    assert f"at most {names.LONGEST_NAME}" in rows[8]["a Configuration does not deliver when"]


def test_the_fields_of_a_schedule_are_those_that_are_read() -> None:
    rows = pages.table(pages.section(PAGE, "Schedules"))
    assert [(row["field"], row["names"].strip("`").split("` to `")) for row in rows] == [
        (field.name, [field.names[0], field.names[-1]] if field.names else [""]) for field in cron._FIELDS
    ]
    for row, field in zip(rows, cron._FIELDS, strict=True):
        assert row["values"].startswith(f"{field.first} to {field.last}")
