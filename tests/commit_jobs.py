"""A commit as the worker is asked to plan it."""

from typing import Any, TypeVar

from msgspec import structs

from reconciler.model.repository_rules import RepositoryRules
from reconciler.worker.messages import CommitJob, Context, Planned, Steps

P = TypeVar("P", bound=Planned)

_JOB = CommitJob(
    context=Context("store", "default", b"", frozenset(), "", 0, b""),
    rules=RepositoryRules(name="one"),
    mirror="mirror",
    commit="c",
    branch="main",
    run="a run",
    full=True,
    origin="",
    neighbours=(),
)


def commit_job(**members: Any) -> CommitJob:
    """One that may do everything and reads all files, but for what is given of it or of its rules."""
    rules = {name: members.pop(name) for name in RepositoryRules.__struct_fields__ if name in members}
    return structs.replace(_JOB, rules=structs.replace(_JOB.rules, **rules), **members)


def finished(steps: Steps[P]) -> P:
    """Have a job planned to its end where it needs no lock."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            planned: P = end.value
            return planned
