"""The delay until a repository is polled again."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.model.errors import ReconcilerError, Refused, Transient
from reconciler.reconcile import loop
from reconciler.reconcile.loop import MOST, WINDOW, PollPace

FAR = 1e9  # seconds: everything was read just now
MAY_PASS = Transient("The disk is full.")
FOR_A_PERSON = Refused("The settings are wrong.")
ROUNDING = 1e-6  # seconds


def well(interval: float, *, full_due: float = FAR, phase: float = 0.0) -> PollPace:
    return PollPace(interval=interval, full_due=full_due, phase=phase)


def ill(interval: float, failures: int, *, may_pass: bool = True, full_due: float = FAR) -> PollPace:
    return PollPace(interval=interval, full_due=full_due, failures=failures, may_pass=may_pass)


TABLE = [
    # pace, now, randomness, expected
    (well(60.0), 0.0, 0.0, 60.0),
    (well(60.0), 0.5, 0.9, 59.5),  # a poll takes a while, and the next one keeps the phase
    (well(60.0, phase=20.0), 0.0, 0.0, 20.0),
    (well(60.0, phase=20.0), 80.0, 0.0, 60.0),
    (well(60.0, full_due=1_030.0, phase=1_000.0), 1_000.0, 0.5, 30.0),
    (well(60.0, full_due=1_000.0), 1_000.0, 0.5, 0.0),
    (well(60.0, full_due=900.0), 1_000.0, 0.5, 0.0),
    (well(0.25), 0.0, 0.5, 0.25),
    (ill(60.0, 1), 0.0, 0.0, 2.0),
    (ill(60.0, 1), 0.0, 0.5, 2.1),
    (ill(60.0, 2), 0.0, 0.0, 4.0),
    (ill(60.0, 4), 0.0, 0.0, 16.0),
    (ill(60.0, 9), 0.0, 0.0, 512.0),
    (ill(60.0, 9), 0.0, 0.5, 537.6),
    (ill(60.0, 10), 0.0, 0.0, 600.0 / 1.1),
    (ill(60.0, 1_000_000), 0.0, 0.9, 600.0 * 1.09 / 1.1),
    (ill(0.25, 3), 0.0, 0.0, 8.0),  # an interval shorter than the backoff does not shorten it
    (ill(3_600.0, 1), 0.0, 0.0, 2.0),  # nor does a longer one lengthen it
    (ill(60.0, 4, full_due=0.0), 1_000.0, 0.0, 16.0),  # nor does a full read that is overdue
    (ill(60.0, 1, may_pass=False), 0.0, 0.0, 60.0),
    (ill(60.0, 1, may_pass=False), 0.0, 0.5, 63.0),
    (ill(60.0, 3, may_pass=False), 0.0, 0.0, 240.0),
    (ill(60.0, 9, may_pass=False), 0.0, 0.9, 600.0 * 1.09 / 1.1),
    (ill(0.25, 2, may_pass=False), 0.0, 0.0, 4.0),
    (ill(3_600.0, 1, may_pass=False), 0.0, 0.5, 3_630.0),
    (ill(3_600.0, 9, may_pass=False), 0.0, 0.5, 3_630.0),
]


@pytest.mark.parametrize(("pace", "now", "randomness", "expected"), TABLE)
def test_the_delay(pace: PollPace, now: float, randomness: float, expected: float) -> None:
    assert loop.poll_delay(pace, now=now, randomness=randomness) == pytest.approx(expected)


def test_a_remote_is_left_alone_for_as_long_as_it_asks() -> None:
    asked = unreachable(retry_after=90.0)
    pace = loop.after_poll(well(60.0), asked, now=1_000.0)
    assert loop.event_delay(pace, now=1_010.0) == 80.0
    assert loop.poll_delay(pace, now=1_010.0, randomness=0.0) == 80.0
    assert loop.poll_delay(pace, now=1_010.0, randomness=0.5) == pytest.approx(84.0)  # not all on one second
    assert loop.event_delay(pace, now=1_090.0) == 0.0


def test_a_request_meanwhile_does_not_delay_the_next_poll() -> None:
    pace = loop.after_poll(well(60.0), MAY_PASS, now=0.0, asked=True)
    assert loop.poll_delay(pace, now=0.0, randomness=0.0) == 2.0
    for now in (100.0, 200.0, 300.0):
        pace = loop.after_poll(pace, MAY_PASS, now=now, asked=True)
    assert loop.poll_delay(pace, now=300.0, randomness=0.0) == 2.0
    assert loop.poll_delay(loop.after_poll(pace, MAY_PASS, now=400.0), now=400.0, randomness=0.0) == 4.0


def test_events_wait_only_when_the_window_is_full() -> None:
    pace = well(60.0)
    found = []
    for now in (0.0, 2.0, 6.0, 60.0):
        pace = loop.after_poll(pace, MAY_PASS, now=now)
        found.append((loop.event_delay(pace, now=now), loop.poll_delay(pace, now=now, randomness=0.0)))
    assert found == [(0.0, 2.0), (0.0, 4.0), (54.0, 54.0), (2.0, 16.0)]
    assert loop.after_poll(pace, None, now=62.0) == well(60.0)


def unreachable(*, of_head: bool = False, lasting: bool = False, retry_after: float | None = None) -> GitFault:
    told = "The server is down; start it."
    return GitFault(RepositoryState.UNREACHABLE, told, retry_after=retry_after, lasting=lasting, of_head=of_head)


FAILURES_OF = [
    # fault, whether it may pass, how many polls it counts as
    (MAY_PASS, True, 1),
    (FOR_A_PERSON, False, 1),
    (unreachable(), True, 1),
    (unreachable(lasting=True), False, 1),
    (unreachable(of_head=True), False, MOST),
]


@pytest.mark.parametrize(("fault", "may_pass", "polls"), FAILURES_OF)
def test_the_failure(fault: ReconcilerError, may_pass: bool, polls: int) -> None:
    pace = loop.after_poll(well(60.0), fault, now=1.0)
    assert (pace.may_pass, pace.ended) == (may_pass, (1.0,) * polls)


def test_after_a_head_that_no_fetch_can_get_events_wait_and_a_correction_does_not() -> None:
    pace = loop.after_poll(well(60.0), unreachable(of_head=True), now=1.0)
    assert loop.event_delay(pace, now=1.0) == WINDOW
    assert loop.event_delay(pace, now=1.0, is_correction=True) == 0.0


def test_repositories_that_start_together_are_polled_evenly() -> None:
    """A thousand of them: each tenth of the interval has its share of them, also after an outage."""
    interval, many = 60.0, 1_000
    paces = [well(interval, phase=interval * number / many) for number in range(many)]
    failed = [loop.after_poll(loop.after_poll(pace, MAY_PASS, now=1.0), None, now=7.0) for pace in paces]
    for each in (paces, failed):
        polls = [loop.poll_delay(pace, now=7.0, randomness=0.0) for pace in each]
        tenths = [sum(tenth <= 10 * poll / interval < tenth + 1 for poll in polls) for tenth in range(10)]
        assert (max(polls) <= interval, max(tenths) <= 101) == (True, True)


@dataclass(frozen=True, slots=True)
class Poll:
    """One failing poll, and what happens after it: an event so many seconds after its end, if any."""

    fault: ReconcilerError
    seconds: float
    event: float | None
    randomness: float


SECONDS = st.floats(0, 1_000) | st.just(0.0)
RANDOMNESS = st.floats(0, 1, exclude_max=True)
FAULTS = (
    st.just(MAY_PASS)
    | st.just(FOR_A_PERSON)
    | st.builds(unreachable, of_head=st.booleans(), lasting=st.booleans(), retry_after=st.none() | st.floats(0, 3_600))
)
RUNS = st.lists(st.builds(Poll, FAULTS, SECONDS, st.none() | SECONDS, RANDOMNESS), min_size=1, max_size=40)
INTERVALS = st.floats(0.25, 86_400)


@given(INTERVALS, RUNS)
def test_a_run_of_failures_never_asks_too_often(interval: float, polls: list[Poll]) -> None:
    """Whatever fails, and whatever happens meanwhile: three polls fall into any minute."""
    pace, now, spans = well(interval), 1_000.0, []
    for poll in polls:
        ended = now + poll.seconds
        spans.append((now, ended))
        pace = loop.after_poll(pace, poll.fault, now=ended)
        now = ended + loop.poll_delay(pace, now=ended, randomness=poll.randomness)
        if poll.event is not None:  # it acts when its delay is over
            happened = ended + poll.event
            now = min(now, happened + loop.event_delay(pace, now=happened))
        asked = poll.fault.retry_after if isinstance(poll.fault, GitFault) else None
        assert now >= ended + (asked or 0.0) - ROUNDING
    for number, (begun, _) in enumerate(spans):
        assert number < MOST or begun - spans[number - MOST][1] >= WINDOW - ROUNDING


@given(INTERVALS, st.integers(1, 10_000), st.booleans(), RANDOMNESS)
def test_the_delay_of_failures_stays_within_its_bounds(
    interval: float, failures: int, may_pass: bool, randomness: float
) -> None:
    pace = ill(interval, failures, may_pass=may_pass)
    delay = loop.poll_delay(pace, now=0.0, randomness=randomness)
    if may_pass:
        assert loop.FIRST_RETRY <= delay <= loop.LONGEST_RETRY + ROUNDING
    else:
        assert interval <= delay <= max(loop.LONGEST_RETRY, interval + 0.1 * min(interval, 600.0)) + ROUNDING
    assert delay <= loop.poll_delay(ill(interval, failures + 1, may_pass=may_pass), now=0.0, randomness=randomness)


@given(INTERVALS, st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0, 1e9))
def test_the_delay_of_polls_stays_within_its_bounds(interval: float, phase: float, full_due: float, now: float) -> None:
    delay = loop.poll_delay(well(interval, full_due=full_due, phase=phase), now=now, randomness=0.0)
    assert 0.0 <= delay <= min(interval, max(0.0, full_due - now))
