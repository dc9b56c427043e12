"""The YAML that a Collector runs, made of a Configuration and the components that it names, and `status.rendering`,
which says what is in force of it. Pure.

For each source, destination and signal that both handle there is a pipeline. Its processors are, in this order: those
of the source's type, those under the source, those of the Configuration, those under the destination, those of the
destination's type. Disabled components are left out.

The same input gives the same bytes. `${env:NAME}` and the like are not changed: the Collector resolves them.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Final, NamedTuple

import msgspec

from reconciler.collectors import templates
from reconciler.collectors.components import PARTS, SIGNALS, CollectorType, Entry, Origin, Rendered, Unrenderable
from reconciler.collectors.templates import TemplateFault
from reconciler.model import component_types, components, routes, values, yaml_documents
from reconciler.model.component_types import ComponentType
from reconciler.model.components import MASK
from reconciler.model.names import Key
from reconciler.model.routes import RunsOn
from reconciler.model.secret_references import NO_SECRETS, AvailableSecrets
from reconciler.model.values import Value

SECONDS: Final = 2.0  # for one Configuration, of processor time
MOST_PIPELINES: Final = 2_000
MOST_CHARACTERS: Final = 4_000_000  # of the result
TOO_LONG: Final = f"it takes more than {SECONDS:g} s; make its types simpler, or split the Configuration"
NOTHING: Final[dict[str, Value]] = {
    "receivers": {"nop": {}},
    "exporters": {"nop": {}},
    "service": {"pipelines": {"logs": {"receivers": ["nop"], "exporters": ["nop"]}}},
}
"""The result for a Configuration without a pipeline: a Collector does not start without one."""

Lookup = Callable[[Key], Value]
"""Returns the masked spec of a resource; None if it is missing or cannot be read."""


def masking(lookup: Lookup) -> Lookup:
    """Return a lookup that masks the secrets in the results of `lookup`, by the types that `lookup` finds."""

    @cache
    def type_of(key: Key) -> ComponentType | None:
        spec = lookup(key)
        return None if spec is None else component_types.compiled_spec(key.name, spec)

    @cache
    def masked(key: Key) -> Value:
        spec = lookup(key)
        types = components.component_types_of(components.find_components(key.kind, spec), type_of)
        secrets = components.find_parameters(spec, types).secrets
        return values.replaced({"spec": spec}, {("spec", *pointer): MASK for pointer, _ in secrets})["spec"]

    return masked


@dataclass(frozen=True, slots=True)
class Rendering:
    """The result: text in UTF-8, and its hex SHA-256. `origins` are the places of the components by their ids."""

    text: bytes
    hash: str
    origins: Mapping[str, Origin] = field(default_factory=dict)


class Renderer:
    """Renders Configurations of one project in one state. It caches parsed types. `secrets` has the names of variables
    of the service, which Collectors must not use.
    """

    def __init__(
        self, lookup: Lookup, clock: Callable[[], float] = time.thread_time, secrets: AvailableSecrets = NO_SECRETS
    ) -> None:
        self._lookup = lookup
        self._secrets = secrets
        self._clock = clock
        self._types: dict[Key, CollectorType] = {}

    def render(self, spec: Value) -> Rendering:
        """Render a Configuration, given its masked spec. Raises Unrenderable."""
        parts = _Parts(self._lookup, self._type, self._clock, self._clock() + SECONDS)
        whole = parts.joined(spec)
        with parts.limited():
            text = yaml_documents.to_yaml([whole])
        if len(text) > MOST_CHARACTERS:
            raise Unrenderable(f"it has more than {MOST_CHARACTERS:,} characters; split the Configuration")
        data = text.encode()
        return Rendering(data, hashlib.sha256(data).hexdigest(), parts.origins)

    def _type(self, key: Key) -> CollectorType:
        if key not in self._types:
            spec = self._lookup(key)
            if spec is None:
                raise Unrenderable(f"the type `{key.name}` is missing or cannot be read", type_name=key.name)
            self._types[key] = CollectorType(key.name, spec, self._secrets)
        return self._types[key]


class _End(NamedTuple):
    """A source or a destination: its name in pipelines, its entries, and those of the processors under it."""

    name: str
    rendered: Rendered
    under: list[Rendered]

    def entries(self, signal: str, part: str) -> list[Entry]:
        return list(self.rendered.get(signal, {}).get(part, ()))

    def processors_under(self, signal: str) -> list[Entry]:
        return [entry for one in self.under for entry in one.get(signal, {}).get("processors", ())]


@dataclass(slots=True)
class _Parts:
    """The parts of one Configuration, rendered within its time."""

    lookup: Lookup
    type_of: Callable[[Key], CollectorType]
    clock: Callable[[], float]
    deadline: float
    origins: dict[str, Origin] = field(default_factory=dict)

    def joined(self, spec: Value) -> dict[str, Value]:
        """Return the whole configuration of a Collector."""
        held = spec if isinstance(spec, Mapping) else {}
        for each in self._listed("Connector", held):
            told = f"{each.called} cannot be rendered: connectors are for other programs; disable it"
            raise Unrenderable(told, origin=each.at)
        sources = self._ends("Source", held)
        destinations = self._ends("Destination", held)
        between = [self._rendered(each, f"processor{each.position}") for each in self._listed("Processor", held)]
        further = [
            self._rendered(each, each.name or f"extension{each.position}") for each in self._listed("Extension", held)
        ]
        pipelines = _Pipelines()
        with self.limited():
            for source in sorted(sources):
                for destination in sorted(destinations):
                    for signal in SIGNALS:
                        pipelines.join(signal, source, between, destination)
            for one in further:
                pipelines.extend(entry for signal in SIGNALS for entry in one.get(signal, {}).get("extensions", ()))
            return pipelines.whole() if pipelines.pipelines else NOTHING

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Limit the time of a block without templates. Raises Unrenderable if no time is left."""
        try:
            with templates.time_limit(self.seconds_left()):
                yield
        except TemplateFault:
            raise Unrenderable(TOO_LONG) from None

    def seconds_left(self) -> float:
        """Return the remaining time. Raises Unrenderable if there is none."""
        left = self.deadline - self.clock()
        if left <= 0:
            raise Unrenderable(TOO_LONG)
        return left

    def _listed(self, kind: str, spec: Mapping[str, Value]) -> Iterator["_Enabled"]:
        """Yield the enabled components of this kind in the Configuration."""
        name = f"{kind.lower()}s"
        return self._enabled(kind, Origin().below("spec", name).listed(spec.get(name)))

    def _ends(self, kind: str, spec: Mapping[str, Value]) -> list[_End]:
        """Render the sources or the destinations. A destination may occur twice, so its name has its index."""
        found: dict[str, _End] = {}
        for each in self._listed(kind, spec):
            self.seconds_left()
            name = each.name or f"{kind.lower()}{each.position}"
            if kind == "Destination":
                name = f"{name}-{each.position}"
            if name in found:
                raise Unrenderable(f"{each.called} is named twice; name it once", origin=each.at)
            entries = [
                one for at, holder in each.holders for one in at.below("processors").listed(holder.get("processors"))
            ]
            under = [
                self._rendered(one, f"{name}__processor{one.position}") for one in self._enabled("Processor", entries)
            ]
            if each.component.get("routes"):
                told = f"{each.called} has `routes`, which are not rendered; remove them"
                raise Unrenderable(told, origin=each.at)
            found[name] = _End(name, self._rendered(each, name), under)
        return [*found.values()]

    def _enabled(self, kind: str, listed: list[tuple[Origin, Value]]) -> Iterator["_Enabled"]:
        """Yield the enabled components of a list, with the resources that they name."""
        for index, (at, component) in enumerate(listed):
            if not isinstance(component, dict) or routes.is_disabled(component):
                continue
            name = routes.component_name(component)
            resource = component if name is None else self.lookup(Key(kind, name))
            if not isinstance(resource, dict):
                raise Unrenderable(f"{kind} `{name}` is missing or cannot be read", origin=at)
            if not routes.is_disabled(resource):
                yield _Enabled(kind, index, name or "", component, resource, at)

    def _rendered(self, each: "_Enabled", name: str) -> Rendered:
        key = Key(f"{each.kind}Type", components.type_name_of(each.resource) or "")
        if RunsOn.COLLECTORS not in routes.type_runs_on(key):
            return {}
        try:
            rendered = self.type_of(key).render(name, components.given_parameters(each.resource), self.seconds_left)
        except Unrenderable as fault:
            raise Unrenderable(
                f"{each.called}: {fault.reason}",
                parameter=fault.parameter,
                type_name=fault.type_name,
                template=fault.template,
                line=fault.line,
                origin=each.origin,
            ) from None
        found = [one.id for parts in rendered.values() for entries in parts.values() for one in entries]
        self.origins.update(dict.fromkeys(found, each.origin))
        return rendered


