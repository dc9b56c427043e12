"""docs/lineage.md shows what a resource says, and limits that are so."""

import json

from api import openapi
from reconciler.git import history
from reconciler.worker import commits
from tests.docs import pages

PAGE = pages.read(pages.ROOT / "docs/lineage.md")
SCHEMAS = json.loads(openapi.encoded())["components"]["schemas"]


def test_the_example_has_every_field_and_no_other() -> None:
    [text] = pages.blocks(PAGE, "json")
    source, schema = json.loads(text)["source"], SCHEMAS["GitSource"]
    assert source.keys() == schema["properties"].keys()
    assert source["changedBy"].keys() == schema["properties"]["changedBy"]["properties"].keys()


def test_every_field_is_explained() -> None:
    fields = [name.strip("` ") for row in pages.table(PAGE) if "field" in row for name in row["field"].split(",")]
    assert {*fields, "type"} == SCHEMAS["GitSource"]["properties"].keys()


def test_the_limits_are_so() -> None:
    assert f"beyond {history.MAX_COMMITS:,} commits" in PAGE
    assert ("more than a second" in PAGE, commits.RUN_SECONDS) == (True, 1.0)
    assert ("a tenth of a second" in PAGE, commits.FIRST_SECONDS) == (True, 0.1)
    limits = pages.read(pages.ROOT / "docs/limits.md")
    minutes = int(commits.BACKGROUND_SECONDS / 60)
    assert (
        f"| {history.MAX_COMMITS:,} commits; 1 s of a run, 0.1 s of a first read, {minutes} minutes in the background |"
        in limits
    )
