"""Whether a Configuration delivers, why not, and the routes of those that do. Pure.

Belongs here: one answer, which both `status.delivery` and the routes are made from. Does not: finding what the
documents name (`deciding.delivering`, `reading.routings`), what a component's parameters say (`parameters`).

What is disabled, a component or the resource that it names, counts for nothing, with all that stands in it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from reconciler.documents.values import Pointer, Value, pointer_text
from reconciler.resources import components, names
from reconciler.resources.keys import Key
from reconciler.routing import parts
from reconciler.routing.models import Destination, Route
from reconciler.routing.parts import OTLP, WEBHOOK, Part, Parts

INCOMPLETE = "It is incomplete; complete what `status.incomplete` lists."
RAW = "It holds `raw`, which the service does not run; use sources and destinations."
NO_SOURCE = "It has no enabled source of type `otlp`; add one."
NO_DESTINATION = "It has no enabled destination of type `webhook`; add one."
NEITHER = "It has no enabled source of type `otlp` and no enabled destination of type `webhook`; add them."
ROUTES = "{at} has `routes`, which the service does not follow yet; remove them or disable the component."
PROCESSOR = "{at} has an enabled processor, which the service cannot run yet; remove or disable it."
IS_PROCESSOR = "{at} is an enabled processor, which the service cannot run yet; remove or disable it."
UNREADABLE = "{at} names a {kind} that cannot be read; apply that anew."
NO_ID = "{at} is a webhook in place without an `id`; give it one, since its name is made of it."
BAD_ID = "{at} is a webhook in place, and its `id` " + names.NAME_RULE + "; choose another."
SAME_ID = "{at} is a webhook in place with the `id` of another one; give it an `id` of its own."
UNFIT = "{at} is a webhook with parameters that do not fit their type; correct them."


class Use(NamedTuple):
    """A webhook of a Configuration: its name as a destination, and the component where it stands.

    `key` is the resource that it names, None for one in place, whose parameters are `given`.
    """

    name: str
    at: Pointer
    key: Key | None
    given: list[Value]


class Verdict(NamedTuple):
    """`reason` is one sentence that says why it does not deliver, '' when it does; only then there are `webhooks`."""

    reason: str = ""
    webhooks: tuple[Use, ...] = ()


class Compiled(NamedTuple):
    """A Configuration: its route and the destinations of that; no route, and the reason, when it does not deliver."""

    reason: str = ""
    route: Route | None = None
    destinations: tuple[Destination, ...] = ()


Make: TypeAlias = Callable[[Use], Destination | None]
"""Makes the destination of a webhook; None when its parameters do not fit their type."""


class _Refused(Exception):
    """It does not deliver."""

    def __init__(self, reason: str, *, at: Pointer, **more: str) -> None:
        super().__init__(reason.format(at=pointer_text(at), **more))


def verdict(name: str, spec: Value, *, ready: bool, known: Parts) -> Verdict:
    """Whether the Configuration of this name delivers, as far as its parameters are not concerned.

    `ready` is that of its status; `known` tells of the components that it names, and of what those name.
    """
    if not ready:
        return Verdict(INCOMPLETE)
    if isinstance(spec, Mapping) and spec.get("raw") is not None:
        return Verdict(RAW)
    try:
        return _joined(name, [*_enabled(spec, known)], known)
    except _Refused as refused:
        return Verdict(str(refused))


def compiled(name: str, spec: Value, *, ready: bool, known: Parts, make: Make) -> Compiled:
    """The route of the Configuration of this name and its destinations, or why there is none."""
    found = verdict(name, spec, ready=ready, known=known)
    if found.reason:
        return Compiled(found.reason)
    destinations = []
    for use in found.webhooks:
        destination = make(use)
        if destination is None:
            return Compiled(UNFIT.format(at=pointer_text(use.at)))
        destinations.append(destination)
    named = tuple(dict.fromkeys(one.name for one in destinations))
    return Compiled(
        route=Route(configuration=name, labels=labels(spec), destinations=named), destinations=(*destinations,)
    )


def wants(name: str, spec: Value, known: Parts) -> tuple[Use, ...]:
    """The webhooks to which the Configuration of this name wants records to go, whether it can deliver or not; none
    when it has `raw`, or no enabled source of type `otlp`.

    Of a component that cannot be read, nobody can say that it was taken out. The name of a webhook in place without a
    fitting `id` ends with the colon.
    """
    has_source, found = False, list[Use]()
    if isinstance(spec, Mapping) and spec.get("raw") is not None:
        return ()
    for kind, at, component in _components(spec):
        target = parts.name(component)
        part = parts.part(component) if target is None else known(Key(kind, target))
        if parts.is_disabled(component) or (part is not None and part.disabled):
            continue
        has_source = has_source or (kind == "Source" and (part is None or part.type == OTLP))
        if kind == "Destination" and (part is None or parts.is_webhook(part)):
            given_id = component.get("id")
            fits = isinstance(given_id, str) and names.name(given_id) is None
            called = target or f"{name}:{given_id if fits else ''}"
            key = None if target is None else Key(kind, target)
            given = component.get("parameters")
            found.append(Use(called, at, key, given if isinstance(given, list) else []))
    return tuple(found) if has_source else ()


def named(spec: Value) -> Iterator[Key]:
    """The components that a Configuration names, whose parts `verdict` asks for, besides each part's `uses`."""
    for kind, _, component in _components(spec):
        target = parts.name(component)
        if target is not None:
            yield Key(kind, target)
        for processor in parts.part(component).uses:
            yield Key("Processor", processor)


