"""A commit as the worker is asked to plan it."""

from typing import Any

import msgspec

from reconciler.worker.messages import CommitJob, Context

_JOB = CommitJob(
    context=Context("store", "default", b"", frozenset(), "", 0, b""),
    repository="one",
    mirror="mirror",
    commit="c",
    branch="main",
    path="",
    run="a run",
    full=True,
    prune=True,
    atomic=False,
    prune_min_count=3,
    prune_max_percent=25,
    allowed_kinds=("*",),
    allowed_names=("*",),
    accept_invalid=False,
    include=(),
    exclude=(),
    origin="",
    neighbours=(),
)


def commit_job(**members: Any) -> CommitJob:
    """One that may do everything and reads all files, but for what is given."""
    return msgspec.structs.replace(_JOB, **members)
