"""Apply: the worker plans a change, and one transaction stores it while the project is locked.

A project has one writer at a time, in the order of arrival.
"""

import asyncio
import contextlib
import os
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec
from msgspec import structs

from reconciler.model import error_codes, errors, log_context
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.error_codes import OF_STATUS, ErrorCode
from reconciler.model.names import Key
from reconciler.model.outcomes import UpdateStatus
from reconciler.model.plan import PlanStatus
from reconciler.model.principals import Actor
from reconciler.model.secret_references import AvailableSecrets
from reconciler.replicas.work import ALONE, Work
from reconciler.settings.bounded_io import BoundedIO
from reconciler.store.contract import Store
from reconciler.store.records import ChangedVersions, Changes, Record, ResourceChange
from reconciler.worker import messages
from reconciler.worker.client import WorkerClient
from reconciler.worker.messages import ApplyOptions, CommitJob, CommitPlanned, Context, P, RequestPlanned, Verb

SEED_BYTES = 16
LOCK_SECONDS = 60.0  # a request waits this long for its project's lock
STORE_SECONDS = 300.0  # of a transaction without the limit of a plan, with its wait for those of other projects

_statuses = msgspec.msgpack.Decoder(tuple[PlanStatus, ...])

T = TypeVar("T")


class Locked(errors.Transient):
    """A request waited too long for its project's lock."""

    def __init__(self) -> None:
        super().__init__("Other changes of the project take long, so this one was not begun; send it again.")


class Writer(Enum):
    """The kind of a writer, which decides its place in the queue."""

    REQUEST = auto()  # a person or a program waits for the answer
    POLL = auto()  # a run, or work in the background


@dataclass(eq=False, slots=True)
class _Waiter:
    writer: Writer
    gave_way: bool = False
    turn: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class ProjectLock:
    """A lock in the order of arrival, with one exception: when a poll is next, the requests that wait at that moment go
    before it. Later requests do not, so they cannot starve the poll.
    """

    def __init__(self) -> None:
        self._is_held = False
        self._waiting: deque[_Waiter] = deque()

    async def acquire(self, writer: Writer) -> None:
        """Wait for the lock and hold it."""
        if not self._is_held:  # nobody waits either: `release` passes the lock on
            self._is_held = True
            return
        waiter = _Waiter(writer)
        self._waiting.append(waiter)
        try:
            await waiter.turn
        except asyncio.CancelledError:
            if not waiter.turn.cancelled():  # the lock was passed on in the moment of the cancellation
                self.release()
            raise

    def release(self) -> None:
        """Pass the lock on to the next writer, if one waits."""
        waiting = [one for one in self._waiting if not one.turn.cancelled()]
        if waiting and waiting[0].writer is Writer.POLL and not waiting[0].gave_way:
            waiting[0].gave_way = True
            waiting.sort(key=lambda one: one.writer is Writer.POLL)  # requests first, each kind in its order
        self._waiting = deque(waiting)
        self._is_held = bool(waiting)
        if waiting:
            self._waiting.popleft().turn.set_result(None)

    @contextlib.asynccontextmanager
    async def hold(self, *, writer: Writer = Writer.POLL, until: float | None = None) -> AsyncIterator[None]:
        """Hold the lock. Raises Locked if it is not held at `until`, an instant of the loop's clock."""
        try:
            async with asyncio.timeout_at(until):
                await self.acquire(writer)
        except TimeoutError:
            raise Locked from None
        try:
            yield
        finally:
            self.release()


async def to_its_end(work: Coroutine[None, None, T]) -> T:
    """Wait for the end of a write even if the caller is cancelled, once or more: its thread cannot be stopped, and the
    next writer must not get the lock before that.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            task.exception()  # the caller is gone: nobody gets the result
        raise cancelled
    return task.result()


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """The actor and the project of a change. `id` is a ULID that is in the answer, the log and the audit."""

    id: str
    project: str
    actor: Actor


@dataclass(frozen=True, slots=True)
class ApplyAnswer:
    """An HTTP status and a JSON body (empty for 204), ready to be sent."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class ApplyLimits:
    """Limits on the content of a request."""

    api_versions: frozenset[str]
    max_resources: int
    refuse_unknown: bool = False  # parameters that a type does not know