class _Enabled(NamedTuple):
    """A component that is not disabled, and what it is: for one that names a resource, that resource."""

    kind: str
    at: Pointer
    component: dict[str, Value]
    part: Part


def _enabled(spec: Value, known: Parts) -> Iterator[_Enabled]:
    """The components that count. Raises _Refused when one cannot be read."""
    for kind, at, component in _components(spec):
        if parts.is_disabled(component):
            continue
        target = parts.name(component)
        part = parts.part(component) if target is None else known(Key(kind, target))
        if part is None:
            raise _Refused(UNREADABLE, at=at, kind=kind)
        if not part.disabled:
            yield _Enabled(kind, at, component, part)


def _joined(name: str, enabled: list[_Enabled], known: Parts) -> Verdict:
    has_source = any(one.kind == "Source" and one.part.type == OTLP for one in enabled)
    webhooks = [one for one in enabled if one.kind == "Destination" and one.part.type == WEBHOOK]
    if not has_source and not webhooks:
        return Verdict(NEITHER)  # first: it is not meant to deliver, and to mend something else would not help it
    for one in enabled:
        if one.component.get("routes"):
            raise _Refused(ROUTES, at=one.at)
    for one in enabled:
        _refuse_processors(one, known)
    if not has_source:
        return Verdict(NO_SOURCE)
    if not webhooks:
        return Verdict(NO_DESTINATION)
    return Verdict(webhooks=tuple(_uses(name, webhooks)))


def _refuse_processors(one: _Enabled, known: Parts) -> None:
    in_place = parts.part(one.component)
    if one.kind == "Processor":
        raise _Refused(IS_PROCESSOR, at=one.at)
    if one.part.processes or in_place.processes:
        raise _Refused(PROCESSOR, at=one.at)
    for name in (*one.part.uses, *in_place.uses):
        processor = known(Key("Processor", name))
        if processor is None:
            raise _Refused(UNREADABLE, at=one.at, kind="Processor")
        if not processor.disabled:
            raise _Refused(PROCESSOR, at=one.at)


def _uses(name: str, webhooks: list[_Enabled]) -> Iterator[Use]:
    """Each resource once; those in place need names of their own."""
    seen: set[str] = set()
    for one in webhooks:
        target = parts.name(one.component)
        called = f"{name}:{_id(one)}" if target is None else target
        if called in seen and target is None:
            raise _Refused(SAME_ID, at=one.at)
        if called not in seen:
            given = one.component.get("parameters")
            key = None if target is None else Key(one.kind, target)
            yield Use(called, one.at, key, given if isinstance(given, list) else [])
        seen.add(called)


def _id(one: _Enabled) -> str:
    given = one.component.get("id")
    if not isinstance(given, str):
        raise _Refused(NO_ID, at=one.at)
    if names.name(given) is not None:
        raise _Refused(BAD_ID, at=one.at)
    return given


def _components(spec: Value) -> Iterator[tuple[str, Pointer, dict[str, Value]]]:
    """(kind, pointer, component) of all lists."""
    held = spec if isinstance(spec, Mapping) else {}
    for key, kind in components.LISTS.items():
        listed = held.get(key)
        for index, component in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(component, dict):
                yield kind, ("spec", key, index), component


def labels(spec: Value) -> tuple[tuple[str, str], ...]:
    """What a record's resource must have."""
    selector = spec.get("selector") if isinstance(spec, Mapping) else None
    given = selector.get("matchLabels") if isinstance(selector, Mapping) else None
    return tuple(sorted((key, str(value)) for key, value in given.items())) if isinstance(given, Mapping) else ()
