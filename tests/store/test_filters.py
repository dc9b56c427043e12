"""Filters of events: what is meant by a kind, an action and an actor, and what is none."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from api import audit_events
from api.audit_events import NoSuchFilter
from reconciler.auth import rate_limits, sign_in
from reconciler.model import names, principals
from reconciler.reconcile import interventions

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "audit.md"


@pytest.mark.parametrize(
    ("meant", "typed", "found"),
    [
        (audit_events.kind_filter, "destination-types", "DestinationType"),
        (audit_events.kind_filter, "DESTINATION", "Destination"),
        (audit_events.kind_filter, "key", "Key"),
        (audit_events.action_filter, "Signed-In", "signed-in"),
        (audit_events.actor_filter, "user:Ana b", "user:Ana b"),
        (audit_events.actor_filter, "git:telemetry", "git:telemetry"),
    ],
)
def test_what_is_meant_is_found_as_events_have_it(meant: Callable[[str], str], typed: str, found: str) -> None:
    assert meant(typed) == found


@pytest.mark.parametrize(
    ("meant", "typed", "told"),
    [
        (audit_events.kind_filter, "Nope", "is no kind of what events tell of; there are `AgentVersion`, "),
        (audit_events.kind_filter, "", "is no kind"),
        (audit_events.action_filter, "create", "is no action; there are `approved`, `configured`, "),
        (audit_events.actor_filter, "ana", "is nobody; write `user:` before the name of a person, "),
        (audit_events.actor_filter, "user:", "is nobody; "),
        (audit_events.actor_filter, "Settings", "is nobody; "),
        (
            audit_events.actor_filter,
            "key:collector",
            "is no key: they are named by their ids, as `key:01M7Z5EW4Q8Z2S0T9V1X3Y5A7C`.",
        ),
    ],
)
def test_what_is_none_is_told_with_those_that_there_are(meant: Callable[[str], str], typed: str, told: str) -> None:
    with pytest.raises(NoSuchFilter) as raised:
        meant(typed)
    assert str(raised.value).startswith(told)


def test_whoever_the_service_names_is_somebody() -> None:
    machines = (rate_limits.NOBODY, rate_limits.OTHERS, interventions.SYSTEM, interventions.SETTINGS, sign_in.ACTOR)
    keys = (principals.SERVICE_KEY.name, principals.LOCAL.name)
    assert [audit_events.actor_filter(name) for name in (*machines, *keys)] == [*machines, *keys]


def test_the_page_lists_every_kind_and_action() -> None:
    section = PAGE.read_text().split("## What is recorded")[1].split("Each event has")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| ") and "`" in line]
    listed = {name for first, _ in rows for name in re.findall(r"`(\w+)`", first)}
    assert listed | {kind.name for kind in names.KINDS} == set(audit_events.KINDS) | {"Destination"}
    actions = {name for _, second in rows for name in re.findall(r"`([a-z-]+)`", second)}
    assert actions - {"password"} == set(audit_events.ACTIONS)


def test_whatever_the_program_tells_of_can_be_asked_for() -> None:
    text = "\n".join(path.read_text() for room in ("reconciler", "api") for path in sorted((ROOT / room).rglob("*.py")))
    told = re.findall(r'Audited\(\s*"([a-z-]+)", "(\w+)"', text)
    assert len(told) >= 10
    assert {action for action, _ in told} | set(re.findall(r'\baction="([a-z-]+)"', text)) <= set(audit_events.ACTIONS)
    assert {kind for _, kind in told} <= set(audit_events.KINDS)
