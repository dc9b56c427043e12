"""Reconciling one repository: poll, fetch, verify, plan, apply, record."""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import RefHead, RefKind
from reconciler.git.remotes import verification
from reconciler.git.remotes.following import Following
from reconciler.git.remotes.proposals import Proposal, Proposing
from reconciler.git.remotes.verification import AllowedSigners
from reconciler.model import errors
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.secret_references import AvailableSecrets
from reconciler.reconcile import interventions, runs
from reconciler.reconcile.apply import Applier
from reconciler.reconcile.interventions import SuspensionAsker
from reconciler.reconcile.runs import Run, RunAttempt, RunFindings, RunOutcome, RunTally, SeenRuns, Trigger
from reconciler.reconcile.watched import PollFailure, WatchedRepository, most_polls
from reconciler.settings.bounded_io import BoundedIO
from reconciler.store.contract import Record, RepositoryRow, Store, SuspensionRow
from reconciler.worker.messages import CommitJob, CommitPlanned, Context, LineageJob, Neighbour, ReviewJob

# What the reader child is told of a repository and its settings, for a commit that is applied or only reviewed.


def commit_job(
    watched: WatchedRepository,
    context: Context,
    *,
    commit: str,
    branch: str,
    run: str,
    full: bool,
    mirror: Path,
    origin: str,
    neighbours: tuple[Neighbour, ...],
) -> CommitJob:
    """The job that plans a commit of a repository. What `branch` and `origin` are, `CommitJob` says."""
    return CommitJob(
        context=context,
        repository=watched.name,
        mirror=str(mirror),
        commit=commit,
        branch=branch,
        path=watched.path,
        run=run,
        full=full,
        prune=watched.prune,
        prune_min_count=watched.prune_min_count,
        prune_max_percent=watched.prune_max_percent,
        atomic=watched.atomic,
        allowed_kinds=watched.allowed_kinds,
        allowed_names=watched.allowed_names,
        accept_invalid=watched.accept_invalid,
        include=watched.include,
        exclude=watched.exclude,
        origin=origin,
        neighbours=neighbours,
    )


# Finding in the background which commits changed what a repository brought: when there is something to find.
#
# What a run could not find in a moment, of a first read above all, is stored without lineage. The search goes on beside
# the runs that follow; the reader child rests from it while anybody waits for something else. What is left to find is
# asked of the store each time, so that it goes on after a restart.

log = logging.getLogger(__name__)


class LineageSearch:
    """Of one repository. `is_due`: something may be left to find, of a former process for instance."""

    def __init__(self, applier: Applier, *, repository: str, project: str) -> None:
        self._applier = applier
        self._repository = repository
        self._project = project
        self.is_due = True

    async def explain(self, mirror: Path) -> None:
        """Search until nothing more is found. After a fault it is due again. Raises nothing."""

        def job(context: Context) -> LineageJob:
            return LineageJob(context=context, repository=self._repository, mirror=str(mirror))

        is_done = False
        try:
            while not is_done:
                self.is_due = False  # what a run leaves to find from now on is due again
                is_done = not (await self._applier.explain(job, project=self._project)).more
        except errors.ReconcilerError as fault:
            log.debug("%s: %s", self._repository, fault.message)
        except Exception:
            log.exception("The search for the lineage of %s met a fault of the program.", self._repository)
            is_done = True  # it would meet it again; the next run that leaves something to find tries anew
        finally:
            self.is_due = self.is_due or not is_done


# Whether a head may be applied by its signature, and what is remembered of that.


class SignatureTrust:
    """Of one repository. Without a file of signers, every head is trusted."""

    def __init__(self, signers_file: Path | None, following: Following) -> None:
        self._file = signers_file
        self._following = following
        self._asking = BoundedIO("the file of signers")
        self._good: tuple[str, str, str] | None = None  # commit and tag, and the digest of the file that said so

    async def has(self, head: RefHead) -> bool:
        """Whether the head was found good by the file of signers as it is now. Raises GitFault unsigned, Transient."""
        if self._file is None:
            return True
        allowed = await self._read(self._file)
        return self._good == (head.commit, head.tag, allowed.digest)

    async def check(self, head: RefHead) -> None:
        """Return when a head that the mirror holds is signed by one of the signers; asked once.

        Raises GitFault unsigned and mirror-corrupt, and Transient.
        """
        if self._file is None:
            return
        allowed = await self._read(self._file)
        verdict = (head.commit, head.tag, allowed.digest)
        if self._good != verdict:
            await self._following.verify(head, allowed)
            self._good = verdict

    async def _read(self, path: Path) -> AllowedSigners:
        return await self._asking.answer(partial(verification.read_signers, path))


