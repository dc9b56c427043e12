"""When a repository is looked at again."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.reconcile import watched
from reconciler.reconcile.watched import LASTING_LOOKS, LOOKS, UNFIT_LOOKS, WINDOW, PollFailure, PollPace

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
    assert watched.poll_delay(pace, now=now, randomness=randomness) == pytest.approx(expected)


def test_a_remote_is_left_alone_for_as_long_as_it_asks() -> None:
    asked = PollFailure(may_pass=True, retry_after=90.0)
    pace = watched.after_poll(well(60.0), asked, now=1_000.0)
    assert watched.held_delay(pace, now=1_010.0) == 80.0
    assert watched.poll_delay(pace, now=1_010.0, randomness=0.0) == 80.0
    assert watched.poll_delay(pace, now=1_010.0, randomness=0.5) == pytest.approx(84.0)  # not all on one second
    assert watched.held_delay(pace, now=1_090.0) == 0.0


def test_what_a_person_tries_meanwhile_makes_no_look_come_later() -> None:
    pace = watched.after_poll(well(60.0), MAY_PASS, now=0.0, asked=True)
    assert watched.poll_delay(pace, now=0.0, randomness=0.0) == 2.0
    for now in (100.0, 200.0, 300.0):
        pace = watched.after_poll(pace, MAY_PASS, now=now, asked=True)
    assert watched.poll_delay(pace, now=300.0, randomness=0.0) == 2.0
    assert watched.poll_delay(watched.after_poll(pace, MAY_PASS, now=400.0), now=400.0, randomness=0.0) == 4.0


def test_events_wait_only_when_the_window_is_full() -> None:
    pace = well(60.0)
    found = []
    for now in (0.0, 2.0, 6.0, 14.0, 60.0):
        pace = watched.after_poll(pace, MAY_PASS, now=now)
        found.append((watched.held_delay(pace, now=now), watched.poll_delay(pace, now=now, randomness=0.0)))
    assert found == [(0.0, 2.0), (0.0, 4.0), (0.0, 8.0), (46.0, 46.0), (2.0, 32.0)]
    assert watched.after_poll(pace, None, now=62.0) == well(60.0, is_spread=False)


@pytest.mark.parametrize(
    ("may_pass", "of_head", "is_local", "most"),
    [
        (True, False, False, LOOKS),
        (False, False, False, LASTING_LOOKS),
        (False, True, False, UNFIT_LOOKS),
        (False, False, True, LOOKS),  # nobody is asked over a network
        (False, True, True, LOOKS),
    ],
)
def test_fewer_looks_fall_into_a_window_the_more_each_asks_of_a_remote(
    may_pass: bool, of_head: bool, is_local: bool, most: int
) -> None:
    assert watched.most_polls(may_pass=may_pass, of_head=of_head, is_local=is_local) == most
    pace = well(1.0)
    held = []
    for now in range(most):
        held.append(watched.held_delay(pace, now=now))
        pace = watched.after_poll(pace, PollFailure(may_pass=may_pass, most=most), now=now)
    assert (held, watched.held_delay(pace, now=most)) == ([0.0] * most, WINDOW - most)


@pytest.mark.parametrize("first", [(None,), (None, None), (MAY_PASS, None)], ids=["start", "event", "outage"])
def test_repositories_that_were_looked_at_together_are_soon_polled_evenly(
    first: tuple[PollFailure | None, ...],
) -> None:
    """A thousand of them, at the start, with a first event each, or after an outage: of each tenth of the interval, no
    more than twice its share are polled in it. From then on each keeps its phase.
    """
    interval, many = 60.0, 1_000
    pace = PollPace(interval=interval, full_due=FAR)
    for failure in first:
        pace = watched.after_poll(pace, failure, now=0.0)
    polls = [watched.poll_delay(pace, now=0.0, randomness=number / many) for number in range(many)]
    tenths = [sum(tenth <= 10 * poll / interval < tenth + 1 for poll in polls) for tenth in range(10)]
    assert (min(polls), max(polls) < interval, max(tenths) <= 2 * many / 10) == (0.0, True, True)
    after = watched.after_poll(watched.at_poll(pace), None, now=30.0)
    assert watched.poll_delay(after, now=30.0, randomness=0.0) == 0.9 * interval


@dataclass(frozen=True, slots=True)
class Look:
    """One failing look, and what happens after it: an event so many seconds after its end, if any."""

    failure: PollFailure
    seconds: float
    event: float | None
    randomness: float


SECONDS = st.floats(0, 1_000) | st.just(0.0)
RANDOMNESS = st.floats(0, 1, exclude_max=True)
MOST = st.sampled_from([UNFIT_LOOKS, LASTING_LOOKS, LOOKS])
FAILURES = st.builds(PollFailure, may_pass=st.booleans(), retry_after=st.none() | st.floats(0, 3_600), most=MOST)
RUNS = st.lists(st.builds(Look, FAILURES, SECONDS, st.none() | SECONDS, RANDOMNESS), min_size=1, max_size=40)
INTERVALS = st.floats(0.25, 86_400)


@given(INTERVALS, RUNS)
def test_a_run_of_failures_never_asks_too_often(interval: float, looks: list[Look]) -> None:
    """Whatever fails, and whatever happens meanwhile: four looks, of two calls each, fall into any minute, or as many
    as the last of them says.
    """
    pace, now, spans = well(interval), 1_000.0, []
    for look in looks:
        ended = now + look.seconds
        spans.append((now, ended))
        pace = watched.after_poll(pace, look.failure, now=ended)
        now = ended + watched.poll_delay(pace, now=ended, randomness=look.randomness)
        if look.event is not None:  # it is acted upon once it is held no more
            happened = ended + look.event
            now = min(now, happened + watched.held_delay(pace, now=happened))
        assert now >= ended + (look.failure.retry_after or 0.0) - ROUNDING
    for number, (begun, _) in enumerate(spans):
        most = looks[number - 1].failure.most
        assert number < most or begun - spans[number - most][1] >= WINDOW - ROUNDING


@given(INTERVALS, st.integers(1, 10_000), st.booleans(), RANDOMNESS)
def test_the_delay_of_failures_stays_within_its_bounds(
    interval: float, failures: int, may_pass: bool, randomness: float
) -> None:
    pace = ill(interval, failures, PollFailure(may_pass=may_pass))
    delay = watched.poll_delay(pace, now=0.0, randomness=randomness)
    if may_pass:
        assert watched.FIRST_RETRY <= delay <= watched.LONGEST_RETRY + ROUNDING
    else:
        assert interval <= delay <= max(watched.LONGEST_RETRY, interval + 0.1 * min(interval, 600.0)) + ROUNDING
    assert delay <= watched.poll_delay(
        ill(interval, failures + 1, pace.last or MAY_PASS), now=0.0, randomness=randomness
    )


@given(INTERVALS, st.booleans(), st.floats(0, 1e9), st.floats(0, 1e9), RANDOMNESS)
def test_the_delay_of_polls_stays_within_its_bounds(
    interval: float, is_spread: bool, full_due: float, now: float, randomness: float
) -> None:
    delay = watched.poll_delay(well(interval, full_due=full_due, is_spread=is_spread), now=now, randomness=randomness)
    least = 0.9 * interval if is_spread else 0.0
    assert min(least, max(0.0, full_due - now)) <= delay <= 1.1 * interval
