"""A store for one plan: in a temporary folder, filled from the base, thrown away afterwards.

Belongs here: making it and storing what the base says. Does not: what is planned against it.
"""

import os
import tempfile
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType

from reconciler.git.faults import RepositoryState
from reconciler.git.snapshots import Snapshot
from reconciler.model.clock import rfc3339
from reconciler.planner.candidates import CandidateRules
from reconciler.store import database, writing
from reconciler.store.conflict_detection import RecentCommits
from reconciler.store.contract import Changes, Record, RepositoryRow
from reconciler.store.planning_view import PlanningView
from reconciler.worker import commits
from reconciler.worker.limits import Allowance, PlanMode
from reconciler.worker.messages import CommitJob, Context

SEED_BYTES = 16


class ScratchStore(AbstractContextManager["ScratchStore"]):
    """The store; use it in a `with` statement. Only its owner may read it, since bases hold secrets too."""

    def __init__(self, *, api_versions: frozenset[str], now: datetime, refuse_unknown: bool = False) -> None:
        self._now = now
        self._refuse_unknown = refuse_unknown
        self._stack = ExitStack()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="reconciler-plan-"))
        self._path = Path(folder) / "store.db"
        try:
            self._writer = self._stack.enter_context(closing(database.open_writer(self._path)))
            # It is lost with the process anyway.
            self._writer.execute("pragma synchronous = off")
            database.migrate(self._writer, steps=database.migrations())
            self.view = self._stack.enter_context(closing(PlanningView.open(self._path)))
        except BaseException:
            self._stack.close()
            raise
        (key,) = self._writer.execute(database.load_queries()["hmac_key"]).fetchone()
        self.rules = CandidateRules(api_versions=api_versions, hmac_key=bytes(key))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def context(self, project: str) -> Context:
        """What a plan in this store is told; the project is made."""
        at = rfc3339(self._now)
        self._writer.execute(database.load_queries()["create_project"], (project, at))
        return Context(
            store=str(self._path),
            project=project,
            hmac_key=self.rules.hmac_key,
            api_versions=self.rules.api_versions,
            refuse_unknown=self._refuse_unknown,
            at=at,
            milliseconds=int(self._now.timestamp() * 1000),
            seed=os.urandom(SEED_BYTES),
        )

    def apply(self, job: CommitJob, snapshot: Snapshot, *, terms: PlanMode) -> None:
        """Store what a commit holds, as if a service had stored it long ago. Raises GitFault, StoreFault."""
        parts: list[Changes] = []
        planned = commits.plan_snapshot(
            job,
            snapshot,
            self.view,
            number=0,
            emit=parts.append,
            allowance=Allowance(),
            terms=replace(terms, lenient=True),
        )
        row = RepositoryRow(
            name=job.repository,
            project=job.context.project,
            fingerprint="",
            commit=job.commit,
            tree=planned.tree,
            head=job.commit,
            state=RepositoryState.READY.value,
            message=None,
            since=job.context.at,
            origin=job.origin,
        )
        record = Record(repository=row, forget_files_of=job.repository)
        writing.commit(self._writer, parts, record=record, planned_at=planned.revision, recent=RecentCommits())
