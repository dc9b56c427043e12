"""The memory of children that ended, and how long the next one waits."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.worker import client
from reconciler.worker.client import LONGEST_PAUSE, REFUSED_SECONDS, CrashMemory, RestartPace
from reconciler.worker.messages import ReviewJob
from tests.commit_jobs import commit_job

ROUNDING = 1e-9  # seconds
JOB = commit_job()


def test_a_file_is_set_aside_when_two_children_ended_over_it() -> None:
    memory = CrashMemory()
    memory.ended_at("b")
    assert memory.prepared(JOB, careful=True).aside == frozenset()
    memory.ended_at("b")
    memory.ended_at("c")
    prepared = memory.prepared(JOB, careful=True)
    assert (prepared.aside, prepared.careful) == (frozenset({"b"}), True)


def test_a_commit_is_suspect_until_it_is_planned() -> None:
    memory = CrashMemory()
    memory.suspect(JOB)
    assert memory.is_suspect(JOB)
    memory.trust(JOB)
    assert not memory.is_suspect(JOB)


def test_a_commit_that_took_too_much_is_not_tried_for_an_hour() -> None:
    memory = CrashMemory()
    assert memory.refusal(JOB, now=0.0) is None
    memory.refuse(JOB, "too much", now=0.0)
    assert memory.refusal(JOB, now=REFUSED_SECONDS - 1) == "too much"
    assert memory.refusal(JOB, now=REFUSED_SECONDS) is None


def test_a_commit_that_is_read_by_other_settings_is_another_question() -> None:
    memory = CrashMemory()
    memory.refuse(JOB, "too much", now=0.0)
    for changed in ({"include": ("a",)}, {"exclude": ("a",)}, {"allowed_kinds": ("Fleet",)}, {"prune": False}):
        assert memory.refusal(commit_job(**changed), now=1.0) is None
    for same in ({"run": "another"}, {"full": False}, {"aside": frozenset({"b"})}):
        assert memory.refusal(commit_job(**same), now=1.0) == "too much"


def test_a_proposal_is_suspect_whatever_it_is_merged_into_and_with_what_it_is_merged_into() -> None:
    memory = CrashMemory()
    proposed, moved = (ReviewJob(commit=commit_job(commit=base), head="h") for base in ("c", "d"))
    memory.suspect(proposed)
    assert [memory.is_for_one_apart(one) for one in (proposed, moved, JOB)] == [True, True, False]
    memory.trust(moved)
    assert not memory.is_for_one_apart(proposed)
    memory.suspect(JOB)
    assert [memory.is_for_one_apart(one) for one in (proposed, moved)] == [True, False]
    assert [memory.is_suspect(one) for one in (proposed, JOB)] == [False, True]


def test_a_proposal_is_refused_for_what_it_is_merged_into() -> None:
    memory = CrashMemory()
    proposed, moved = (ReviewJob(commit=commit_job(commit=base), head="h") for base in ("c", "d"))
    memory.refuse(proposed, "too much", now=0.0)
    assert [memory.refusal(one, now=1.0) for one in (proposed, moved, JOB)] == ["too much", None, None]
    prepared = memory.prepared(proposed, careful=True)
    assert (prepared.commit.careful, memory.refusal(prepared, now=1.0)) == (True, "too much")


def test_a_proposal_of_which_all_is_read_is_another_question() -> None:
    memory = CrashMemory()
    chosen = ReviewJob(commit=commit_job(full=False), head="h")
    memory.refuse(chosen, "too much", now=0.0)
    for changed in ({"followed": True}, {"commit": commit_job(full=True)}):
        assert memory.refusal(replace(chosen, **changed), now=1.0) is None
    assert memory.refusal(chosen, now=1.0) == "too much"


def test_the_oldest_is_forgotten() -> None:
    memory = CrashMemory()
    oldest, latest, *others = (commit_job(commit=str(number)) for number in range(client.MOST_REMEMBERED + 1))
    for job in (oldest, latest, oldest, *others):
        memory.suspect(job)
    assert [memory.is_suspect(one) for one in (oldest, latest, others[-1])] == [True, False, True]


@given(st.lists(st.integers(0, 10), max_size=30))
def test_the_pause_grows_with_the_ends_of_a_minute_and_has_a_limit(waits: list[int]) -> None:
    pace, now, before = RestartPace(), 0.0, 0.0
    for wait in waits:
        now += wait
        pace.ended(now=now)
        pause = pace.pause(now=now)
        assert 0 <= pause <= LONGEST_PAUSE + ROUNDING
        assert pace.pause(now=now + LONGEST_PAUSE + ROUNDING) == 0
        before = pause
    assert pace.ends == len(waits)
    assert before == 0 or len(waits) >= client.TWICE
    assert pace.pause(now=now + client.WINDOW_SECONDS) == 0


def test_the_pauses_of_a_child_that_never_lives() -> None:
    pace = RestartPace()
    told = []
    for _ in range(7):
        pace.ended(now=0.0)
        told.append(pace.pause(now=0.0))
    assert told == [0, 0.25, 0.5, 1, 2, 4, 5]
