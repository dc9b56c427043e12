"""Apply: a change is planned in the worker, then stored in one transaction.

The plan holds until what it looked at is touched: see `Store.commit`. When the store moved there meanwhile, it is made
again; `conflict_retry` in the end keeps other changes out, so that a large commit ends too.
"""

import asyncio
import contextlib
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias, TypeVar

import msgspec

from reconciler.model import log_context, outcomes
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.names import Key
from reconciler.model.outcomes import UpdateStatus
from reconciler.model.principals import Actor
from reconciler.model.routes import Routes
from reconciler.model.secret_references import AvailableSecrets
from reconciler.reconcile.conflict_retry import ConflictRetry, Round, to_its_end
from reconciler.settings.bounded_io import BoundedIO
from reconciler.store.contract import ApprovalRow, AuditRow, Changes, DamagedVersion, Moved, Record, Store
from reconciler.worker.change_stream import Begin, ChangeStream
from reconciler.worker.client import Answered, WorkerClient
from reconciler.worker.messages import (
    CommitJob,
    CommitPlanned,
    Context,
    Job,
    LineageFound,
    LineageJob,
    RedactJob,
    RedactPlanned,
    RequestJob,
    RequestPlanned,
    ReviewJob,
    ReviewPlanned,
    RoutesFound,
    RoutesJob,
    Verb,
)

SEED_BYTES = 16

T = TypeVar("T")

_routes = msgspec.msgpack.Decoder(Routes)


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """Who asks for a change, in which project. `id` is a ULID that ties the answer, the log and the audit together."""

    id: str
    project: str
    actor: Actor


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """The query parameters of an apply or a delete."""

    accept_invalid: bool = False
    atomic: bool = False
    dry_run: bool = False
    strict_version: bool = False  # a document made from another version than the stored one is not stored
    matching: tuple[str, ...] | None = None  # delete what has one of these, versions or hashes; None: whatever it has


