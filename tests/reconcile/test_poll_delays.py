"""The delay until a repository is polled again."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.model.errors import ReconcilerError, Refused, Transient
from reconciler.reconcile import loop
from reconciler.reconcile.loop import MOST, MOST_LASTING, MOST_OF_HEAD, WINDOW, PollFailure, PollPace

FAR = 1e9  # seconds: everything was read just now
MAY_PASS = PollFailure(may_pass=True)
FOR_A_PERSON = PollFailure(may_pass=False)
ROUNDING = 1e-6  # seconds


def well(interval: float, *, full_due: float = FAR, is_spread: bool = True) -> PollPace:
    return PollPace(interval=interval, full_due=full_due, is_spread=is_spread)


def ill(interval: float, failures: int, last: PollFailure = MAY_PASS, *, full_due: float = FAR) -> PollPace:
    return PollPace(interval=interval, full_due=full_due, failures=failures, last=last)


TABLE = [
    # pace, now, randomness, expected
    (well(60.0), 0.0, 0.0, 54.0),
    (well(60.0), 0.0, 0.5, 60.0),
    (well(60.0), 0.0, 0.75, 63.0),
    (well(60.0, full_due=1_030.0), 1_000.0, 0.5, 30.0),
    (well(60.0, full_due=1_000.0), 1_000.0, 0.5, 0.0),
    (well(60.0, full_due=900.0), 1_000.0, 0.5, 0.0),
    (well(0.25), 0.0, 0.5, 0.25),
    (well(60.0, is_spread=False), 0.0, 0.0, 0.0),  # the first poll comes anywhere within the interval
    (well(60.0, is_spread=False), 0.0, 0.3, 18.0),
    (well(60.0, is_spread=False), 0.0, 0.99, 59.4),
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
    (ill(60.0, 1, FOR_A_PERSON), 0.0, 0.0, 60.0),
    (ill(60.0, 1, FOR_A_PERSON), 0.0, 0.5, 63.0),
    (ill(60.0, 3, FOR_A_PERSON), 0.0, 0.0, 240.0),
    (ill(60.0, 9, FOR_A_PERSON), 0.0, 0.9, 600.0 * 1.09 / 1.1),
    (ill(0.25, 2, FOR_A_PERSON), 0.0, 0.0, 4.0),
    (ill(3_600.0, 1, FOR_A_PERSON), 0.0, 0.5, 3_630.0),
    (ill(3_600.0, 9, FOR_A_PERSON), 0.0, 0.5, 3_630.0),
]


@pytest.mark.parametrize(("pace", "now", "randomness", "expected"), TABLE)
def test_the_delay(pace: PollPace, now: float, randomness: float, expected: float) -> None:
    assert loop.poll_delay(pace, now=now, randomness=randomness) == pytest.approx(expected)


def test_a_remote_is_left_alone_for_as_long_as_it_asks() -> None:
    asked = PollFailure(may_pass=True, retry_after=90.0)
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
    for now in (0.0, 2.0, 6.0, 14.0, 60.0):
        pace = loop.after_poll(pace, MAY_PASS, now=now)
        found.append((loop.event_delay(pace, now=now), loop.poll_delay(pace, now=now, randomness=0.0)))
    assert found == [(0.0, 2.0), (0.0, 4.0), (0.0, 8.0), (46.0, 46.0), (2.0, 32.0)]
    assert loop.after_poll(pace, None, now=62.0) == well(60.0, is_spread=False)


def unreachable(**more: bool) -> GitFault:
    return GitFault(RepositoryState.UNREACHABLE, "The server is down; start it.", retry_after=7.0, **more)


FAILURES_OF = [
    # fault, whether the remote is on this machine, expected
    (None, False, None),
    (Transient("The disk is full."), False, PollFailure(may_pass=True)),
    (Refused("The settings are wrong."), False, PollFailure(may_pass=False)),
    (unreachable(), False, PollFailure(may_pass=True, retry_after=7.0)),
    (unreachable(lasting=True), False, PollFailure(may_pass=False, retry_after=7.0, most=MOST_LASTING)),
    (unreachable(of_head=True), False, PollFailure(may_pass=False, retry_after=7.0, most=MOST_OF_HEAD)),
    (unreachable(of_head=True), True, PollFailure(may_pass=False, retry_after=7.0)),  # nothing crosses a network
]


@pytest.mark.parametrize(("fault", "is_local", "expected"), FAILURES_OF)
def test_the_failure(fault: ReconcilerError | None, is_local: bool, expected: PollFailure | None) -> None:
    assert loop.poll_failure(fault, is_local=is_local) == expected


@pytest.mark.parametrize("most", [MOST, MOST_LASTING, MOST_OF_HEAD])
def test_fewer_polls_fall_into_a_window_the_more_each_asks_of_a_remote(most: int) -> None:
    pace = well(1.0)
    delays = []
    for now in range(most):
        delays.append(loop.event_delay(pace, now=now))
        pace = loop.after_poll(pace, PollFailure(may_pass=True, most=most), now=now)
    assert (delays, loop.event_delay(pace, now=most)) == ([0.0] * most, WINDOW - most)


@pytest.mark.parametrize("first", [(None,), (None, None), (MAY_PASS, None)], ids=["start", "event", "outage"])
def test_repositories_that_were_polled_together_are_soon_polled_evenly(
    first: tuple[PollFailure | None, ...],
) -> None:
    """A thousand of them, at the start, with a first event each, or after an outage: of each tenth of the interval, no
    more than twice its share are polled in it. From then on each keeps its phase.
    """
    interval, many = 60.0, 1_000
    pace = PollPace(interval=interval, full_due=FAR)
    for failure in first:
        pace = loop.after_poll(pace, failure, now=0.0)
    polls = [loop.poll_delay(pace, now=0.0, randomness=number / many) for number in range(many)]
    tenths = [sum(tenth <= 10 * poll / interval < tenth + 1 for poll in polls) for tenth in range(10)]
    assert (min(polls), max(polls) < interval, max(tenths) <= 2 * many / 10) == (0.0, True, True)
    after = loop.after_poll(loop.at_poll(pace), None, now=30.0)
    assert loop.poll_delay(after, now=30.0, randomness=0.0) == 0.9 * interval


@dataclass(frozen=True, slots=True)
class Poll:
    """One failing poll, and what happens after it: an event so many seconds after its end, if any."""

    failure: PollFailure
    seconds: float
    event: float | None
    randomness: float


SECONDS = st.floats(0, 1_000) | st.just(0.0)
RANDOMNESS = st.floats(0, 1, exclude_max=True)
BOUNDS = st.sampled_from([MOST_OF_HEAD, MOST_LASTING, MOST])
FAILURES = st.builds(PollFailure, may_pass=st.booleans(), retry_after=st.none() | st.floats(0, 3_600), most=BOUNDS)
RUNS = st.lists(st.builds(Poll, FAILURES, SECONDS, st.none() | SECONDS, RANDOMNESS), min_size=1, max_size=40)
INTERVALS = st.floats(0.25, 86_400)


@given(INTERVALS, RUNS)
def test_a_run_of_failures_never_asks_too_often(interval: float, polls: list[Poll]) -> None:
    """Whatever fails, and whatever happens meanwhile: four polls, of two calls each, fall into any minute, or as many
    as the last of them says.
    """
    pace, now, spans = well(interval), 1_000.0, []
    for poll in polls:
        ended = now + poll.seconds
        spans.append((now, ended))
        pace = loop.after_poll(pace, poll.failure, now=ended)
        now = ended + loop.poll_delay(pace, now=ended, randomness=poll.randomness)
        if poll.event is not None:  # it acts when its delay is over
            happened = ended + poll.event
            now = min(now, happened + loop.event_delay(pace, now=happened))
        assert now >= ended + (poll.failure.retry_after or 0.0) - ROUNDING
    for number, (begun, _) in enumerate(spans):
        most = polls[number - 1].failure.most
        assert number < most or begun - spans[number - most][1] >= WINDOW - ROUNDING


@given(INTERVALS, st.integers(1, 10_000), st.booleans(), RANDOMNESS)
def test_the_delay_of_failures_stays_within_its_bounds(
    interval: float, failures: int, may_pass: bool, randomness: float
) -> None:
    pace = ill(interval, failures, PollFailure(may_pass=may_pass))
    delay = loop.poll_delay(pace, now=0.0, randomness=randomness)
    if may_pass:
        assert loop.FIRST_RETRY <= delay <= loop.LONGEST_RETRY + ROUNDING
    else:
        assert interval <= delay <= max(loop.LONGEST_RETRY, interval + 0.1 * min(interval, 600.0)) + ROUNDING
    assert delay <= loop.poll_delay(ill(interval, failures + 1, pace.last or MAY_PASS), now=0.0, randomness=randomness)


@given(INTERVALS, st.booleans(), st.floats(0, 1e9), st.floats(0, 1e9), RANDOMNESS)
def test_the_delay_of_polls_stays_within_its_bounds(
    interval: float, is_spread: bool, full_due: float, now: float, randomness: float
) -> None:
    delay = loop.poll_delay(well(interval, full_due=full_due, is_spread=is_spread), now=now, randomness=randomness)
    least = 0.9 * interval if is_spread else 0.0
    assert min(least, max(0.0, full_due - now)) <= delay <= 1.1 * interval