# Reconciling one repository: named steps and one exit. Look, fetch, verify, plan and apply; the outcome is
# recorded once.
#
# When to do it is decided in `loop`.

SETTLED = frozenset({RepositoryState.READY, RepositoryState.PRUNE_HELD, RepositoryState.UNRELATED_ROOT})
"""States that only a plan gives: there, the same head, settings and schemas mean that there is nothing to do, unless
deletions are held, which may be in the budget by now.
"""


PATIENCE = 0.1  # of the interval: a poll may take a look so old that another repository's poll made of the same remote


class Reconciler:
    """Knows one repository: what of which remote it follows, and what is remembered of it."""

    def __init__(
        self,
        watched: WatchedRepository,
        *,
        following: Following,
        store: Store,
        applier: Applier,
        fingerprint: Callable[[AvailableSecrets], str],
        origin: str,
        neighbours: Callable[[], tuple[Neighbour, ...]],
        clock: Clock,
        tally: RunTally,
    ) -> None:
        self.watched = watched
        self._following = following
        self._trust = SignatureTrust(watched.signers_file, following)
        self._store = store
        self._applier = applier
        self._fingerprint = fingerprint
        self._reader = runs.HistoryReader(watched, fingerprint="", origin=origin)  # each look has a fingerprint
        self._neighbours = neighbours
        self._clock = clock
        self._tally = tally  # of all repositories
        self.tallied = SeenRuns()
        self.remembered: RepositoryRow | None = None
        self.suspension: SuspensionRow | None = None
        self.last_run: str | None = None
        self.seen: str | None = None  # where what is followed stood at the last look of this process
        self.waits_for_store = False  # another repository owns some of what the head wants
        self.lineage = LineageSearch(applier, repository=watched.name, project=watched.project)
        self._branch: str | None = None  # where what was applied stood when it was last seen
        self.fault: errors.ReconcilerError | None = None  # of the last look of this process
        self.unwritten: RepositoryRow | None = None  # what the last look told, where it was news that could not be kept
        self._met: str | None = None  # what it said, so that what that look was for is still to be done

    async def recall(self) -> None:
        """Learn what the store remembers. Raises StoreFault."""
        self.remembered = await self._store.repository(self.watched.name)
        self.suspension = await self._store.suspension(self.watched.name)
        self.last_run = await self._store.last_run(self.watched.name)
        # The index is that of the last applied head: whether a refused one waits is not known, so it may.
        row = self.remembered
        was_refused = row is not None and row.head is not None and row.tree is None
        self.waits_for_store = was_refused or await self._store.waits_for_store(self.watched.name)

    async def reconcile(self, run: Run, *, full: bool) -> PollFailure | None:
        """One look, and what follows from it; how it failed, for the pace of the looks that follow, or None.

        A look that finds nothing new writes nothing, unless somebody asked for the run. Raises nothing foreseen.
        """
        run.started = self._clock()
        attempt = RunAttempt(run, run.started, full)
        try:
            await self._steps(attempt)
        except errors.ReconcilerError as fault:
            attempt.findings = RunFindings(fault=fault)
        except OSError as fault:
            why = fault.strerror or str(fault)
            told = f"the mirror cannot be used ({why}): look at the disk's space and limits"
            attempt.findings = RunFindings(fault=errors.Transient(told))
        except Exception:
            # Nobody foresaw it: the other repositories and the API go on, and this one tries again.
            log.exception("The run %s of %s met a fault of the program.", run.id, self.watched.name)
            attempt.findings = RunFindings(fault=errors.Transient("the run met a fault of the program; see its log"))
        await self._exit(attempt)
        met = self.fault = attempt.findings.fault
        self._met = None if met is None else met.message
        return _failure(met, is_local=self.watched.source.is_local)

    def forget(self) -> None:
        """Take nothing for granted: read everything at the next look."""
        if self.remembered is not None:
            self.remembered = self.remembered._replace(fingerprint=None)

    async def explain(self) -> None:
        """In the background: find which commits changed what was read. Raises nothing."""
        if self._following.is_ready:
            await self.lineage.explain(self.mirror)

    # Reviews: whatever state the repository is in

    @property
    def proposing(self) -> Proposing:
        """What of the remote may be proposed."""
        return self._following.proposing

    def review(self, context: Context, proposed: Proposal, *, plan: str) -> ReviewJob:
        """The job that plans what merging a proposal would do, judged as the run after the merge would judge it.

        `plan` is an id, which stands where that of the run would.
        """
        remembered = self.remembered
        judged = commit_job(
            self.watched,
            context,
            commit=proposed.base,
            branch=self.branch,
            run=plan,
            full=remembered is None or remembered.fingerprint != self._fingerprint(context.secrets),
            mirror=proposed.mirror,
            origin=self._reader.origin,
            neighbours=self._neighbours(),
        )
        return ReviewJob(
            commit=judged,
            head=proposed.head,
            proposals=str(proposed.proposals or ""),
            followed=proposed.is_followed,
        )

    # Suspensions: no run is under way when one begins, and none but ours when one ends

    async def suspend(self, suspension: SuspensionRow, *, asker: SuspensionAsker) -> None:
        """Look no more from now on; stored together with the state. Raises StoreFault."""
        row = interventions.begin_suspension(self.remembered, self.watched, suspension)
        audit = interventions.suspension_event(suspension, project=row.project, action="suspended", asker=asker)
        await self._applier.note(Record(repository=row, suspension=suspension, audit=(audit,)))
        self.remembered, self.suspension, self.unwritten = row, suspension, None

    async def resume(self, *, asker: SuspensionAsker) -> None:
        """Look again, and read everything at the next look. Nothing happens without a suspension. Raises StoreFault."""
        if self.suspension is None:
            return
        row = interventions.end_suspension(self.remembered, at=asker.at)
        audit = interventions.suspension_event(
            self.suspension, project=self.watched.project, action="resumed", asker=asker
        )
        await self._applier.note(Record(repository=row, resume=self.watched.name, audit=(audit,)))
        self.remembered, self.suspension, self.unwritten = row, None, None

    @property
    def mirror(self) -> Path:
        """The folder with what was fetched; it may not be there yet."""
        return self._following.path

    @property
    def branch(self) -> str:
        """Where what is applied comes from: a branch by its short name, all else by its full one; `HEAD` where the
        remote's HEAD names no branch, and before the first look.
        """
        follows = self.watched.follows
        return self._branch or "HEAD" if follows.kind is RefKind.HEAD else _branch_of(RefHead(follows.full, ""))

    @property
    def told(self) -> RepositoryRow | None:
        """What is remembered, or what the last look told where that could not be kept: a full disk hides no fault."""
        return self.unwritten or self.remembered

    @property
    def why_suspended(self) -> str | None:
        """Why no look is made; None when looks are made."""
        if self.suspension is not None:
            return interventions.suspension_message(self.suspension)
        return interventions.SETTING if self.watched.suspended else None

    @property
    def suspension_is_over(self) -> bool:
        """Whether a suspension is there whose time has passed: the next run ends it."""
        return self.suspension is not None and interventions.is_suspension_over(self.suspension, self._clock())

    @property
    def suspension_left(self) -> float:
        """Seconds until a suspension is over; infinity when that is nothing to wait for."""
        return interventions.seconds_left(self.suspension, self._clock())

    async def _steps(self, attempt: RunAttempt) -> None:
        if self.suspension_is_over:
            await self.resume(asker=SuspensionAsker(interventions.SYSTEM, rfc3339(attempt.started), run=attempt.run.id))
            attempt.full = True
            if attempt.run.trigger in (Trigger.POLL, Trigger.WATCH):
                attempt.run.trigger = Trigger.RESUME  # the time was over between the wait and this look
        if self.why_suspended is not None:
            attempt.findings = RunFindings(suspended=self.why_suspended)
            return
        self._judge_by(attempt, await self._applier.secrets(self.watched.project))
        generation = self._following.generation
        try:
            await self._poll_and_apply(attempt)
        except GitFault as fault:
            if fault.state is not RepositoryState.MIRROR_CORRUPT:
                raise
            log.warning("The mirror of %s is corrupt and is made anew.", self.watched.name)
            await self._following.rebuild(generation)
            await self._poll_and_apply(attempt)

    async def _poll_and_apply(self, attempt: RunAttempt) -> None:
        # Known already when the mirror was made anew since: the remote need not be asked twice.
        head = attempt.head or await self._poll(attempt)
        # Also when there is nothing new: the mirror may be another one by now, which others read for hand-overs. It
        # costs nothing as long as it is the one that we filled.
        head = await self._following.fetch(head, insists=attempt.is_asked_for)
        self._found(attempt, head)
        if self.remembered is not None and self.remembered.commit is not None:
            await self._following.recall(self.remembered.commit, insists=attempt.is_asked_for)
        if self._is_nothing_new(attempt) and await self._trust.has(head):
            return
        await self._trust.check(head)  # before anything of it is read
        if not self._is_nothing_new(attempt):
            await self._apply(attempt)

    async def _poll(self, attempt: RunAttempt) -> RefHead:
        patience = PATIENCE * self.watched.interval if attempt.run.trigger is Trigger.POLL else 0.0
        head = await self._following.poll(patience=patience, insists=attempt.is_asked_for)
        self._found(attempt, head)
        return head

    def _found(self, attempt: RunAttempt, head: RefHead) -> None:
        attempt.head = head
        attempt.run.commit = self.seen = head.commit
        # Of a head that is not applied yet the branch counts only as long as no other is known.
        if self._branch is None or self._is_applied(head):
            self._branch = _branch_of(head)

    def _is_applied(self, head: RefHead) -> bool:
        return self.remembered is not None and self.remembered.commit == head.commit

    def _judge_by(self, attempt: RunAttempt, secrets: AvailableSecrets) -> None:
        """From now on the head is judged by these; if they are others than before, everything is read again."""
        self._reader = replace(self._reader, fingerprint=self._fingerprint(secrets))
        if self.remembered is None or self.remembered.fingerprint != self._reader.fingerprint:
            attempt.full = True

    def _is_nothing_new(self, attempt: RunAttempt) -> bool:
        remembered, head = self.remembered, attempt.head
        return (
            not attempt.full
            and not self._must_judge_again(attempt.run.trigger)
            and remembered is not None
            and head is not None
            and remembered.head == head.commit
            and remembered.state in SETTLED
            and not self._may_be_in_budget(remembered, attempt.run.trigger)
        )

    def _may_be_in_budget(self, remembered: RepositoryRow, trigger: Trigger) -> bool:
        """What is held may go once enough time has passed, which a poll finds out, and no event. Of a head that was
        refused as a whole nothing goes, however much time passes.
        """
        is_refused = remembered.tree is None
        is_event = trigger in (Trigger.WATCH, Trigger.HOOK)
        return remembered.state == RepositoryState.PRUNE_HELD and not is_refused and not is_event

    async def _apply(self, attempt: RunAttempt) -> None:
        head = attempt.head
        assert head is not None

        def job(context: Context) -> CommitJob:
            # A secret may have come or gone since the look began: what is recorded is what the plan was told.
            self._judge_by(attempt, context.secrets)
            return commit_job(
                self.watched,
                context,
                commit=head.commit,
                branch=_branch_of(head),
                run=attempt.run.id,
                full=attempt.full,
                mirror=self.mirror,
                origin=self._reader.origin,
                neighbours=self._neighbours(),
            )

        def record(planned: CommitPlanned) -> Record | None:
            attempt.findings = RunFindings(planned=planned)
            return None if self._came_to_nothing(attempt) else self._record(attempt, whole=planned)

        planned = await self._applier.commit(job, project=self.watched.project, origin=self.watched.name, record=record)
        attempt.recorded = not self._came_to_nothing(attempt)
        self.lineage.is_due = self.lineage.is_due or not planned.explained
        self.waits_for_store = planned.waits_for_store

    def _must_judge_again(self, trigger: Trigger) -> bool:
        """Whoever asks gets to know all that is wrong with the head. A store that changed may let in what it refused,
        and it may have changed between the last run of the former process and the first look of this one.
        """
        may_have_missed = trigger in (Trigger.START, Trigger.RELOAD) and self.waits_for_store
        return trigger in (Trigger.REQUEST, Trigger.STORE) or may_have_missed or self._met is not None

    def _came_to_nothing(self, attempt: RunAttempt) -> bool:
        return runs.came_to_nothing(attempt, self.remembered, fingerprint=self._reader.fingerprint)

    def _record(self, attempt: RunAttempt, *, whole: CommitPlanned | None = None) -> Record:
        forget = whole is not None and whole.full and not whole.refused
        return runs.run_record(attempt, self.remembered, reader=self._reader, finished=self._clock(), forget=forget)

    # The one exit

    async def _exit(self, attempt: RunAttempt) -> None:
        row = self._row(attempt)
        is_new = runs.tells_something_new(attempt, row, self.remembered)
        is_due = not attempt.recorded and (attempt.is_asked_for or is_new)
        if is_due:
            await self._record_alone(attempt)
        if attempt.recorded or attempt.findings.fault is not None:
            self._log(attempt)
        else:
            log.debug("%s: nothing new.", self.watched.name, extra={"fields": {"repository": self.watched.name}})
        if attempt.recorded and attempt.is_run:
            self.last_run = attempt.run.id
        self._count(attempt, row)
        self.unwritten = self._row(attempt) if is_due and not attempt.recorded else None
        # What was due and could not be written is due again at the next look.
        if attempt.recorded or (attempt.findings.planned is None and not is_due):
            self.remembered = row
            if attempt.head is not None and self._is_applied(attempt.head):
                self._branch = _branch_of(attempt.head)

    def _row(self, attempt: RunAttempt) -> RepositoryRow:
        return runs.repository_row(attempt, self.remembered, reader=self._reader)

    async def _record_alone(self, attempt: RunAttempt) -> None:
        try:
            await self._applier.tell(self._record(attempt), project=self.watched.project)
            attempt.recorded = True
        except errors.ReconcilerError as fault:
            attempt.findings = replace(attempt.findings, fault=attempt.findings.fault or fault)

    def _count(self, attempt: RunAttempt, row: RepositoryRow) -> None:
        findings, now = attempt.findings, self._clock()
        if findings.fault is None and row.state == RepositoryState.READY:
            self.tallied.succeeded = now
        if findings.planned is not None:
            self.tallied.planned = findings.planned.kinds
        if attempt.recorded and attempt.is_run:
            outcome = runs.judge_run(findings, self.remembered).outcome
            self._tally.note(outcome, seconds=(now - attempt.started).total_seconds())

    def _log(self, attempt: RunAttempt) -> None:
        fields = {"repository": self.watched.name, "run": attempt.run.id, "commit": attempt.run.commit}
        findings = attempt.findings
        if findings.fault is not None:
            is_known = findings.fault.message == self._met and not attempt.is_asked_for
            level = logging.DEBUG if is_known else logging.WARNING  # once, and not at each look that meets it again
            log.log(level, "%s: %s", self.watched.name, findings.fault.message, extra={"fields": fields})
            return
        counts = findings.planned.counts if findings.planned else {}
        verdict = runs.judge_run(findings, self.remembered)
        is_fine = verdict.outcome is RunOutcome.SUCCEEDED or findings.suspended is not None
        level = logging.INFO if is_fine else logging.WARNING
        told = runs.run_sentence(self.watched.name, attempt.run.commit or "", counts, verdict)
        log.log(level, "%s", told, extra={"fields": fields | {"counts": counts}})


def _branch_of(head: RefHead) -> str:
    return head.branch or head.ref


def _failure(fault: errors.ReconcilerError | None, *, is_local: bool) -> PollFailure | None:
    if isinstance(fault, GitFault):
        most = most_polls(may_pass=fault.transient, of_head=fault.of_head, is_local=is_local)
        return PollFailure(may_pass=fault.transient, retry_after=fault.retry_after, most=most)
    return None if fault is None else PollFailure(may_pass=isinstance(fault, errors.Transient))
