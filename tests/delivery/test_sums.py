"""One answer of several instances: what is summed, and whose state is told."""

from typing import Any

import pytest

from reconciler.delivery import sums
from tests.api.delivering import SHOWN

EARLY, LATE = "2026-11-21T06:00:00.000Z", "2026-11-21T07:00:00.000Z"


def shown(**changes: Any) -> dict[str, Any]:
    """Return the figures of one instance; members of `queue` begin with `queue_`."""
    queue = {name.removeprefix("queue_"): value for name, value in changes.items() if name.startswith("queue_")}
    rest = {name: value for name, value in changes.items() if not name.startswith("queue_")}
    return {**SHOWN, **rest, "queue": {**SHOWN["queue"], **queue}}


def test_sums_and_extremes() -> None:
    one = shown(queue_records=3, queue_load=0.003, queue_oldest=LATE, lastSuccess=EARLY, configurations=["b", "a"])
    two = shown(queue_records=4, queue_load=0.004, queue_oldest=EARLY, lastSuccess=LATE, queue_refused=True)
    found = sums.sum_deliveries([("one", one), ("two", two)])
    assert (found["queue"]["records"], found["queue"]["load"], found["queue"]["maxBatches"]) == (7, 0.007, 10_000)
    assert (found["queue"]["oldest"], found["queue"]["refused"], found["lastSuccess"]) == (EARLY, True, LATE)
    assert found["configurations"] == ["a", "b", "checkout"]
    assert found["instances"] == [{"instance": "one", "delivery": one}, {"instance": "two", "delivery": two}]


@pytest.mark.parametrize(
    ("states", "worst"),
    [
        (("idle", "down"), 1),
        (("waiting", "held"), 1),
        (("sending", "idle"), 0),
        (("closed", "sending"), 1),
        (("idle", "of a later version"), 1),
    ],
)
def test_the_state_that_needs_somebody_most_is_told_with_its_instance(states: tuple[str, str], worst: int) -> None:
    parts = [(name, shown(state=state, message=f"It is {state}.")) for name, state in zip("ab", states, strict=True)]
    found = sums.sum_deliveries(parts)
    assert (found["state"], found["message"]) == (states[worst], f"{'ab'[worst]}: It is {states[worst]}.")


def test_limits_and_failures_of_those_that_have_them() -> None:
    failures = [{"at": at, "status": 503, "cause": at} for at in (LATE, EARLY)]
    found = sums.sum_deliveries(
        [
            ("one", shown(queue_maxBytes=None, lastFailure=failures[0])),
            ("two", shown(queue_maxBytes=10, lastFailure=failures[1])),
            ("three", shown(queue_maxBytes=20, lastFailure=None)),
        ]
    )
    assert (found["queue"]["maxBytes"], found["lastFailure"]) == (30, failures[0])


def test_samples_are_summed_from_the_last_one_on() -> None:
    def sample(at: str, taken: int, age: int | None) -> dict[str, Any]:
        return {"at": at, "taken": taken, "delivered": 0, "retried": 0, "dead": 0, "queued": 1, "oldestSeconds": age}

    found = sums.sum_histories([[sample("1", 1, None), sample("3", 2, None)], [sample("4", 5, 7)], []])
    assert found == [sample("1", 1, None), {**sample("4", 7, 7), "queued": 2}]
