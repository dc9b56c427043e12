"""Rendering the Configurations of a project for Collectors, as far as what they are made of changed."""

from collections.abc import Iterator
from contextlib import suppress
from time import monotonic

from reconciler.collectors import rendering_status
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
        search = _Search(view, job.context)
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


class _Search:
    """The resources of a project in one revision, each read once."""

    def __init__(self, view: PlanningView, context: Context) -> None:
        self._view = view
        self._project = context.project
        self.program = " ".join((__version__, *context.secrets.patterns))  # what rendering depends on beside resources
        self._stored = TypeLookup(view, project=context.project, coming={})
        self._specs: dict[Key, Value] = {}
        self._renderer = Renderer(self._spec, secrets=context.secrets)

    def rows(self, one: Unrendered) -> Iterator[RenderingRow]:
        """Yield the row of a Configuration; none for one that cannot be read: what is in force stays so."""
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
        return rendering_status.render(self._renderer, spec, said=said, is_incomplete=bool(held.incomplete))

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
