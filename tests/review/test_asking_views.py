"""The worker's findings, as readers get it: every status as JSON, without raw texts for who may not read them."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.outcomes import UpdateStatus
from reconciler.model.plan import CutText, NamedResource, PlanDifference, PlanEntry, PlanField, PlanPlace, PlanStatus
from reconciler.review import kept_plans

pytestmark = pytest.mark.anyio

SECRET = "the raw text"
PLACE = PlanPlace(path="a.yaml", line=3, column=7)


def status(**given: Any) -> PlanStatus:
    return PlanStatus(**{"status": UpdateStatus.CONFIGURED, "kind": "Configuration", "name": "edge", **given})


def field(path: str, **given: Any) -> PlanField:
    return PlanField(path=path, difference=PlanDifference.CHANGED, at=PLACE, **given)


async def encoded(*statuses: PlanStatus, **given: Any) -> kept_plans.EncodedPlan:
    return await kept_plans.encode_plan(msgspec.msgpack.encode(PlanEntry(name="telemetry", statuses=statuses, **given)))


async def test_every_status_comes_through_as_it_is() -> None:
    found = await encoded(
        status(
            at=PLACE,
            fields=(field("spec.a", old=1, new=None), field("spec.b", new=CutText(begins='"x', bytes=70_000))),
            dependants=(NamedResource(kind="Configuration", name="all"),),
        ),
        status(status=UpdateStatus.INVALID, kind=None, name=None, reason="a.yaml:1:1: is no YAML"),
        project="edge",
        path="prod",
        unchanged=7,
        untouched_files=2,
        held=3,
        notes=("one", "two"),
        refused=True,
    )
    at = {"path": "a.yaml", "line": 3, "column": 7}
    assert list(map(json.loads, found.statuses)) == [
        {
            "status": "configured",
            "kind": "Configuration",
            "name": "edge",
            "at": at,
            "fields": [
                {"path": "spec.a", "difference": "changed", "old": 1, "new": None, "at": at},
                {"path": "spec.b", "difference": "changed", "new": {"begins": '"x', "bytes": 70_000}, "at": at},
            ],
            "dependants": [{"kind": "Configuration", "name": "all"}],
        },
        {"status": "invalid", "reason": "a.yaml:1:1: is no YAML"},
    ]
    assert found.entry == PlanEntry(
        name="telemetry",
        project="edge",
        path="prod",
        unchanged=7,
        untouched_files=2,
        held=3,
        notes=("one", "two"),
        refused=True,
    )
    assert list(found.counts.items()) == [("unchanged", 7), ("configured", 1), ("invalid", 1)]


async def test_what_hides_nothing_is_kept_once() -> None:
    found = await encoded(*[status(fields=(field("spec.selector.matchLabels.a", old=1, new=2),))] * 120)
    assert len(found.statuses) == 120
    assert all(one is other for one, other in zip(found.statuses, found.without_raw, strict=True))
    assert found.size == sum(map(len, found.statuses))


async def test_what_is_no_entry_is_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        await kept_plans.encode_plan(b"\x01")


@pytest.mark.parametrize(
    "one",
    [
        field("spec.raw", old=SECRET, new="other"),
        field("spec.raw", old="other", new=SECRET),
        field("spec.raw", new=SECRET),
        field("spec.raw", old=SECRET),
        field("spec.raw", old=CutText(begins=f'"{SECRET}', bytes=9_000), new="other"),
        field("spec.raw.inner", old={"a": SECRET}),
        field("spec.raw[0]", new=SECRET),
        field("spec", new={"contentType": "yaml", "raw": SECRET}),
        field("spec", new=CutText(begins=f'{{"raw":"{SECRET}', bytes=9_000)),
        field("", old={"spec": {"raw": SECRET}}),
    ],
)
async def test_a_raw_text_is_not_in_what_viewers_get(one: PlanField) -> None:
    found = await encoded(status(fields=(field("spec.selector", old=1, new=2), one)))
    [shown], [hidden] = found.statuses, found.without_raw
    assert SECRET.encode() in shown
    assert SECRET.encode() not in hidden
    fields = json.loads(hidden)["fields"]
    assert fields[0] == json.loads(shown)["fields"][0]
    assert fields[1].keys() - {"sensitive"} == json.loads(shown)["fields"][1].keys()
    assert fields[1]["sensitive"] is True
    assert {fields[1].get("old"), fields[1].get("new")} <= {None, "(sensitive)", "(sensitive, changed)"}


def test_that_a_raw_text_changed_is_told_as_of_a_secret() -> None:
    hidden = kept_plans.without_raw(status(fields=(field("spec.raw", old="a", new="b"),)))
    assert (hidden.fields[0].old, hidden.fields[0].new) == ("(sensitive)", "(sensitive, changed)")


def test_other_kinds_have_no_raw_text() -> None:
    one = status(kind="Destination", fields=(field("spec.raw", old="a", new="b"),))
    assert kept_plans.without_raw(one) is one


@given(st.text(max_size=30), st.sampled_from(["spec.rawness", "spec.parameters[raw].value", "metadata.labels.raw"]))
def test_fields_beside_it_are_shown(text: str, path: str) -> None:
    one = status(fields=(field(path, old=text, new=f"{text}!"),))
    assert kept_plans.without_raw(one) is one