class _Enabled(NamedTuple):
    """An enabled component in a list. `resource` is the named resource, or the entry itself."""

    kind: str
    position: int
    name: str  # of the resource; '' for an inline component
    component: dict[str, Value]
    resource: dict[str, Value]
    at: Origin  # of the entry

    @property
    def origin(self) -> Origin:
        """Return the place of the rendered component."""
        return Origin(Key(self.kind, self.name)) if self.name else self.at

    @property
    def called(self) -> str:
        return f"{self.kind} `{self.name}`" if self.name else f"{self.kind} {self.position} (in place)"

    @property
    def holders(self) -> tuple[tuple[Origin, dict[str, Value]], ...]:
        """Return the holders of processors with their places: the resource, and the entry that names it."""
        entry = self.at, self.component
        return ((self.origin.below("spec"), self.resource), entry) if self.name else (entry,)


class _Pipelines:
    """Pipelines and their components, collected in order."""

    def __init__(self) -> None:
        self.pipelines: dict[str, Value] = {}
        self._components: dict[str, dict[str, Value]] = {part: {} for part in PARTS}
        self._extensions: dict[str, None] = {}

    def join(self, signal: str, source: _End, between: list[Rendered], destination: _End) -> None:
        """Add the pipeline of a source and a destination, if both handle the signal."""
        receivers, exporters = source.entries(signal, "receivers"), destination.entries(signal, "exporters")
        if not receivers or not exporters:
            return
        if len(self.pipelines) == MOST_PIPELINES:
            raise Unrenderable(f"it has more than {MOST_PIPELINES:,} pipelines; split the Configuration")
        processors = [
            *source.entries(signal, "processors"),
            *source.processors_under(signal),
            *(entry for one in between for entry in one.get(signal, {}).get("processors", ())),
            *destination.processors_under(signal),
            *destination.entries(signal, "processors"),
        ]
        pipeline: dict[str, Value] = {"receivers": self._add("receivers", receivers)}
        if processors:
            pipeline["processors"] = self._add("processors", processors)
        pipeline["exporters"] = self._add("exporters", exporters)
        self.pipelines[f"{signal}/{source.name}__{destination.name}"] = pipeline
        self.extend([*source.entries(signal, "extensions"), *destination.entries(signal, "extensions")])

    def extend(self, entries: "Iterator[Entry] | list[Entry]") -> None:
        """Add extensions, each once."""
        self._extensions |= {str(name): None for name in self._add("extensions", [*entries])}

    def whole(self) -> dict[str, Value]:
        """Return the configuration of a Collector."""
        service: dict[str, Value] = {"extensions": [*self._extensions]} if self._extensions else {}
        service["pipelines"] = dict(self.pipelines)
        whole: dict[str, Value] = {part: dict(held) for part, held in self._components.items() if held}
        return {**whole, "service": service}

    def _add(self, part: str, entries: list[Entry]) -> list[Value]:
        held = self._components[part]
        for entry in entries:
            if entry.id in held and held[entry.id] != entry.config:
                raise Unrenderable(f"two components have the id `{entry.id}` and differ")
            held[entry.id] = entry.config
        return [entry.id for entry in entries]


