"""The page of the format tells the truth."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from reconciler.model import flows, plan
from reconciler.model.plan import Plan
from reconciler.review import plan as review_plan

PAGE = (Path(__file__).parents[2] / "docs/plan-format.md").read_text(encoding="utf-8")
TABLED = set(re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`[^|]*) \|", PAGE, re.MULTILINE))))
SHAPES = (
    flows.Flow,
    plan.Plan,
    plan.PlanTip,
    plan.PlanEntry,
    plan.PlanStatus,
    plan.PlanField,
    plan.PlanPlace,
    plan.PlanRendering,
)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_field_has_a_row(shape: type[msgspec.Struct]) -> None:
    names = {field.encode_name for field in msgspec.structs.fields(shape)}
    assert names <= TABLED


def test_the_example_is_what_is_written() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    shown = json.loads(example)
    again = json.loads(review_plan.render_json(msgspec.json.decode(example.encode(), type=Plan)))
    assert again == shown
    assert again["formatVersion"] == plan.FORMAT