RecordOf: TypeAlias = Callable[[CommitPlanned], Record | None]
"""Makes the record of a planned commit, while the project is locked."""

Secrets: TypeAlias = Callable[[str], AvailableSecrets]
"""Returns the names that a project may refer to now. It reads files, which may hang, so it is called on a thread."""


class Applier:
    """Plans changes in the worker and stores them. All changes of resources and repositories pass through it."""

    def __init__(
        self,
        store: Store,
        worker: WorkerClient,
        *,
        limits: ApplyLimits,
        secrets: Secrets,
        clock: Clock,
        work: Work = ALONE,
    ) -> None:
        self._store = store
        self._work = work
        self._worker = worker
        self._limits = limits
        self._secrets = secrets
        self._clock = clock
        # Each project may have its own disk for these.
        self._secret_files: defaultdict[str, BoundedIO] = defaultdict(lambda: BoundedIO("the files of secrets"))
        self._locks: defaultdict[str, ProjectLock] = defaultdict(ProjectLock)

    async def apply(self, body: bytes, *, request: ApplyRequest, options: ApplyOptions) -> ApplyAnswer:
        """Create or update what `body` holds: 202 with `updates`, 400 with `errors`, 409 when atomic and refused.

        Raises StoreFault, WorkerGone, DiskHangs.
        """
        return await self._answer(Verb.APPLY, body, request=request, options=options)

    async def delete(self, body: bytes, *, request: ApplyRequest, options: ApplyOptions) -> ApplyAnswer:
        """Delete what `body` names: 202 with `errors` and `updates`, 400 with `errors`.

        Raises StoreFault, WorkerGone, DiskHangs.
        """
        return await self._answer(Verb.DELETE, body, request=request, options=options)

    async def delete_one(
        self, key: Key, *, request: ApplyRequest, matching: tuple[str, ...] | None = None
    ) -> ApplyAnswer:
        """Delete one resource: 204, or 403, 404, 409 with `errors`, 412 where it has none of the versions and hashes
        of `matching`. Raises StoreFault, WorkerGone, DiskHangs.
        """
        body = msgspec.json.encode([{"kind": key.kind, "metadata": {"name": key.name}}])
        answer = await self.delete(body, request=request, options=ApplyOptions(matching=matching))
        if answer.status != 202:
            return answer
        outcome = msgspec.json.decode(answer.body, type=_Deleted)
        status = outcome.updates[0].status
        if status is UpdateStatus.DELETED:
            return ApplyAnswer(204, b"")
        if status is UpdateStatus.NOT_FOUND:
            return ApplyAnswer(404, _errors(OF_STATUS[status], f"There is no {key.kind} {key.name}."))
        return ApplyAnswer(
            403 if status is UpdateStatus.FORBIDDEN else 409, _errors(OF_STATUS[status], *outcome.errors)
        )

    async def commit(
        self, job: CommitJob, *, record: RecordOf, beside: Sequence[tuple[CommitJob, RecordOf]] = ()
    ) -> CommitPlanned:
        """Plan a commit and store it with its record. Without a record nothing is stored; without a run in the record,
        no statuses are stored. The jobs `beside` it are part of the same change.

        Raises GitFault, StoreFault, WorkerGone, Overdue, and Refused for commits that must be planned apart.
        """
        project = job.context.project
        every = ((job, record), *beside)
        whole = structs.replace(job, beside=tuple(one for one, _ in beside))
        async with self._worker.planned(whole, partial(self._hold, project)) as answered:
            planned = answered.planned
            assert isinstance(planned, CommitPlanned)
            recorded = []
            for (one, record_of), found in zip(every, (planned, *planned.beside), strict=True):
                made = record_of(found)
                if made is not None:
                    change = _change(found, project=project, origin=one.rules.name)
                    recorded.append(replace(made, change=change))
            if recorded:
                run_ids = {one.run.id for one in recorded if one.run is not None}
                parts = (_with_statuses_of(part, run_ids) for part in answered.parts())
                first, *others = recorded
                await self._write(project, parts, replace(first, beside=tuple(others)), until=answered.locked_until)
            return planned

    async def redact(self, key: Key, text: str, *, request: ApplyRequest, dry_run: bool) -> messages.RedactPlanned:
        """Remove a text from all versions of a resource and from sentences that quote them, unless an obstacle exists.

        The text stays in the files until the store's traces are erased. Raises StoreFault, WorkerGone, Busy, DiskHangs.
        """
        async with self._request_lock(request.project, dry_run=dry_run)():
            job = messages.RedactJob(
                context=await self.context(request.project),
                kind=key.kind,
                name=key.name,
                text=text,
                actor=request.actor.name,
                request=request.id,
                dry_run=dry_run,
            )
            planned, parts = await self._planned(job, messages.RedactPlanned)
            if planned.exists and planned.obstacle is None and not dry_run:
                # Routes may have ended, and renderings are gone.
                change = ResourceChange(None, project=request.project)
                record = Record(redacts=True, address=log_context.request_address(), change=change)
                await self._write(request.project, parts, record)
            return planned

    async def explain(self, repository: str, mirror: Path, *, project: str) -> bool:
        """Find the lineage of a repository's resources, and store it for those that did not change meanwhile. Return
        True if any was found, since there may be more.

        Raises StoreFault, WorkerGone, DiskHangs.
        """
        job = messages.LineageJob(await self.context(project), repository, str(mirror))
        found, parts = await self._planned(job, messages.LineageFound)
        await self._write_apart(parts, project)
        return found.explained > 0

    async def routes(self, project: str, left: Collection[str] = ()) -> bytes:
        """Return the routes of a project, encoded as in `messages.RoutesFound`. Their `former` has the last known
        settings of destinations in `left` without a route.

        Outdated statuses of delivery are corrected, by one replica. Raises StoreFault, WorkerGone, DiskHangs, and
        Refused if the project has more routes than the service can hold.
        """
        job = messages.RoutesJob(await self.context(project), tuple(sorted(left)))
        found, _ = await self._planned(job, messages.RoutesFound)
        # After an upgrade or a redaction; every other change writes the statuses itself.
        if found.restated and self._work.is_mine:
            async with self._hold(project):
                found, parts = await self._planned(job, messages.RoutesFound)
                await self._write(project, parts, Record())
        return found.routes

    async def render(self, project: str) -> bool:
        """Render the Configurations of a project that changed, as many as one job does, and store the results that
        still hold. Return True if there are more.

        Raises StoreFault, WorkerGone, DiskHangs.
        """
        rendered, parts = await self._planned(messages.RenderJob(await self.context(project)), messages.Rendered)
        await self._write_apart(parts, project)
        return not rendered.is_all

    async def review(self, job: messages.ReviewJob) -> messages.ReviewPlanned:
        """Plan the merge of a proposal. Nothing is stored, and no change waits for it.

        Raises GitFault, Refused, StoreFault, WorkerGone, Overdue, Busy.
        """
        return (await self._planned(job, messages.ReviewPlanned))[0]

    async def compare(self, project: str, pairs: Iterable[ChangedVersions]) -> tuple[PlanStatus, ...]:
        """Return the fields that differ between versions, for the first pairs, as many as fit into one answer.

        Raises StoreFault, WorkerGone, Overdue, Busy, DiskHangs.
        """
        job = messages.CompareJob(await self.context(project), tuple(pairs))
        found, _ = await self._planned(job, messages.Compared)
        return _statuses.decode(found.statuses)

    async def _planned(self, job: messages.Job, shape: type[P]) -> tuple[P, Iterable[Changes]]:
        """Plan a job that needs no lock, or whose lock is held. Return its plan, of this shape, and its parts."""
        answered = await self._worker.plan(job)
        assert isinstance(answered.planned, shape)
        await self._store.revision()  # the worker may have seen one that is not known here yet
        return answered.planned, answered.parts()

    async def secrets(self, project: str) -> AvailableSecrets:
        """Return the names of secrets that a project may refer to now. Raises DiskHangs."""
        return await self._secret_files[project].answer(partial(self._secrets, project))

    async def store_record(self, record: Record, *, project: str, is_request: bool = False) -> None:
        """Store a record that needs no plan. Raises StoreFault, Moved if other deletions are held than an approval
        names, and Locked if a request waits too long.
        """
        lock = self._request_lock(project) if is_request else partial(self._hold, project)
        async with lock():
            address = log_context.request_address() if is_request else None
            await self._write(project, (), replace(record, address=address))

    def _request_lock(self, project: str, *, dry_run: bool = False) -> Callable[[], AbstractAsyncContextManager[None]]:
        """Return the lock of a request that arrives now: it waits at most LOCK_SECONDS. A dry run needs none."""
        if dry_run:
            return contextlib.nullcontext
        until = asyncio.get_running_loop().time() + LOCK_SECONDS
        return partial(self._hold, project, writer=Writer.REQUEST, until=until)

    @contextlib.asynccontextmanager
    async def _hold(
        self, project: str, *, writer: Writer = Writer.POLL, until: float | None = None
    ) -> AsyncIterator[None]:
        """Hold the project's lock in this process, then in all. Raises Locked, StoreFault."""
        async with contextlib.AsyncExitStack() as held:
            await held.enter_async_context(self._locks[project].hold(writer=writer, until=until))
            left = None if until is None else max(0.0, until - asyncio.get_running_loop().time())
            try:
                await held.enter_async_context(self._store.locked(project, seconds=left))
            except TimeoutError:
                raise Locked from None
            yield

    async def _write(
        self, project: str, parts: Iterable[Changes], record: Record, *, until: float | None = None
    ) -> None:
        """Store a change of a locked project. After `until`, an instant of the loop's clock, nothing is stored. Raises
        StoreFault, Moved.
        """
        seconds = STORE_SECONDS if until is None else max(0.0, until - asyncio.get_running_loop().time())
        await to_its_end(self._store.commit(parts, record=record, project=project, timeout=seconds))

    async def _write_apart(self, parts: Iterable[Changes], project: str) -> None:
        """Store parts that were planned without the lock, each in a transaction of some milliseconds: their rows check
        that they still hold.
        """
        for part in parts:
            async with self._hold(project):
                await self._write(project, (part,), Record())

    async def _answer(self, verb: Verb, body: bytes, *, request: ApplyRequest, options: ApplyOptions) -> ApplyAnswer:
        """Plan an apply or a delete, store it, and return the answer. Raises StoreFault, WorkerGone, DiskHangs."""
        project = request.project
        lock = self._request_lock(project, dry_run=options.dry_run)
        job = messages.RequestJob(
            context=await self.context(project),
            verb=verb,
            actor=request.actor,
            request=request.id,
            body=body,
            max_resources=self._limits.max_resources,
            options=options,
        )
        async with self._worker.planned(job, lock) as answered:
            planned = answered.planned
            assert isinstance(planned, RequestPlanned)
            if planned.changed:
                change = _change(planned, project=project, origin=None)
                record = Record(address=log_context.request_address(), change=change)
                await self._write(project, answered.parts(), record, until=answered.locked_until)
            else:
                await self._store.revision()  # the worker may have seen one that is not known here yet
            return ApplyAnswer(planned.status, planned.answer)

    async def context(self, project: str) -> Context:
        """Return the inputs of a plan that is made now. Raises StoreFault, DiskHangs."""
        now = self._clock()
        return Context(
            store=self._store.address,
            project=project,
            hmac_key=await self._store.hmac_key(),
            api_versions=self._limits.api_versions,
            refuse_unknown=self._limits.refuse_unknown,
            at=rfc3339(now),
            milliseconds=int(now.timestamp() * 1000),
            seed=os.urandom(SEED_BYTES),
            secrets=await self.secrets(project),
        )


def _change(planned: CommitPlanned | RequestPlanned, *, project: str, origin: str | None) -> ResourceChange:
    return ResourceChange(
        origin,
        touched=planned.touched,
        changed=planned.changed,
        project=project,
        changed_endpoints=planned.changed_endpoints,
    )


def _with_statuses_of(part: Changes, runs: Collection[str]) -> Changes:
    """Return the part with only the statuses of these runs."""
    part.statuses = [row for row in part.statuses if row.run in runs]
    return part


class _DeletedUpdate(msgspec.Struct):
    status: UpdateStatus


class _Deleted(msgspec.Struct):
    errors: list[str]
    updates: list[_DeletedUpdate]


def _errors(code: ErrorCode, *lines: str) -> bytes:
    return msgspec.json.encode(error_codes.body(lines, code))
