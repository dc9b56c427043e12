"""What is wrong with a repository, from the state that it is in and the fault that its last look met."""

from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.concerns import Severity, Type
from reconciler.git.faults import GitFault, State
from reconciler.notifications.models import State as Phase
from reconciler.notifying import repositories
from reconciler.store.contract import StoreFault
from tests import entries
from tests.notifications.observing import START, Book, at

HELD = (Type.REPOSITORY_HELD, Severity.ERROR)
UNREACHABLE = (Type.REPOSITORY_UNREACHABLE, Severity.ERROR)
FAILED = (Type.RECONCILE_FAILED, Severity.ERROR)
FAULT = StoreFault("The store could not be written.")


def repository(state: State, *, fault: Exception | None = None, seen: str | None = "0" * 40) -> Any:
    """A repository as its reconciler remembers it."""
    watched = entries.watched("telemetry", "https://git.example/telemetry", project="acme")
    return SimpleNamespace(
        watched=watched, remembered=SimpleNamespace(state=state.value, message="So it is."), fault=fault, seen=seen
    )


def brief(one: Any) -> list[tuple[Type, Severity, bool]]:
    return [(found.cause.type, found.severity, found.fading) for found in repositories.of_state(one)]


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State.READY, None),
        (State.NEVER_READ, None),
        (State.SUSPENDED, None),
        (State.UNREACHABLE, UNREACHABLE),
        (State.UNAUTHORIZED, UNREACHABLE),
        (State.BRANCH_MISSING, HELD),
        (State.PATH_MISSING, HELD),
        (State.EMPTY, HELD),
        (State.UNRELATED_ROOT, HELD),
        (State.UNSIGNED, HELD),
        (State.UNSUPPORTED_FORMAT, HELD),
        (State.PRUNE_HELD, (Type.PRUNE_HELD, Severity.WARNING)),
        (State.MIRROR_CORRUPT, FAILED),
    ],
)
def test_each_state_is_of_one_type_or_of_none(state: State, expected: tuple[Type, Severity] | None) -> None:
    assert brief(repository(state)) == ([] if expected is None else [(*expected, False)])


def test_every_state_was_thought_of() -> None:
    marks: Any = test_each_state_is_of_one_type_or_of_none
    [table] = [mark.args[1] for mark in marks.pytestmark]
    assert {state for state, _ in table} == set(State)


def test_a_fault_of_the_remote_counts_for_more_than_what_was_remembered() -> None:
    fault = GitFault(State.UNAUTHORIZED, "It wants a password.")
    [found] = repositories.of_state(repository(State.READY, fault=fault))
    assert (found.cause.type, found.facts) == (
        Type.REPOSITORY_UNREACHABLE,
        {"state": "unauthorized", "message": "It wants a password."},
    )


def test_a_fault_that_is_not_the_remotes_keeps_what_is_known_of_the_remote() -> None:
    assert brief(repository(State.UNREACHABLE, fault=FAULT)) == [(*UNREACHABLE, True), (*FAILED, False)]


def test_a_run_that_fails_is_told_changes_and_is_over_once_one_does_not_also_after_a_restart() -> None:
    book = Book()
    another = StoreFault("The disk is full.")
    for minute, one, state, version in (
        (0, repository(State.READY, fault=FAULT), Phase.OPEN, 1),
        (1, repository(State.READY, fault=another), Phase.OPEN, 2),
        (2, repository(State.READY, seen=None), Phase.OPEN, 2),  # started again, and nothing was looked at yet
        (3, repository(State.READY), Phase.RESOLVED, 3),
    ):
        book.look(*repositories.of_state(one), now=at(minutes=minute))
        assert (book.only.cause.type, book.only.state, book.only.version) == (Type.RECONCILE_FAILED, state, version)
    assert book.only.opened == START
