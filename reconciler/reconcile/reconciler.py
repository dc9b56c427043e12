"""The reconcile of one repository: resume, settings, poll, fetch, verify, read and plan, apply; then the record.

Each step either continues or ends the run, because there is nothing to do or with an error. `_finish` follows on every
exit, once. `loop` decides when a run begins.
"""

import hashlib
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import RefHead, RefKind
from reconciler.git.remotes import verification
from reconciler.git.remotes.following import Following, Remotes
from reconciler.git.remotes.proposals import Proposal
from reconciler.git.remotes.sources import source_of
from reconciler.model import errors
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.secret_references import AvailableSecrets
from reconciler.reconcile import interventions, runs
from reconciler.reconcile.apply import Applier
from reconciler.reconcile.commit_groups import CommitGroup
from reconciler.reconcile.runs import Run, RunOutcome, RunTally, RunVerdict, Trigger
from reconciler.replicas.keeper import LeaseKeeper
from reconciler.settings.bounded_io import BoundedIO
from reconciler.settings.repositories import Repository
from reconciler.store.contract import LeaseLost, Notices, Store
from reconciler.store.records import AuditRow, Record
from reconciler.store.replica_records import Lease
from reconciler.store.repository_records import Remembered, RepositoryRow, SuspensionRow
from reconciler.worker.messages import CommitJob, CommitPlanned, Context, Exhausted, ProjectRepository, ReviewJob

log = logging.getLogger(__name__)

PLANNED_STATES = frozenset({RepositoryState.READY, RepositoryState.PRUNE_HELD, RepositoryState.UNRELATED_ROOT})
"""States that only a plan gives. In these, the same head and fingerprint mean that there may be nothing to do."""

READING_VERSION = 2  # increase it when the program reads the same files differently: then everything is read again

PATIENCE = 0.1  # of the interval: the age up to which another repository's poll of the same remote counts for this one


@dataclass(slots=True)
class RepositoryMemory:
    """The memory of a repository between runs.

    The first three fields are in the store too, the others only in this process.
    """

    row: RepositoryRow  # from `runs.unread_row` as long as the store has none
    suspension: SuspensionRow | None = None
    last_run: str | None = None
    waits_for_store: bool = False  # another repository owns some of what the head wants, for instance
    seen: str | None = None  # the followed commit at the last poll
    branch: str | None = None  # the branch of the applied commit at its last poll, or the full name of another ref
    verified: tuple[str, str, str] | None = None  # the last verified commit and tag, and the digest of the signers
    fault: errors.ReconcilerError | None = None  # of the last run
    exhausted: tuple[str, str | None, Exhausted] | None = None  # a commit over a limit, the fingerprint, and the limit
    remembered: Remembered | None = None  # the last that was shown of it
    unwritten: RepositoryRow | None = None  # the state after the last run, if the store could not record it
    succeeded: datetime | None = None  # when a run last found that everything is stored as the head wants
    planned: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # in the last plan: by kind, then status

    @property
    def shown(self) -> RepositoryRow:
        """The state to show, even if a full disk keeps it from being stored."""
        return self.unwritten or self.row


@dataclass(frozen=True, slots=True)
class ReconcileEnvironment:
    """The parts that all reconcilers share."""

    store: Store
    applier: Applier
    remotes: Remotes
    ensure_project: Callable[[str], Awaitable[bool]]
    rules: str  # a digest of the rules for all documents; those of a repository's settings are not in it
    clock: Clock
    keeper: LeaseKeeper | None = None  # these two exist only where several replicas share the store
    notices: Notices | None = None
    tally: RunTally = field(default_factory=RunTally)


