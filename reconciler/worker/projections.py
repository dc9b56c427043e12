"""Projections of the resources of a project after a change: its routes, and its renderings for Collectors.

`status.delivery` is compared with the routes. Every change already updates it (`planner.dependants`), so it differs
only if an earlier version of the product stored it, or a redaction ended a route. Then it is stored again.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice
from time import monotonic

import msgspec
from msgspec import structs

from reconciler.collectors.rendering import Renderer, Rendering, render_status
from reconciler.model import builtins, components, errors, rendering, routes
from reconciler.model.names import Key
from reconciler.model.rendering import Delivery
from reconciler.model.routes import ComponentUse, Destination, Route, Routes, RunsOn, Storage, Use, Wanting
from reconciler.model.values import Value
from reconciler.planner import delivery as planner_delivery
from reconciler.planner import stored as planner_stored
from reconciler.planner.changes import ChangeParts
from reconciler.planner.delivery import Past
from reconciler.planner.stored import TypeLookup
from reconciler.store.contract import Damaged, PlanningView
from reconciler.store.records import Changes, HeadStatusRow, RenderingRow, StoredDocument, Unrendered, VersionRow
from reconciler.version import __version__
from reconciler.worker import messages
from reconciler.worker.messages import Context, Emit, Rendered, RenderJob, RoutesFound, RoutesJob

STATUSES = 250  # in one part
MOST_BYTES = 64 * 1024 * 1024  # of all routes of a project; the service holds them in memory
MOST_VERSIONS = 1_000  # that are looked through for a destination that is gone
TOO_MANY = (
    "The Configurations of the project {project} route more than 64 MiB; deliver from fewer, or split the project."
)


def find_routes(job: RoutesJob, view: PlanningView, *, emit: Emit) -> RoutesFound:
    """Compile the routes of the project; corrected statuses go to `emit`.

    Raises StoreFault, and Refused when a project routes more than the service can hold.
    """
    project = job.context.project
    with view.snapshot() as revision:
        search = _RouteSearch(view, project)
        restated = 0
        for rows in messages.batches(search.compile(), STATUSES):
            emit(Changes(head_statuses=rows))
            restated += len(rows)
        former = search.former(job.left)
    found = Routes(
        project=project,
        revision=revision,
        routes=tuple(search.routes),
        destinations=tuple(sorted(search.destinations.values(), key=lambda one: one.name)),
        former=tuple(former),
        wanting=tuple(search.wanting),
    )
    encoded = msgspec.msgpack.encode(found)
    if len(encoded) > MOST_BYTES:
        raise errors.Refused(TOO_MANY.format(project=project))
    return RoutesFound(restated, encoded)


class _RouteSearch:
    """The search in one revision. It reads each component once, when a Configuration first names it."""

    def __init__(self, view: PlanningView, project: str) -> None:
        self._view = view
        self._project = project
        self._types = TypeLookup(view, project=project, coming={})
        self._parts: dict[Key, ComponentUse | None] = {}
        self._webhooks: dict[str, Destination | None] = {}
        self._storages: dict[str, Storage | None] = {}
        self._last_good: dict[str, tuple[int, Destination]] = {}  # with the version of the Destination
        self.wanting: list[Wanting] = []
        self.routes: list[Route] = []
        self.destinations: dict[str, Destination] = {}

    def compile(self) -> Iterator[HeadStatusRow]:
        """Collect the routes and their destinations. Yield corrected statuses."""
        past = self._view.past_routes(self._project)
        for key, stored in self._view.configurations(self._project):
            try:
                delivery = self._delivery(key, stored, past.get(key.name))
            except Damaged:  # of what nobody can read, nothing can be said
                continue
            if rendering.delivery(stored.status) != delivery:
                lines = rendering.incomplete(stored.status)
                status = rendering.with_standing(key.kind, stored.status, incomplete=lines, delivery=delivery)
                yield HeadStatusRow(self._project, *key, stored.incomplete, status)
        # Where a Destination is delivered to by its present version, that is the one.
        last_good = {name: destination for name, (_, destination) in self._last_good.items()}
        self.destinations = last_good | self.destinations

    def former(self, names: Sequence[str]) -> list[Destination]:
        """Return the last known settings of destinations without a route."""
        gone = sorted(set(names) - self.destinations.keys())
        return [destination for destination in map(self._former, gone) if destination is not None]

    def _delivery(self, key: Key, stored: StoredDocument, remembered: bytes | None) -> Delivery:
        """Return `status.delivery` of a Configuration. Collect its route and destinations. Raises Damaged."""
        document = planner_stored.document_in_clear(key, stored)
        spec, ready = document["spec"], not stored.incomplete
        compiled = routes.compile_routes(key.name, spec, ready=ready, known=self._part, make=self._make)
        if compiled.route is not None:
            self.routes.append(compiled.route)
            self.destinations |= {one.name: one for one in compiled.destinations}
            return planner_delivery.told(compiled.verdict)
        past = None if remembered is None else msgspec.json.decode(remembered, type=Past)
        if past is None or past.id != rendering.identity_of(document).id:
            return planner_delivery.told(compiled.verdict)
        wanted = routes.wants(key.name, spec, self._part)
        if wanted:
            self.wanting.append(Wanting(labels=routes.labels(spec), until=planner_delivery.wanted_until(past)))
        return planner_delivery.told(compiled.verdict, self._in_force(key, past, wanted))

    def _in_force(self, key: Key, past: Past, wanted: Sequence[Use]) -> Past:
        """Collect the usable parts of a last good route, without parts that are damaged or no longer fit their type."""
        version = next(self._view.versions(self._project, key, number=past.version), None)
        spec = None if version is None else _spec_of(key, version)
        for name, number in past.uses:
            now = next((use for use in wanted if use.name == name), None)
            destination = None if spec is None else self._good(key, past, name, now)
            if destination is None:
                past = planner_delivery.route_without(past, name)
            elif name not in self._last_good or self._last_good[name][0] <= number:
                self._last_good[name] = (number, structs.replace(destination, held=name in past.held))
        if past.uses:
            names = tuple(name for name, _ in past.uses)
            self.routes.append(Route(configuration=key.name, labels=routes.labels(spec), destinations=names))
        return past

    def _good(self, key: Key, past: Past, name: str, now: Use | None) -> Destination | None:
        """Return a webhook of a last good route: the version in force, with the TLS settings of a later one."""
        good = planner_delivery.given_at(self._view, self._project, key.name, past, name)
        component_type = self._types(routes.WEBHOOK_TYPE)
        if good is None or component_type is None:
            return None
        later: list[Value] = []
        if now is not None:
            later = now.given if now.key is None else components.given_parameters(self._spec(now.key))
        with_tls = routes.with_later_tls(good, later, component_type)
        return self._destination(name, with_tls) or self._destination(name, good)

    def _part(self, key: Key) -> ComponentUse | None:
        if key not in self._parts:
            spec = self._spec(key)
            self._parts[key] = None if spec is None else routes.component_use(spec)
            if key.kind == "Destination" and routes.is_webhook(self._parts[key]):
                self._webhooks[key.name] = self._destination(key.name, components.given_parameters(spec))
        return self._parts[key]

    def _make(self, use: Use) -> Destination | None:
        """Return a destination. For a resource, `_part` was called before."""
        return self._destination(use.name, use.given) if use.key is None else self._webhooks.get(use.key.name)

    def _destination(self, name: str, given: list[Value]) -> Destination | None:
        return routes.destination(name, given, self._types(routes.WEBHOOK_TYPE), storage_of=self._storage)

    def _storage(self, name: str) -> Storage | None:
        """Return a storage by its present version, or by the newest that fits: a mistake moves no queue."""
        if name not in self._storages:
            key = Key("Extension", name)
            spec = self._spec(key)
            found = self._fitting_storage(name, spec)
            if found is None and spec is not None:
                older = (_spec_of(key, one) for one in islice(self._view.versions(self._project, key), MOST_VERSIONS))
                found = next(filter(None, (self._fitting_storage(name, one) for one in older)), None)
            self._storages[name] = found
        return self._storages[name]

    def _fitting_storage(self, name: str, spec: Value) -> Storage | None:
        if components.type_name_of(spec) != routes.STORAGE_TYPE.name:
            return None
        return routes.queue_storage(name, components.given_parameters(spec), self._types(routes.STORAGE_TYPE))

    def _spec(self, key: Key) -> Value:
        """Return the spec of a stored or built-in resource, secrets in clear; None if it is damaged."""
        stored = self._view.documents(self._project, [key]).get(key)
        return builtins.spec(key) if stored is None else _spec_of(key, stored)

    def _former(self, name: str) -> Destination | None:
        """Return a destination by its newest version that was a webhook, even if it is deleted."""
        configuration, colon, given_id = name.partition(":")
        key = Key("Configuration", configuration) if colon else Key("Destination", name)
        for version in islice(self._view.versions(self._project, key), MOST_VERSIONS):
            spec = _spec_of(key, version)
            component = routes.in_place(spec, given_id) if colon else spec
            if routes.is_webhook(routes.component_use(component)):
                return self._destination(name, components.given_parameters(component))
        return None


def _spec_of(key: Key, held: StoredDocument | VersionRow) -> Value:
    with suppress(Damaged):
        return planner_stored.document_in_clear(key, held)["spec"]
    return None


RENDERING_SECONDS = (
    5.0  # of one job, and those of one Configuration: then what is rendered is stored, and other projects go on
)


def render_project(job: RenderJob, view: PlanningView, *, emit: Emit) -> Rendered:
    """Render some of the Configurations that are due. Raises StoreFault."""
    until = monotonic() + RENDERING_SECONDS
    parts = ChangeParts()
    with view.snapshot():
        search = _RenderingSearch(view, job.context)
        due = iter(view.unrendered(job.context.project, search.program))

        def weights() -> Iterator[int]:
            for one in due:
                for row in search.rows(one):
                    parts.rows.renderings.append(row)
                    yield len(row.body or b"") + len(row.status)
                if monotonic() > until:
                    return

        for part in parts.parts(weights()):
            emit(part)
    return Rendered(is_all=next(due, None) is None)


class _RenderingSearch:
    """The resources of a project in one revision, each read once."""

    def __init__(self, view: PlanningView, context: Context) -> None:
        self._view = view
        self._project = context.project
        self.program = " ".join((__version__, *context.secrets.patterns))  # what rendering depends on beside resources
        self._stored = TypeLookup(view, project=context.project, coming={})
        self._specs: dict[Key, Value] = {}
        self._secrets = context.secrets

    @cached_property
    def _renderer(self) -> Renderer:
        return Renderer(self._spec, secrets=self._secrets)

    def rows(self, one: Unrendered) -> Iterator[RenderingRow]:
        """Yield the row of a Configuration; none if it cannot be read: then the rendering in force stays."""
        key = Key("Configuration", one.configuration)
        held = self._view.documents(self._project, [key])[key]
        try:
            said, made = (one.said, None) if one.is_said else self._rendered(key, held, one.said)
        except Damaged:
            return
        text = None if made is None else made.text
        status = rendering.with_rendering(held.status, said)
        made_of = (self._project, key.name, self.program, one.inputs)
        yield RenderingRow(*made_of, said, text, one.said, held.status, status)

    def _rendered(self, key: Key, held: StoredDocument, said: bytes | None) -> tuple[bytes | None, Rendering | None]:
        """Return its `status.rendering` and a new rendering. Raises Damaged."""
        spec = planner_stored.shown_spec(key, held)
        has_raw = isinstance(spec, dict) and spec.get("raw") is not None
        verdict = routes.route_verdict(key.name, spec, ready=True, known=self._part)
        if has_raw or verdict.runs_on is not RunsOn.COLLECTORS:
            return None, None
        return render_status(self._renderer, spec, said=said, is_incomplete=bool(held.incomplete))

    def _part(self, key: Key) -> ComponentUse | None:
        spec = self._spec(key)
        return None if spec is None else routes.component_use(spec)

    def _spec(self, key: Key) -> Value:
        """Return the masked spec of a resource; None if it is missing or damaged."""
        if key not in self._specs:
            self._specs[key] = None
            with suppress(Damaged):
                self._specs[key] = self._stored.present(key)
        return self._specs[key]
