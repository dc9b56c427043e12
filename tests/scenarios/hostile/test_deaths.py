"""The memory of files, commits and proposals that ended workers."""

from reconciler.worker import client
from reconciler.worker.client import CrashMemory
from reconciler.worker.messages import ReviewJob
from tests.commit_jobs import commit_job

JOB = commit_job()


def test_a_file_is_set_aside_when_two_children_ended_over_it() -> None:
    memory = CrashMemory()
    memory.ended_at("b")
    assert memory.aside == frozenset()
    memory.ended_at("b")
    memory.ended_at("c")
    assert memory.aside == {"b"}


def test_a_commit_is_suspect_until_it_is_planned() -> None:
    memory = CrashMemory()
    memory.suspect(JOB)
    assert memory.is_suspect(JOB)
    memory.trust(JOB)
    assert not memory.is_suspect(JOB)


def test_a_proposal_is_suspect_whatever_it_is_merged_into() -> None:
    memory = CrashMemory()
    proposed, moved = (ReviewJob(commit=commit_job(commit=base), head="h") for base in ("c", "d"))
    memory.suspect(proposed)
    assert [memory.is_suspect(one) for one in (proposed, moved, JOB)] == [True, True, False]
    memory.trust(moved)
    assert not memory.is_suspect(proposed)


def test_the_oldest_is_forgotten() -> None:
    memory = CrashMemory()
    oldest, latest, *others = (commit_job(commit=str(number)) for number in range(client.MOST_REMEMBERED + 1))
    for job in (oldest, latest, oldest, *others):
        memory.suspect(job)
    assert [memory.is_suspect(one) for one in (oldest, latest, others[-1])] == [True, False, True]