class Reconciler:
    """Reconciles one repository, and keeps its memory between runs."""

    def __init__(
        self,
        watched: Repository,
        environment: ReconcileEnvironment,
        *,
        following: Following,
        neighbours: Callable[[], tuple[ProjectRepository, ...]],
        group: CommitGroup,
        tell_group: Callable[[RefHead], None],
    ) -> None:
        """Set it up. `neighbours` returns the other repositories of the project. Those that follow the same remote are
        its `group`, and `tell_group` starts their runs when there is a new head.
        """
        self.watched = watched
        self.source = source_of(watched)
        self.rules = watched.rules
        facts = [watched.url, watched.follows, watched.project, structs.astuple(self.rules)]
        self._fingerprinted: list[Any] = [READING_VERSION, environment.rules, *facts]
        self.memory = RepositoryMemory(runs.unread_row(watched))
        self.lease: Lease | None = None  # of the present loop; None on one machine
        self._environment = environment
        self._applier = environment.applier
        self._clock = environment.clock
        self.following = following  # also used to fetch proposals
        self._neighbours = neighbours
        self.group = group
        self._tell_group = tell_group
        self._signers = BoundedIO("the file of signers")

    async def recall(self) -> None:
        """Load the memory from the store. Raises StoreFault."""
        name, memory = self.watched.name, self.memory
        row, memory.suspension, memory.last_run, _ = await self._environment.store.remembered(name, held=0)
        memory.row = row or runs.unread_row(self.watched)
        # The index is that of the last applied head. It does not say if a refused head waits, so assume that it does.
        was_refused = memory.row.head is not None and memory.row.tree is None
        memory.waits_for_store = was_refused or await self._environment.store.waits_for_store(name)

    def drop_memory(self) -> None:
        """Keep only what the store has too, because another replica follows the repository, or did."""
        self.lease = None
        self.memory = RepositoryMemory(self.memory.row, self.memory.suspension, self.memory.last_run)

    def forget(self) -> None:
        """Make the next run read everything."""
        self.memory.row = self.memory.row._replace(fingerprint=None)

    async def reconcile(self, run: Run) -> None:
        """Do a run. Raises LeaseLost, and nothing else that is foreseen.

        A run that finds nothing new writes nothing, unless a person requested it.
        """
        run.started = self._clock()
        generation = self.following.generation
        self.group.begin(self.watched.name)
        try:
            try:
                await self._steps(run)
            except GitFault as fault:
                if fault.state is not RepositoryState.MIRROR_CORRUPT:
                    raise
                log.warning("The mirror of %s is corrupt and is made anew.", self.watched.name)
                await self.following.rebuild(generation)
                await self._steps(run)
        except LeaseLost:
            raise
        except errors.ReconcilerError as fault:
            run.fail(fault)
        except OSError as fault:
            todo = "" if errors.is_open_files(fault) else ": look at the disk's space and limits"
            run.fail(errors.Transient(f"the mirror cannot be used ({errors.system_reason(fault)}){todo}"))
        except Exception:
            # A bug: the other repositories and the API continue, and this repository tries again.
            log.exception("The run %s of %s met a fault of the program.", run.id, self.watched.name)
            run.fail(errors.Transient("the run met a fault of the program; see its log"))
        finally:
            self.group.end(self.watched.name)
        await self._finish(run)
        await self.following.read_facts(self.memory.row.commit, self.memory.seen)  # for people: it delays no change

    async def _steps(self, run: Run) -> None:
        watched, memory, following = self.watched, self.memory, self.following

        # Resume, if the time of the suspension is over.
        if not self.suspension_left:
            at = rfc3339(self._clock())
            await self.resume(by=interventions.intervention(watched, actor=interventions.SYSTEM, at=at, run=run.id))
        run.suspended = self.why_suspended
        if run.suspended is not None:
            return

        # Settings: if they differ from those of the last read, everything is read again.
        self._set_fingerprint(run, await self._applier.secrets(watched.project))

        # Poll, unless the head is known: when the mirror was made again, this is the second attempt of the run.
        if run.head is None:
            patience = PATIENCE * watched.interval if run.trigger is Trigger.POLL else 0.0
            run.head = await following.poll(patience=patience, insists=run.is_requested)
            self._note_head(run.head)
            if run.head.commit != memory.row.head:
                self._tell_group(run.head)

        # Fetch, even if nothing is new: somebody may have replaced the mirror. Otherwise it costs nothing.
        run.head = head = await following.fetch(run.head, insists=run.is_requested)
        self._note_head(head)
        if memory.row.commit is not None:
            await following.recall(memory.row.commit, insists=run.is_requested)

        # Verify, before any file is read. A signature is checked once for the same file of signers.
        if watched.verify.signers_file is not None:
            allowed = await self._signers.answer(partial(verification.read_signers, watched.verify.signers_file))
            signature = head.commit, head.tag, allowed.digest
            if memory.verified != signature:
                await following.verify(head, allowed)
                memory.verified = signature

        if self._is_up_to_date(run):
            return

        # Read and plan in the worker, and apply: the plan and the record of the run are one transaction.
        context = await self._applier.context(watched.project)
        # A secret may have come or gone since the run began: record the fingerprint with the secrets of the plan.
        self._set_fingerprint(run, context.secrets)
        job = self._job(context, run.id, mirror=following.path, commit=head.commit, branch=_branch(head), full=run.full)

        def record(planned: CommitPlanned) -> Record | None:
            run.planned = planned
            verdict = self._verdict(run)
            run.is_recorded = runs.is_news(run, memory.row, verdict)
            if not run.is_recorded and verdict.row == memory.row:
                return None
            made = runs.run_record(run, verdict, finished=self._clock(), is_news=run.is_recorded)
            return replace(made, lease=self.lease)

        exhausted = None if run.is_requested else memory.exhausted
        if exhausted is not None and exhausted[:2] == (head.commit, run.fingerprint):
            raise exhausted[2]  # the same commit would exceed the limit again
        try:
            planned = await self.group.commit(job, record=record)
        except Exhausted as fault:
            memory.exhausted = (head.commit, run.fingerprint, fault)
            raise
        memory.waits_for_store = planned.waits_for_store

    async def _finish(self, run: Run) -> None:
        """Record and log a run, and remember what it found."""
        memory = self.memory
        assert run.started is not None

        # Record the run, unless the plan's transaction did, if it is news or a person waits for it.
        verdict = self._verdict(run)
        is_due = not run.is_recorded and runs.is_news(run, memory.row, verdict)
        if is_due:
            try:
                record = replace(runs.run_record(run, verdict, finished=self._clock()), lease=self.lease)
                await self._applier.store_record(record, project=self.watched.project)
                run.is_recorded = True
            except LeaseLost:
                raise
            except errors.ReconcilerError as fault:
                run.fault = run.fault or fault
                verdict = self._verdict(run)

        # Log.
        self._log(run, verdict)

        # Count.
        now = self._clock()
        if run.is_recorded and run.is_kept:
            memory.last_run = run.id
            self._environment.tally.note(verdict.outcome, seconds=(now - run.started).total_seconds())
        if run.fault is None and verdict.row.state == RepositoryState.READY:
            memory.succeeded = now
        if run.planned is not None:
            memory.planned = run.planned.kinds

        # Remember. A run that could not be recorded is due again at the next run.
        memory.fault = run.fault
        memory.unwritten = None
        if is_due and not run.is_recorded:
            memory.unwritten = verdict.row
        else:
            memory.row = verdict.row
            if run.head is not None:
                self._note_head(run.head)

    def _set_fingerprint(self, run: Run, secrets: AvailableSecrets) -> None:
        run.fingerprint = self._fingerprint(secrets)
        run.full |= self.memory.row.fingerprint != run.fingerprint

    def _fingerprint(self, secrets: AvailableSecrets) -> str:
        """Return a digest of all that affects how a commit is judged: if it changes, all files are read again."""
        known = sorted(secrets.env), sorted(secrets.files), secrets.flat, secrets.patterns
        return hashlib.sha256(msgspec.json.encode([*self._fingerprinted, *known])).hexdigest()

    def _note_head(self, head: RefHead) -> None:
        self.memory.seen = head.commit
        # A head that is not applied yet sets the branch only if none is known.
        if self.memory.branch is None or self.memory.row.commit == head.commit:
            self.memory.branch = _branch(head)

    def _is_up_to_date(self, run: Run) -> bool:
        row = self.memory.row
        if run.full or row.head != run.commit or row.state not in PLANNED_STATES:
            return False
        # A person gets all errors of the head. A change of the store may let in refused resources. The work of a failed
        # run is still to be done.
        if run.trigger in (Trigger.REQUEST, Trigger.STORE) or self.memory.fault is not None:
            return False
        # The store may have changed since the last run of the previous process.
        if run.trigger in (Trigger.START, Trigger.RELOAD) and self.memory.waits_for_store:
            return False
        # With time, held deletions may fit the budget again, so every poll plans them again. A head that was refused as
        # a whole never deletes anything.
        is_held = row.state == RepositoryState.PRUNE_HELD and row.tree is not None
        return not is_held or run.trigger in (Trigger.WATCH, Trigger.HOOK)

    def _verdict(self, run: Run) -> RunVerdict:
        return runs.judge_run(run, self.memory.row, origin=self.watched.origin)

    def _log(self, run: Run, verdict: RunVerdict) -> None:
        name, fields = self.watched.name, {"repository": self.watched.name, "run": run.id, "commit": run.commit}
        if run.fault is not None:
            before = self.memory.fault
            is_known = before is not None and before.message == run.fault.message and not run.is_requested
            level = logging.DEBUG if is_known else logging.WARNING  # warn once about the same fault
            log.log(level, "%s: %s", name, run.fault.message, extra={"fields": fields})
        elif run.is_recorded:
            is_fine = verdict.outcome is RunOutcome.SUCCEEDED or run.suspended is not None
            fields_ = fields | {"counts": run.planned.counts if run.planned else {}}
            level = logging.INFO if is_fine else logging.WARNING
            log.log(level, "%s", runs.run_sentence(run, verdict), extra={"fields": fields_})
        else:
            log.debug("%s: nothing new.", name, extra={"fields": {"repository": name}})

    async def explain(self) -> None:
        """Search in the background for the lineage of resources until nothing more is found. Raises nothing.

        A run searches only for a moment, so many resources of a first read have no lineage yet. The store knows which
        ones, even after a restart.
        """
        if not self.following.is_ready:
            return
        name = self.watched.name
        try:
            while await self._applier.explain(name, self.following.path, project=self.watched.project):
                log.debug("%s: more lineage is searched for.", name)
        except errors.ReconcilerError as fault:  # the next run that plans something tries again
            log.debug("%s: %s", name, fault.message)
        except Exception:
            log.exception("The search for the lineage of %s met a fault of the program.", name)

    # Suspensions. No run is in progress when one begins; only the run that ends it is when one ends.

    async def suspend(self, suspension: SuspensionRow, *, by: AuditRow) -> None:
        """Suspend the repository: it is not polled from now on. Raises StoreFault, Locked."""
        await self._note(interventions.suspension_record(self.memory.row, suspension, by=by), by=by)

    async def resume(self, *, by: AuditRow) -> None:
        """End the suspension, if there is one; the next run reads everything. Raises StoreFault."""
        suspension = self.memory.suspension
        if suspension is not None:
            await self._note(interventions.resume_record(self.memory.row, suspension, by=by), by=by)

    async def _note(self, record: Record, *, by: AuditRow) -> None:
        record = replace(record, lease=self.lease)
        await self._applier.store_record(record, project=self.watched.project, is_request=by.request is not None)
        memory = self.memory
        assert record.repository is not None
        memory.row, memory.suspension, memory.unwritten = record.repository, record.suspension, None

    @property
    def why_suspended(self) -> str | None:
        """The reason why the repository is suspended; None if it is not."""
        if self.memory.suspension is not None:
            return interventions.suspension_message(self.memory.suspension)
        return interventions.SETTING if self.watched.suspend else None

    @property
    def suspension_left(self) -> float:
        """The seconds until the suspension ends, 0 if the next run ends it; infinity without a suspension or an end."""
        suspension = self.memory.suspension
        return math.inf if suspension is None else interventions.seconds_left(suspension, self._clock())

    # For other repositories and reviews, in every state of this one.

    @property
    def branch(self) -> str:
        """The source of the applied commit: the short name of a branch, or the full name of another ref. It is `HEAD`
        before the first poll, and if the remote's HEAD names no branch.
        """
        follows = self.source.follows
        return self.memory.branch or "HEAD" if follows.kind is RefKind.HEAD else _branch(RefHead(follows.full, ""))

    def review_job(self, context: Context, proposed: Proposal, *, plan: str) -> ReviewJob:
        """Return the job that plans the merge of a proposal, as the run after the merge would plan it.

        `plan` is the id of the plan, in place of a run's id.
        """
        is_suspended = self.why_suspended is not None  # resources may have drifted, so every file is read
        full = is_suspended or self.memory.row.fingerprint != self._fingerprint(context.secrets)
        return ReviewJob(
            commit=self._job(
                context, plan, mirror=proposed.mirror, commit=proposed.base, branch=self.branch, full=full
            ),
            head=proposed.head,
            proposals=str(proposed.proposals or ""),
            followed=proposed.is_followed,
        )

    def _job(self, context: Context, run: str, *, mirror: Path, commit: str, branch: str, full: bool) -> CommitJob:
        return CommitJob(
            context=context,
            rules=self.rules,
            mirror=str(mirror),
            commit=commit,
            branch=branch,
            run=run,
            full=full,
            origin=self.watched.origin,
            neighbours=self._neighbours(),
        )


def _branch(head: RefHead) -> str:
    return head.branch or head.ref