@dataclass(frozen=True, slots=True)
class ApplyAnswer:
    """An HTTP status and a JSON body (empty for 204), ready to be sent."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class ApplyLimits:
    """What a request may hold."""

    api_versions: frozenset[str]
    max_resources: int
    refuse_unknown: bool = False  # parameters that a type does not know


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """What was stored: by a repository, or None; which others it concerns; whether resources changed, and of which
    project: None when nothing but whose they are did; the webhooks whose endpoint it disabled, deleted or changed.
    """

    origin: str | None
    touched: Collection[str] = ()
    changed: bool = True
    project: str | None = None
    changed_endpoints: Collection[str] = ()


Listener: TypeAlias = Callable[[AppliedChange], None]

Secrets: TypeAlias = Callable[[str], AvailableSecrets]
"""The names that a project may refer to now. It reads files, which may hang, so it is called on a thread."""


class Applier:
    """The one way in which anything changes the store."""

    def __init__(
        self,
        store: Store,
        reader: WorkerClient,
        *,
        store_path: str,
        limits: ApplyLimits,
        secrets: Secrets,
        clock: Clock,
    ) -> None:
        self._store = store
        self._reader = reader
        self._store_path = store_path
        self._limits = limits
        self._secrets = secrets
        self._clock = clock
        # Each project may have its own disk for these.
        self._asking: defaultdict[str, BoundedIO] = defaultdict(lambda: BoundedIO("the files of secrets"))
        self._retry = ConflictRetry()
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Have `listener` called after every change of resources, or of what repositories want."""
        self._listeners.append(listener)

    def _tell(self, told: AppliedChange) -> None:
        for listener in self._listeners:
            listener(told)

    async def apply(self, body: bytes, *, request: ApplyRequest, options: ApplyOptions) -> ApplyAnswer:
        """Create or update what `body` holds: 202 with `updates`, 400 with `errors`, 409 when atomic and refused.

        Raises StoreFault, ReaderGone, Hangs.
        """
        return await self._answer(Verb.APPLY, body, request=request, options=options)

    async def delete(self, body: bytes, *, request: ApplyRequest, options: ApplyOptions) -> ApplyAnswer:
        """Delete what `body` names: 202 with `errors` and `updates`, 400 with `errors`.

        Raises StoreFault, ReaderGone, Hangs.
        """
        return await self._answer(Verb.DELETE, body, request=request, options=options)

    async def delete_one(
        self, key: Key, *, request: ApplyRequest, matching: tuple[str, ...] | None = None
    ) -> ApplyAnswer:
        """Delete one resource: 204, or 403, 404, 409 with `errors`, 412 where it has none of the versions and hashes
        of `matching`. Raises StoreFault, ReaderGone, Hangs.
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
            return ApplyAnswer(404, _errors(f"There is no {key.kind} {key.name}."))
        return ApplyAnswer(403 if status is UpdateStatus.FORBIDDEN else 409, _errors(*outcome.errors))

    async def commit(
        self,
        job: Callable[[Context], CommitJob],
        *,
        project: str,
        origin: str,
        record: Callable[[CommitPlanned], Record | None],
    ) -> CommitPlanned:
        """Plan a commit of the repository `origin` and store it with its record; nothing when there is no record.

        Raises GitFault, StoreFault, ReaderGone, Hangs.
        """

        async def store(answered: Answered) -> CommitPlanned:
            planned = answered.planned
            assert isinstance(planned, CommitPlanned)
            self._suspect(project, planned.damaged)
            recorded = record(planned)
            if recorded is not None:
                parts, ahead = answered.inflow.handed_over()
                await self._store.commit(
                    parts,
                    record=recorded,
                    planned_at=planned.revision,
                    footprint=planned.footprint,
                    ahead=ahead,
                )
                endpoints = planned.changed_endpoints
                self._tell(AppliedChange(origin, planned.touched, planned.changed, project, endpoints))
            return planned

        attempt = self._attempt(job, project=project, store=store, ahead=self._store.ahead)
        return await self._retry.of_commit(project, attempt)

    async def redact(self, key: Key, text: str, *, request: ApplyRequest, dry_run: bool) -> RedactPlanned:
        """Take a text out of all versions of a resource, and out of what quotes them; nothing when it may not be.

        What it was stays in the files until the store's traces are erased. Others are kept out meanwhile: what quotes
        the text may be stored beside any revision. Raises StoreFault, ReaderGone, Hangs.
        """

        def job(context: Context) -> Job:
            return RedactJob(
                context=context,
                kind=key.kind,
                name=key.name,
                text=text,
                actor=request.actor.name,
                request=request.id,
                dry_run=dry_run,
            )

        async def store(answered: Answered) -> RedactPlanned:
            planned = answered.planned
            assert isinstance(planned, RedactPlanned)
            if planned.exists and planned.obstacle is None and not dry_run:
                record = Record(redacts=True, address=log_context.request_address())
                await self._store.commit(
                    answered.parts(),
                    record=record,
                    planned_at=planned.revision,
                    footprint=outcomes.footprint_of_all(request.project),
                )
                if planned.ends_routes:
                    self._tell(AppliedChange(None, project=request.project))
            return planned

        attempt = self._attempt(job, project=request.project, store=store)
        if dry_run:
            return await attempt()
        return await self._retry.alone(request.project, attempt)

    async def explain(self, job: Callable[[Context], LineageJob], *, project: str) -> LineageFound:
        """Find which commits changed what a repository brought, and store it when nothing else is under way.

        Raises StoreFault, ReaderGone, Hangs.
        """
        answered = await self._reader.plan(job(await self._context(project)))
        assert isinstance(answered.planned, LineageFound)
        for part in answered.parts():
            async with self._retry.when_idle(project):
                await to_its_end(self._store.commit((part,), record=Record(), planned_at=None))
        return answered.planned

    async def routes(self, project: str, left: Collection[str] = ()) -> Routes:
        """What a project routes, and in `former` what is known of the destinations `left` that nothing routes to.

        Statuses that say something else of it are stored anew, unless the store moved: then the next call finds them.
        Raises StoreFault, ReaderGone, Hangs, and Refused when the project routes more than the service can hold.
        """
        job = RoutesJob(await self._context(project), tuple(sorted(left)))
        answered = await self._reader.plan(job)
        found = answered.planned
        assert isinstance(found, RoutesFound)
        if found.restated:
            async with self._retry.beside(project):
                with contextlib.suppress(Moved):
                    await to_its_end(
                        self._store.commit(
                            answered.parts(),
                            record=Record(),
                            planned_at=found.revision,
                            footprint=outcomes.footprint_of_all(project),
                        )
                    )
        return await _joined(answered.routes, project=project, revision=found.revision)

    async def review(self, job: Callable[[Context], ReviewJob], *, project: str) -> ReviewPlanned:
        """Plan what merging a proposal would do. Nothing is stored, and no change waits for it.

        Raises GitFault, Refused, StoreFault, ReaderGone, Overdue, Busy, Hangs.
        """
        answered = await self._reader.plan(job(await self._context(project)))
        assert isinstance(answered.planned, ReviewPlanned)
        return answered.planned

    async def secrets(self, project: str) -> AvailableSecrets:
        """The names that a project may refer to now, as the next plan is told. Raises Hangs."""
        return await self._asking[project].answer(partial(self._secrets, project))

    async def release(self, repository: str, *, audit: AuditRow) -> None:
        """Leave to the API what a repository owns that is watched no more. Raises StoreFault."""
        async with self._retry.everywhere():
            record = Record(release_repository=repository, audit=(audit,))
            await to_its_end(self._store.commit((), record=record, planned_at=None))
        self._tell(AppliedChange(repository))

    async def approve(self, approval: ApprovalRow, *, audit: AuditRow) -> None:
        """Let go what is held at a commit. Raises Moved when something else is held by now, StoreFault."""
        async with self._retry.beside(audit.project):
            parts = (Changes(audit=(audit,)),)
            record = Record(approval=approval, address=log_context.request_address())
            await to_its_end(self._store.commit(parts, record=record, planned_at=None))

    async def tell(self, record: Record, *, project: str) -> None:
        """Store what a run told without a plan; whoever is alone in the project sees all of it. Raises StoreFault."""
        async with self._retry.beside(project):
            await to_its_end(self._store.commit((), record=record, planned_at=None))

    async def note(self, record: Record) -> None:
        """Store what plans must know and no plan made: that a suspension begins or ends. Raises StoreFault."""
        told = replace(record, address=log_context.request_address())
        async with self._retry.everywhere():
            await to_its_end(self._store.commit((), record=told, planned_at=None))

    async def _answer(self, verb: Verb, body: bytes, *, request: ApplyRequest, options: ApplyOptions) -> ApplyAnswer:
        def job(context: Context) -> Job:
            return RequestJob(
                context=context,
                verb=verb,
                actor=request.actor.name,
                role=request.actor.role.value,
                request=request.id,
                body=body,
                max_resources=self._limits.max_resources,
                atomic=options.atomic,
                dry_run=options.dry_run,
                accept_invalid=options.accept_invalid,
                strict_version=options.strict_version,
                matching=options.matching,
            )

        async def store(answered: Answered) -> ApplyAnswer:
            planned = answered.planned
            assert isinstance(planned, RequestPlanned)
            self._suspect(request.project, planned.damaged)
            if planned.changed:
                await self._store.commit(
                    answered.parts(),
                    record=Record(address=log_context.request_address()),
                    planned_at=planned.revision,
                    footprint=planned.footprint,
                )
                endpoints = planned.changed_endpoints
                self._tell(AppliedChange(None, planned.touched, project=request.project, changed_endpoints=endpoints))
            return ApplyAnswer(planned.status, planned.answer)

        return await self._retry.of_request(request.project, self._attempt(job, project=request.project, store=store))

    def _suspect(self, project: str, damaged: Iterable[tuple[str, str, int]]) -> None:
        self._store.suspect(DamagedVersion(project, *one) for one in damaged)

    def _attempt(
        self,
        job: Callable[[Context], Job],
        *,
        project: str,
        store: Callable[[Answered], Coroutine[None, None, T]],
        ahead: Begin | None = None,
    ) -> Round[T]:
        """One round: plan and store. With `ahead`, a large change is written meanwhile. It raises Moved."""

        async def round_() -> T:
            async with ChangeStream(ahead) as inflow:  # whatever is not stored of it is dropped
                answered = await self._reader.plan(job(await self._context(project)), inflow)
                await inflow.written()  # which takes long, and may be given up
                return await to_its_end(store(answered))

        return round_

    async def _context(self, project: str) -> Context:
        now = self._clock()
        return Context(
            store=self._store_path,
            project=project,
            hmac_key=await self._store.hmac_key(),
            api_versions=self._limits.api_versions,
            refuse_unknown=self._limits.refuse_unknown,
            at=rfc3339(now),
            milliseconds=int(now.timestamp() * 1000),
            seed=os.urandom(SEED_BYTES),
            secrets=await self.secrets(project),
        )


async def _joined(parts: Iterable[bytes], *, project: str, revision: int) -> Routes:
    """All parts as one; others have their turn between two."""
    found: list[Routes] = []
    for part in parts:
        found.append(_routes.decode(part))
        await asyncio.sleep(0)
    return Routes(
        project=project,
        revision=revision,
        routes=tuple(one for part in found for one in part.routes),
        destinations=tuple(one for part in found for one in part.destinations),
        former=tuple(one for part in found for one in part.former),
        wanting=tuple(one for part in found for one in part.wanting),
    )


class _DeletedUpdate(msgspec.Struct):
    status: UpdateStatus


class _Deleted(msgspec.Struct):
    errors: list[str]
    updates: list[_DeletedUpdate]


def _errors(*lines: str) -> bytes:
    return msgspec.json.encode({"errors": lines})
