"""The sentences of flows, and what becomes of records that wait for a destination that moves."""

import pytest

from reconciler.model import flows
from reconciler.model.flows import Flow, FlowChange

MOVED = Flow(change=FlowChange.MOVED, destination="siem")
STOPPED = Flow(change=FlowChange.STOPPED, configuration="orders", destination="siem", reason="It is gone.")


@pytest.mark.parametrize(
    ("queued", "sentence"),
    [
        (0, "siem: endpoint changes"),
        (1, "siem: endpoint changes; 1 queued record follows"),
        (12_400, "siem: endpoint changes; 12,400 queued records follow"),
    ],
)
def test_queued_records_follow_a_destination_that_moves(queued: int, sentence: str) -> None:
    waiting = {"siem": queued}
    moved, stopped = flows.with_queued([MOVED, STOPPED], lambda name: waiting[name])
    assert (moved.sentence(), stopped) == (sentence, STOPPED)


def test_a_flow_is_shown_with_its_sentence() -> None:
    assert flows.shown(STOPPED) == {
        "change": "stopped",
        "configuration": "orders",
        "destination": "siem",
        "reason": "It is gone.",
        "text": "orders stops delivering to siem: It is gone",
    }


def test_they_are_counted_the_gravest_first() -> None:
    assert list(flows.count([MOVED, MOVED, STOPPED]).items()) == [("stopped", 1), ("moved", 2)]
