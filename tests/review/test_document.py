"""The plan as JSON."""

import json
import re

import msgspec
from hypothesis import given

from reconciler.model.plan import FORMAT, Plan
from reconciler.review import plan as review_plan
from tests import hostile_text
from tests.review import samples
from tests.review.strategies import PLAIN, PLANS


@given(PLAIN)
def test_it_decodes_to_the_same_plan(plan: Plan) -> None:
    assert msgspec.json.decode(review_plan.render_json(plan), type=Plan) == plan


@given(PLANS)
def test_nothing_in_it_acts_on_what_shows_it(plan: Plan) -> None:
    shown = review_plan.render_json(plan).decode()
    assert hostile_text.unseen(shown) == []
    assert shown.count("\n") == 1
    assert not re.search(r"##\w*\[", shown)


def test_counts_stand_beside_what_they_count() -> None:
    found = json.loads(review_plan.render_json(samples.two()))
    assert found["formatVersion"] == FORMAT
    assert found["counts"] == {"unchanged": 3, "created": 2, "invalid": 1}
    assert [entry["counts"] for entry in found["entries"]] == [
        {"unchanged": 3, "created": 1},
        {"created": 1, "invalid": 1},
    ]


def test_a_value_that_was_cut_says_so() -> None:
    statuses = json.loads(review_plan.render_json(samples.every()))["entries"][0]["statuses"]
    (body,) = (field for one in statuses for field in one.get("fields", ()) if field["path"] == "spec.body")
    assert body["old"] == {"begins": '"begins', "bytes": 10_485_760}


def test_null_is_a_value_and_nothing_is_none() -> None:
    statuses = json.loads(review_plan.render_json(samples.every()))["entries"][0]["statuses"]
    fields = {field["path"]: field for one in statuses for field in one.get("fields", ())}
    assert fields["spec.enabled"]["new"] is None
    assert "new" not in fields["spec.labels.tier"]
