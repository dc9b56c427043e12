"""Causes of a repository, from the state that it is in and the fault that its last look met."""

from collections import Counter
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.model import flows, ids
from reconciler.model.flows import Flow, FlowChange
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications import observers
from reconciler.notifications.models import NotificationState as Phase
from reconciler.store.contract import StoreFault
from tests import entries
from tests.notifications.observing import START, Book, at

HELD = (NotificationType.REPOSITORY_HELD, Severity.ERROR)
UNREACHABLE = (NotificationType.REPOSITORY_UNREACHABLE, Severity.ERROR)
FAILED = (NotificationType.RECONCILE_FAILED, Severity.ERROR)
FAULT = StoreFault("The store could not be written.")


def repository(state: RepositoryState, *, fault: Exception | None = None, seen: str | None = "0" * 40) -> Any:
    """A repository as its reconciler remembers it."""
    watched = entries.watched("telemetry", "https://git.example/telemetry", project="acme")
    return SimpleNamespace(
        watched=watched,
        memory=SimpleNamespace(row=SimpleNamespace(state=state.value, message="So it is."), fault=fault, seen=seen),
    )


def brief(one: Any) -> list[tuple[NotificationType, Severity, bool]]:
    return [(found.cause.type, found.severity, found.fading) for found in observers.cause_of_state(one)]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (RepositoryState.READY, None),
        (RepositoryState.NEVER_READ, None),
        (RepositoryState.SUSPENDED, None),
        (RepositoryState.UNREACHABLE, UNREACHABLE),
        (RepositoryState.UNAUTHORIZED, UNREACHABLE),
        (RepositoryState.BRANCH_MISSING, HELD),
        (RepositoryState.PATH_MISSING, HELD),
        (RepositoryState.EMPTY, HELD),
        (RepositoryState.UNRELATED_ROOT, HELD),
        (RepositoryState.UNSIGNED, HELD),
        (RepositoryState.UNSUPPORTED_FORMAT, HELD),
        (RepositoryState.PRUNE_HELD, (NotificationType.PRUNE_HELD, Severity.WARNING)),
        (RepositoryState.MIRROR_CORRUPT, FAILED),
    ],
)
def test_each_state_is_of_one_type_or_of_none(
    state: RepositoryState, expected: tuple[NotificationType, Severity] | None
) -> None:
    assert brief(repository(state)) == ([] if expected is None else [(*expected, False)])


def test_every_state_was_thought_of() -> None:
    marks: Any = test_each_state_is_of_one_type_or_of_none
    [table] = [mark.args[1] for mark in marks.pytestmark]
    assert {state for state, _ in table} == set(RepositoryState)


def test_a_fault_of_the_remote_counts_for_more_than_what_was_remembered() -> None:
    fault = GitFault(RepositoryState.UNAUTHORIZED, "It wants a password.")
    [found] = observers.cause_of_state(repository(RepositoryState.READY, fault=fault))
    assert (found.cause.type, found.details) == (NotificationType.REPOSITORY_UNREACHABLE, "It wants a password.")


def test_a_fault_that_is_not_the_remotes_keeps_what_is_known_of_the_remote() -> None:
    assert brief(repository(RepositoryState.UNREACHABLE, fault=FAULT)) == [(*UNREACHABLE, True), (*FAILED, False)]


def test_a_run_that_fails_is_told_changes_and_is_over_once_one_does_not_also_after_a_restart() -> None:
    book = Book()
    another = StoreFault("The disk is full.")
    for minute, one, state, version in (
        (0, repository(RepositoryState.READY, fault=FAULT), Phase.OPEN, 1),
        (1, repository(RepositoryState.READY, fault=another), Phase.OPEN, 2),
        (
            2,
            repository(RepositoryState.READY, seen=None),
            Phase.OPEN,
            2,
        ),  # started again, and nothing was looked at yet
        (3, repository(RepositoryState.READY), Phase.RESOLVED, 3),
    ):
        book.observe(*observers.cause_of_state(one), now=at(minutes=minute))
        assert (book.only.cause.type, book.only.state, book.only.version) == (
            NotificationType.RECONCILE_FAILED,
            state,
            version,
        )
    assert book.only.opened == START


def ended(*runs: bytes) -> list[tuple[str, list[str]]]:
    """The commits of which flows are ended after these runs, with the flows."""
    found: dict[str, list[str]] = {}
    for (name, destination), one in observers.ended_flows({}, map(observers.read_flow_run, runs)).items():
        found.setdefault(one.commit, []).append(f"{name} to {destination}")
    return [(commit, sorted(names)) for commit, names in found.items()]


def commit_of(number: int) -> str:
    return f"{number}{0:039}"