class RenderingFault(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why the present version cannot be rendered: a sentence, and the parameter, the type, and the line of a template,
    if known. `template` is its place in the type, such as `logs.receivers`.
    """

    reason: str
    parameter: str = ""
    type: str = ""
    template: str = ""
    line: int = 0


class RenderingStatus(msgspec.Struct, frozen=True, omit_defaults=True):
    """`hash` is that of the rendering in force, '' if there is none: of the present version, or of the last that could
    be rendered.
    """

    hash: str = ""
    fault: RenderingFault | None = None

    def encoded(self) -> bytes:
        """Return it as canonical JSON."""
        return values.canonical_json(msgspec.to_builtins(self))


_decoder = msgspec.json.Decoder(RenderingStatus)


def render_status(
    renderer: Renderer, spec: Value, *, said: bytes | None, is_incomplete: bool
) -> tuple[bytes | None, Rendering | None]:
    """Return `status.rendering` of a Configuration as JSON, given its masked spec, and the new rendering if there is
    one. Otherwise the rendering of its last status, `said`, stays in force: also while it is incomplete.
    """
    before = RenderingStatus() if said is None else _decoder.decode(said)
    if is_incomplete:
        return (RenderingStatus(before.hash).encoded() if before.hash else None), None
    try:
        made = renderer.render(spec)
    except Unrenderable as fault:
        told = RenderingFault(fault.reason, fault.parameter, fault.type_name, fault.template, fault.line)
        return RenderingStatus(before.hash, fault=told).encoded(), None
    return RenderingStatus(made.hash).encoded(), made
