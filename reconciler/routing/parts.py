"""What of a component decides whether a Configuration that uses it delivers.

Belongs here: reading that off a component, a resource of its own or one in place. Does not: the answer (`compiling`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from reconciler.documents.values import Value
from reconciler.resources import components
from reconciler.resources.keys import Key

OTLP = "otlp"  # the type of the sources that delivery takes records from
WEBHOOK = "webhook"  # the type of the destinations that it sends them to


@dataclass(frozen=True, slots=True)
class Part:
    """A component. `processes`: an enabled processor stands in it, in place; `uses` are the Processors that it names
    and does not disable, each once.
    """

    type: str = ""
    disabled: bool = False
    processes: bool = False
    uses: tuple[str, ...] = ()


Parts: TypeAlias = Callable[[Key], Part | None]
"""What is known of a component that is a resource; None when it cannot be read."""


def part(spec: Value) -> Part:
    """What matters of a component: the spec of a resource, or what stands in a list of a Configuration."""
    if not isinstance(spec, Mapping):
        return Part()
    enabled = [each for each in entries(spec.get("processors")) if not is_disabled(each)]
    names = (name(each) for each in enabled)
    return Part(
        type=components.type_of(spec) or "",
        disabled=is_disabled(spec),
        processes=any(name(each) is None for each in enabled),
        uses=tuple(sorted({each for each in names if each is not None})),
    )


def is_webhook(part: Part | None) -> bool:
    """Whether a component is, as a destination, one that the service delivers to."""
    return part is not None and part.type == WEBHOOK


def entries(listed: Value) -> list[dict[str, Value]]:
    """The components of a list."""
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def given(component: Value) -> list[Value]:
    """The parameters of a component."""
    listed = component.get("parameters") if isinstance(component, Mapping) else None
    return listed if isinstance(listed, list) else []


def in_place(spec: Value, given_id: str) -> Value:
    """The destination in place of a Configuration that has this id."""
    listed = entries(spec.get("destinations")) if isinstance(spec, Mapping) else []
    return next((each for each in listed if name(each) is None and each.get("id") == given_id), None)


def is_disabled(component: Mapping[str, Value]) -> bool:
    """Whether it is left out."""
    return component.get("disabled") is True


def name(component: Mapping[str, Value]) -> str | None:
    """The resource that it names, without a version; None for a component in place."""
    named = component.get("name")
    return components.unversioned(named) if isinstance(named, str) else None