def run(number: int, *changes: Flow) -> bytes:
    shown = {"counts": flows.count(changes), "changes": [flows.shown(one) for one in changes]}
    identifier = ids.ulid(milliseconds=number, randomness=bytes(10))
    return msgspec.json.encode(
        {"id": identifier, "outcome": "succeeded", "counts": {}, "commit": commit_of(number), "flows": shown}
    )


def flow(change: FlowChange, configuration: str = "web", destination: str = "siem") -> Flow:
    return Flow(change=change, configuration=configuration, destination=destination)


STOPPED, STALE, STARTED = FlowChange.STOPPED, FlowChange.STALE, FlowChange.STARTED


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([[]], []),
        ([[flow(STALE)]], []),
        ([[flow(STOPPED), flow(STOPPED, "api")]], [(1, ["api to siem", "web to siem"])]),
        ([[flow(STOPPED), flow(STOPPED, "api")], [flow(STARTED)]], [(1, ["api to siem"])]),
        ([[flow(STOPPED)], [flow(STOPPED, "api")]], [(1, ["web to siem"]), (2, ["api to siem"])]),
        ([[flow(STOPPED)], [flow(STARTED)], [flow(STOPPED)]], [(3, ["web to siem"])]),
        ([[flow(STOPPED), flow(STARTED, "web", "archive")]], [(1, ["web to siem"])]),
    ],
)
def test_a_flow_counts_for_the_commit_that_ended_it_last(
    runs: list[list[Flow]], expected: list[tuple[int, list[str]]]
) -> None:
    found = ended(*(run(number, *changes) for number, changes in enumerate(runs, 1)))
    assert found == [(commit_of(number)[:12], names) for number, names in expected]


class Runs:
    """A store with the runs of a repository."""

    def __init__(self, *runs: bytes) -> None:
        self.runs = runs
        self.statuses: list[bytes] = []

    async def runs_pages(self, **_: object) -> AsyncIterator[list[bytes]]:
        yield [*reversed(self.runs)]

    async def run_pages(self, _: str) -> AsyncIterator[list[bytes]]:
        yield [b"the run"]
        yield self.statuses


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("outcome", "statuses", "expected"),
    [
        ("succeeded", [], None),
        (
            "partial",
            [("invalid", "desk", "/spec/x is missing")],
            (
                Severity.WARNING,
                "Not stored as Git says: 1 resource of the repository telemetry",
                "1 invalid: Destination desk. The first: a.yaml:3: /spec/x is missing.",
            ),
        ),
        (
            "refused",
            [("in-use", "old", "web uses it"), *[("invalid", f"d{number}", "") for number in range(7)]],
            (
                Severity.ERROR,
                "Not stored as Git says: 8 resources of the repository telemetry",
                "7 invalid, 1 in-use: Destination old, Destination d0, Destination d1, Destination d2, Destination d3 "
                "and 3 more. The first: a.yaml:3: web uses it.",
            ),
        ),
    ],
    ids=["none", "one", "several of an atomic repository"],
)
async def test_resources_that_are_not_stored_are_counted_and_the_first_has_its_reason(
    outcome: str, statuses: list[tuple[str, str, str]], expected: tuple[Severity, str, str] | None
) -> None:
    shown = [
        {"kind": "Destination", "name": name, "status": status, "path": "a.yaml", "line": 3, "reason": reason}
        for status, name, reason in statuses
    ]
    counts = Counter(status for status, _, _ in statuses)
    store: Any = Runs(msgspec.json.encode({"id": "R1", "outcome": outcome, "counts": counts}))
    store.statuses = [msgspec.json.encode(each) for each in shown]
    one = repository(RepositoryState.READY)
    one.why_suspended, one.memory.last_run = None, "R1"
    look = await observers.RepositoryObserver(lambda: [one], store).observe()
    found = [(each.severity, each.title, each.details) for each in look.findings]
    assert found == ([] if expected is None else [expected])


@pytest.mark.anyio
async def test_a_flow_is_told_until_it_delivers_again_or_a_day_is_over() -> None:
    began = int(START.timestamp() * 1000)
    now, followed, delivering = [START], set[str](), set[str]()
    one: Any = repository(RepositoryState.READY)
    one.why_suspended, one.memory.last_run = None, "a run"
    store: Any = Runs(run(began, flow(STOPPED), flow(STOPPED, "api")))
    observer = observers.FlowObserver(
        lambda: [one],
        store,
        followed=lambda: followed,
        delivers=lambda _project, configuration, _destination: configuration in delivering,
        clock=lambda: now[0],
    )

    async def told() -> list[tuple[object, bool]]:
        return [(found.details, found.fading) for found in (await observer.observe()).findings]

    both = "Web stops delivering to siem; api stops delivering to siem."
    assert await told() == [(both, True)]  # what delivers is not known yet
    followed.add("acme")
    assert await told() == [(both, False)]
    delivering.add("api")
    assert await told() == [("Web stops delivering to siem.", False)]
    now[0] = at(hours=24)
    assert await told() == []
