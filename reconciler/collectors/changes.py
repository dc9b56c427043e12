"""Changes in what Collectors run: Configurations rendered before and after a change, within limits. Pure."""

import time
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from reconciler.collectors.components import Origin, Unrenderable
from reconciler.collectors.rendering import Lookup, Renderer, masking
from reconciler.model import routes
from reconciler.model.names import Key
from reconciler.model.plan import PlanPlace, PlanRendering
from reconciler.model.routes import RunsOn
from reconciler.model.secret_references import NO_SECRETS, AvailableSecrets
from reconciler.model.values import Pointer, Value

SECONDS: Final = 10.0  # for all Configurations of one change
MOST: Final = 100  # of them
MOST_CHARACTERS: Final = 2_000_000  # of both sides of all of them


@dataclass(frozen=True, slots=True)
class Side:
    """The YAML of a Configuration for Collectors. `text` is None if the Configuration does not exist, runs in the
    service, or cannot be rendered; then `fault` says why. `raw` is True if the text is `spec.raw`. `origins` are the
    places of the components by their ids.
    """

    text: str | None = None
    raw: bool = False
    fault: Unrenderable | None = None
    origins: Mapping[str, Origin] = field(default_factory=dict)

    @property
    def reason(self) -> str:
        """Return why it cannot be rendered, or ''."""
        return "" if self.fault is None else self.fault.reason


@dataclass(frozen=True, slots=True)
class Difference:
    """A Configuration whose sides differ."""

    key: Key
    old: Side
    new: Side

    def shown(self, place: Callable[[Key, Pointer], PlanPlace | None]) -> PlanRendering:
        """Return it for a plan. `place` finds the file and line of a part of a resource."""

        def placed(origin: Origin) -> PlanPlace | None:
            return place(origin.key or self.key, origin.pointer)

        violations: tuple[str, ...] = ()
        if self.new.fault is not None:
            wrong = placed(self.new.fault.origin or Origin())
            violations = (f"{wrong}: {self.new.reason}" if wrong else self.new.reason,)
        ordered = sorted(
            self.new.origins.items(), key=lambda item: item[1].key or self.key
        )  # components of one file are adjacent
        places = ((component, placed(origin)) for component, origin in ordered)
        return PlanRendering(
            name=self.key.name,
            old=self.old.text,
            new=self.new.text,
            at=placed(Origin()),
            violations=violations,
            raw=all(side.raw for side in (self.old, self.new) if side.text is not None),
            components={component: at for component, at in places if at is not None},
        )


@dataclass(frozen=True, slots=True)
class Differences:
    """The Configurations that differ, sorted, and the number that was not compared because a limit was reached."""

    found: tuple[Difference, ...]
    left_out: int


class _Unknown(Exception):
    """The result is unknown: the Configuration names a resource that only the service may have."""


def compare(
    configurations: Iterable[Key],
    before: Lookup,
    after: Lookup,
    *,
    unknown: Container[Key] = (),
    secrets: AvailableSecrets = NO_SECRETS,
    clock: Callable[[], float] = time.monotonic,
) -> Differences:
    """Render Configurations from both sides of a change. One that names an `unknown` resource is skipped. Each side is
    masked by its own types, because a changed type may make other values secret.
    """
    deadline, room = clock() + SECONDS, MOST_CHARACTERS
    masked = [masking(_known(lookup, unknown)) for lookup in (before, after)]
    sides = [
        _Rendered(lookup, one, Renderer(one, secrets=secrets))
        for lookup, one in zip((before, after), masked, strict=True)
    ]
    found: list[Difference] = []
    left_out = 0
    for number, key in enumerate(sorted(configurations)):
        if number >= MOST or clock() > deadline:
            left_out += 1
            continue
        try:
            old, new = (side.of(key) for side in sides)
        except _Unknown:
            continue
        size = len(old.text or "") + len(new.text or "")
        if (old.text, old.reason) == (new.text, new.reason):
            continue
        if size > room:
            left_out += 1
            continue
        room -= size
        found.append(Difference(key, old, new))
    return Differences(tuple(found), left_out)


def _known(lookup: Lookup, unknown: Container[Key]) -> Lookup:
    def find(key: Key) -> Value:
        spec = lookup(key)
        if spec is None and key in unknown:
            raise _Unknown
        return spec

    return find


@dataclass(frozen=True, slots=True)
class _Rendered:
    """One side of a change."""

    lookup: Lookup
    masked: Lookup
    renderer: Renderer

    def of(self, key: Key) -> Side:
        spec = self.lookup(key)
        if not isinstance(spec, dict) or not _is_for_collectors(key.name, spec, self.lookup):
            return Side()
        raw = spec.get("raw")
        if isinstance(raw, str):
            return Side(raw, raw=True)
        try:
            rendered = self.renderer.render(self.masked(key))
        except Unrenderable as fault:
            return Side(fault=fault)
        return Side(rendered.text.decode(), origins=rendered.origins)


def _is_for_collectors(name: str, spec: dict[str, Value], lookup: Lookup) -> bool:
    def known(key: Key) -> routes.ComponentUse | None:
        found = lookup(key)
        return None if found is None else routes.component_use(found)

    return routes.route_verdict(name, spec, ready=True, known=known).runs_on is RunsOn.COLLECTORS
