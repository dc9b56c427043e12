"""A plan of a running service is read as a plan like any other."""

import json
from typing import Any

import pytest

from reconciler.cli import plan as cli_plan
from reconciler.cli.client import Client, Refusal
from reconciler.model.errors import Refused
from reconciler.model.outcomes import UpdateStatus
from reconciler.model.plan import (
    CutText,
    NamedResource,
    Plan,
    PlanDifference,
    PlanEntry,
    PlanField,
    PlanPlace,
    PlanStatus,
    PlanTip,
)
from reconciler.model.values import Value
from tests.cli.conftest import Outcome, Program, Service

TOPIC = "refs/heads/topic"
SHOWN: dict[str, Any] = {
    "id": "01KAH30ZPT8Q1X2Y3Z4A5B6C7D",
    "digest": "9f86",
    "repository": "telemetry",
    "project": "edge",
    "path": "prod",
    "base": {"ref": "refs/heads/main", "commit": "b" * 40},
    "head": {"ref": TOPIC, "commit": "c" * 40},
    "mergeBase": "a" * 40,
    "behind": 2,
    "ahead": 1,
    "storeVersion": 17,
    "stale": True,
    "createdAt": "2026-11-21T06:12:00.123Z",
    "refused": True,
    "counts": {"unchanged": 3, "configured": 1},
    "unchanged": 3,
    "untouchedFiles": 4,
    "held": 13,
    "notes": ["a note"],
    "link": "https://github.com/a/b/blob/{commit}/{path}#L{line}",
    "statuses": [
        {
            "status": "configured",
            "kind": "Destination",
            "name": "siem",
            "at": {"path": "siem.yaml"},
            "fields": [
                {"path": "spec.a", "difference": "changed", "old": {"begins": '"x', "bytes": 70_000}, "new": None},
                {"path": "spec.b", "difference": "added", "new": {"begins": "mine", "bytes": 7}},
            ],
            "dependants": [{"kind": "Configuration", "name": "checkout"}],
            "later": "what a later version adds",
        }
    ],
}


def ask(service: Service, **given: str) -> Plan:
    with Client(server=service.url, api_key="k" * 32) as client:
        return cli_plan.ask_server(client, **{"repository": "telemetry", "head": TOPIC, **given})


def test_an_answer_is_a_plan_with_one_entry(service: Service) -> None:
    service.answer("POST /v1/plan", {"plan": SHOWN})
    status = PlanStatus(
        status=UpdateStatus.CONFIGURED,
        kind="Destination",
        name="siem",
        at=PlanPlace(path="siem.yaml"),
        fields=(
            PlanField(
                path="spec.a", difference=PlanDifference.CHANGED, old=CutText(begins='"x', bytes=70_000), new=None
            ),
            PlanField(path="spec.b", difference=PlanDifference.ADDED, new={"begins": "mine", "bytes": 7}),
        ),
        dependants=(NamedResource(kind="Configuration", name="checkout"),),
    )
    entry = PlanEntry(
        name="telemetry",
        project="edge",
        path="prod",
        statuses=(status,),
        unchanged=3,
        untouched_files=4,
        held=13,
        notes=("a note",),
        refused=True,
        link="https://github.com/a/b/blob/{commit}/{path}#L{line}",
        page=f"{service.url}/plans/{SHOWN['id']}",
    )
    assert ask(service) == Plan(
        base=PlanTip(ref="refs/heads/main", commit="b" * 40),
        head=PlanTip(ref=TOPIC, commit="c" * 40),
        merge_base="a" * 40,
        behind=2,
        ahead=1,
        entries=(entry,),
        store_version=17,
        server=service.url,
        digest="9f86",
        stale=True,
    )


def test_a_base_is_sent_only_when_it_is_given(service: Service) -> None:
    service.answer("POST /v1/plan", {"plan": SHOWN})
    ask(service)
    ask(service, base="refs/heads/next")
    body = {"repository": "telemetry", "head": TOPIC}
    assert [request.body for request in service.requests] == [body, {**body, "base": "refs/heads/next"}]


def several(program: Program, service: Service, **second: object) -> Outcome:
    """A plan of two repositories, the second of which is otherwise."""
    fresh = {**SHOWN, "stale": False}
    service.answer("POST /v1/plan", {"plan": fresh})
    service.answer("POST /v1/plan", {"plan": {**fresh, "repository": "other", **second}})
    named = ("--repository", "telemetry", "--repository", "other")
    return program("plan", "--server", service.url, "--head", TOPIC, *named, "--output", "json")


def test_several_repositories_are_entries_of_one_plan(alone: Program, service: Service) -> None:
    outcome = several(alone, service, statuses=[], counts={"unchanged": 3})
    assert outcome.code == 0, outcome.err
    assert [request.body["repository"] for request in service.requests] == ["telemetry", "other"]
    found = json.loads(outcome.out)
    assert [(entry["name"], entry["counts"]) for entry in found["entries"]] == [
        ("telemetry", {"unchanged": 3, "configured": 1}),
        ("other", {"unchanged": 3}),
    ]
    assert (found["storeVersion"], "digest" in found, "stale" in found) == (17, False, False)


def test_several_plans_are_stale_when_the_store_moved_between_them(alone: Program, service: Service) -> None:
    assert json.loads(several(alone, service, storeVersion=18).out)["stale"]


def test_several_repositories_that_follow_other_branches_are_no_one_plan(alone: Program, service: Service) -> None:
    outcome = several(alone, service, base={"ref": "refs/heads/next", "commit": "d" * 40})
    assert outcome.code == 1
    assert "their bases or heads differ; plan one at a time" in outcome.err


def test_a_conflict_names_each_file(service: Service) -> None:
    service.answer("POST /v1/plan", {"errors": ["a.yaml: conflicts", "b.yaml: conflicts"]}, status=409)
    with pytest.raises(Refusal) as refusal:
        ask(service)
    assert (refusal.value.status, refusal.value.errors) == (409, ("a.yaml: conflicts", "b.yaml: conflicts"))


def test_an_unknown_repository_is_told_in_words_of_the_command_line(service: Service) -> None:
    service.refuse("POST /v1/plan", "x", status=404, code="repository-not-found")
    with pytest.raises(Refused, match="there is no repository telemetry; `reconciler status` shows those there are"):
        ask(service)


def test_an_unknown_ref_is_told_in_the_words_of_the_service(service: Service) -> None:
    service.answer("POST /v1/plan", {"errors": ["/srv/git has nothing to propose at refs/heads/topic"]}, status=404)
    with pytest.raises(Refusal, match="nothing to propose"):
        ask(service)


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"plan": None},
        {"plan": {**SHOWN, "statuses": [{"status": "exploded"}]}},
        {"plan": {key: value for key, value in SHOWN.items() if key != "head"}},
    ],
)
def test_what_is_no_plan_is_refused(answer: dict[str, Value]) -> None:
    with pytest.raises(Refused, match="not one of the service"):
        cli_plan.decoded(answer, server="http://service")


def test_without_a_head_and_outside_of_a_repository_both_ways_out_are_told(alone: Program, service: Service) -> None:
    outcome = alone("plan", "--server", service.url, "--repository", "telemetry")
    assert outcome.code == 1
    assert outcome.err.endswith("run it in one, or name what would be merged with --head\n")
