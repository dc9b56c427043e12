"""Rendering the Configurations of a project for Collectors, as far as what they are made of changed."""

from collections.abc import Iterator
from contextlib import suppress
from time import monotonic

from reconciler.collectors import standing
from reconciler.collectors.rendering import Renderer, Rendering
from reconciler.model import rendering, routes
from reconciler.model.names import Key
from reconciler.model.routes import ComponentUse, RunsOn
from reconciler.model.values import Value
from reconciler.planner import stored as planner_stored
from reconciler.planner.changes import ChangeParts
from reconciler.planner.stored import TypeLookup
from reconciler.store.contract import Damaged, PlanningView
from reconciler.store.records import RenderingRow, StoredDocument, Unrendered
from reconciler.version import __version__
from reconciler.worker.messages import Context, Emit, Rendered, RenderJob

SECONDS = 5.0  # of one job, and those of one Configuration: then what is rendered is stored, and other projects go on


def render_project(job: RenderJob, view: PlanningView, *, emit: Emit) -> Rendered:
    """Render some of the Configurations that are due. Raises StoreFault."""
    until = monotonic() + SECONDS
    parts = ChangeParts()
    with view.snapshot():
        due = iter(view.unrendered(job.context.project, __version__))
        search = _Search(view, job.context)

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


class _Search:
    """The resources of a project in one revision, each read once."""

    def __init__(self, view: PlanningView, context: Context) -> None:
        self._view = view
        self._project = context.project
        self._stored = TypeLookup(view, project=context.project, coming={})
        self._specs: dict[Key, Value] = {}
        self._renderer = Renderer(self._spec, secrets=context.secrets)

    def rows(self, one: Unrendered) -> Iterator[RenderingRow]:
        """Yield the row of a Configuration; none for one that cannot be read: what is in force stays so."""
        key = Key("Configuration", one.configuration)
        document = self._view.documents(self._project, [key])[key]
        try:
            said, made = (one.said, None) if one.is_said else self._rendered(key, document, one.said)
        except Damaged:
            return
        text = None if made is None else made.text
        status = rendering.with_rendering(document.status, said)
        yield RenderingRow(self._project, key.name, __version__, one.inputs, said, text, document.status, status)

    def _rendered(
        self, key: Key, document: StoredDocument, said: bytes | None
    ) -> tuple[bytes | None, Rendering | None]:
        """Return its `status.rendering` and a new rendering. Raises Damaged."""
        spec = planner_stored.shown_spec(key, document)
        before = standing.decoded(said)
        if not self._runs_on_collectors(key.name, spec):
            return None, None
        if document.incomplete:  # as its status says; it is not rolled out
            return (standing.RenderingStatus(before.hash).encoded() if before.hash else None), None
        status, made = standing.render(self._renderer, spec, before=before)
        return status.encoded(), made

    def _runs_on_collectors(self, name: str, spec: Value) -> bool:
        has_raw = isinstance(spec, dict) and spec.get("raw") is not None
        verdict = routes.route_verdict(name, spec, ready=True, known=self._part)
        return not has_raw and verdict.runs_on is RunsOn.COLLECTORS

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
