"""The state of a resource in one word, by its `status`: what the search, the console and programs ask for. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

API = "api"  # the owner of a resource without a repository


class State(StrEnum):
    """A state of a resource."""

    DAMAGED = "damaged"  # in the store
    STALE = "stale"  # a Configuration that delivers by an earlier version
    INCOMPLETE = "incomplete"
    NOT_RENDERED = "not-rendered"  # a Configuration for Collectors
    DRIFTED = "drifted"  # not as its repository wants
    IDLE = "idle"  # a Configuration that does not deliver, and is for no Collector
    READY = "ready"


class Condition(NamedTuple):
    """A state that a resource is in, and a sentence about it."""

    state: State
    reason: str | None = None


# The members of a status that are read. Msgspec skips the rest.


class _Reason(msgspec.Struct, frozen=True):
    reason: str


class _Delivery(msgspec.Struct, frozen=True):
    delivers: bool
    reason: str | None = None
    stale: _Reason | None = None


class _Rendering(msgspec.Struct, frozen=True):
    fault: _Reason | None = None


class _Drift(msgspec.Struct, frozen=True):
    repository: str


class Source(msgspec.Struct, frozen=True):
    """The source of a version. Members that this type of source lacks are None."""

    type: str
    repository: str | None = None
    path: str | None = None
    line: int | None = None
    commit: str | None = None


class ResourceStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The members of a `status` that decide about the state."""

    source: Source | None = None
    error: str | None = None
    incomplete: tuple[str, ...] = ()
    delivery: _Delivery | None = None
    rendering: _Rendering = _Rendering()
    drift: _Drift | None = None
    runs_on: str | tuple[str, ...] = ""


def owner_of(status: ResourceStatus) -> str | None:
    """Return the repository that has the resource, `api` or `builtin`; None if the resource is damaged."""
    if status.drift is not None:
        return status.drift.repository
    source = status.source
    if source is None:
        return None
    if source.type != "git":
        return source.type
    return source.repository if source.path is not None else API  # without a path it was given up


def condition_of(status: Mapping[str, Any]) -> Condition:
    """Return the most important state of a resource, by its `status` as JSON."""
    return conditions(msgspec.convert(status, ResourceStatus))[0]


def conditions(status: ResourceStatus) -> list[Condition]:
    """Return the states of a resource, at least one, the most important first."""
    found: list[Condition] = []
    delivery, fault = status.delivery, status.rendering.fault
    if status.error is not None:
        found.append(Condition(State.DAMAGED, status.error))
    if delivery is not None and delivery.stale is not None:
        found.append(Condition(State.STALE, delivery.stale.reason))
    if status.incomplete:
        found.append(Condition(State.INCOMPLETE, status.incomplete[0]))
    if fault is not None:
        found.append(Condition(State.NOT_RENDERED, fault.reason))
    if status.drift is not None:
        found.append(Condition(State.DRIFTED, f"It differs from what the repository {status.drift.repository} wants."))
    if delivery is not None and not delivery.delivers and status.runs_on != "collectors":
        found.append(Condition(State.IDLE, delivery.reason))
    return found or [Condition(State.READY)]
