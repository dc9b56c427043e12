"""What a reader of the service gets, as bytes that are stored once and sent as they are.

Belongs here: the body of one version, its status, its source, and joining them. Does not: deciding what they say.

A status is kept without its `source`, and a source without `path` and `line`: that is the same for all that one change
stores, and kept once.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias, cast

import msgspec

from reconciler.documents.values import Value
from reconciler.resources import canonical
from reconciler.resources.preparing import Prepared

_path = msgspec.json.Encoder().encode


class Frame(NamedTuple):
    """A source as canonical JSON in two halves, between which its `line` and `path` go."""

    head: bytes
    tail: bytes


Parts: TypeAlias = tuple[bytes, bytes | None, bytes, bytes, str | None, int | None]
"""Body, status, both halves of the source, its path and line: a row as it is read, since every resource of every answer
is made of one.
"""


class Stale(NamedTuple):
    """A Configuration delivers by an earlier version: which one, since when, and why not by the present one."""

    version: int
    since: str  # RFC 3339, UTC
    reason: str


class Delivery(NamedTuple):
    """Whether the service delivers for a Configuration: `reason` says why not, '' when it does."""

    reason: str = ""
    stale: Stale | None = None


class Identity(NamedTuple):
    """What the server adds to a resource's metadata."""

    id: str
    version: int
    date_modified: str  # RFC 3339, UTC


def body(prepared: Prepared, *, identity: Identity) -> bytes:
    """The masked resource with the server's metadata, canonical JSON, without `status`."""
    metadata: dict[str, Value] = {
        **cast("dict[str, Value]", prepared.masked["metadata"]),  # a resource has metadata
        "id": identity.id,
        "hash": prepared.spec_hash,
        "version": identity.version,
        "dateModified": identity.date_modified,
    }
    return canonical.encode({**prepared.masked, "metadata": metadata})


def identity(body: Mapping[str, Value]) -> Identity:
    """What the server added to a resource's metadata, of a body as it is stored."""
    metadata = cast("Mapping[str, Value]", body["metadata"])
    number = cast("int", metadata["version"])
    return Identity(id=str(metadata["id"]), version=number, date_modified=str(metadata["dateModified"]))


def status(kind: str, *, incomplete: Sequence[str], delivery: Delivery | None = None) -> bytes:
    """The `status` of a stored resource without its `source`, canonical JSON: what is missing of the resource.

    A Configuration says whether it is `ready` to be used, and in `delivery` whether the service delivers for it; None
    where that is not the question.
    """
    delivers = b"" if delivery is None else b'"delivery":%b,' % canonical.encode(_delivery(delivery))
    listed = b'"incomplete":%b,' % msgspec.json.encode(incomplete) if incomplete else b""
    ready = b',"ready":%b' % (b"false" if incomplete else b"true") if kind == "Configuration" else b""
    return b'{%b%b"latest":true%b}' % (delivers, listed, ready)


def with_incomplete(kind: str, status: bytes, incomplete: Sequence[str]) -> bytes:
    """The same status with another list of what is missing."""
    members: dict[str, Value] = {name: value for name, value in _members(status).items() if name != "incomplete"}
    if incomplete:
        members["incomplete"] = list(incomplete)
    if kind == "Configuration":
        members["ready"] = not incomplete
    return canonical.encode(members)


def with_standing(kind: str, status: bytes, *, incomplete: Sequence[str], delivery: Delivery | None) -> bytes:
    """The same status with another list of what is missing, and another answer about delivery if there is one."""
    other = with_incomplete(kind, status, incomplete)
    return other if delivery is None else with_delivery(other, delivery)


def delivery(status: bytes) -> Delivery | None:
    """Whether the service delivers for a Configuration, as its status says; None when it does not say."""
    said = _members(status).get("delivery")
    if not isinstance(said, dict):
        return None
    if said.get("delivers") is not True:
        return Delivery(str(said.get("reason")))
    stale = said.get("stale")
    return Delivery(stale=msgspec.convert(stale, _Stale).stale() if isinstance(stale, dict) else None)


def with_delivery(status: bytes, delivery: Delivery) -> bytes:
    """The same status of a Configuration with another answer about delivery."""
    return canonical.encode({**_members(status), "delivery": _delivery(delivery)})


def _delivery(delivery: Delivery) -> dict[str, Value]:
    if delivery.reason:
        return {"delivers": False, "reason": delivery.reason}
    return {"delivers": True} if delivery.stale is None else {"delivers": True, "stale": dict(delivery.stale._asdict())}


class _Stale(msgspec.Struct):
    version: int
    since: str
    reason: str

    def stale(self) -> Stale:
        return Stale(self.version, self.since, self.reason)


def without_drift(status: bytes) -> bytes:
    """The same status of a version that is what its owner wants."""
    if b'"drift"' not in status:
        return status
    return canonical.encode({name: value for name, value in _members(status).items() if name != "drift"})


def with_drift(status: bytes, drift: Mapping[str, Value]) -> bytes:
    """The same status, of a version that is not what its owner wants; `drift` says whose it is and where it stands."""
    return canonical.encode({**_members(status), "drift": dict(drift)})


def incomplete(status: bytes) -> tuple[str, ...]:
    """What a status lists as missing."""
    listed = _members(status).get("incomplete")
    return tuple(str(line) for line in listed) if isinstance(listed, list) else ()


def _members(status: bytes) -> dict[str, Value]:
    return cast("dict[str, Value]", msgspec.json.decode(status))


def frame(source: Mapping[str, Value]) -> Frame:
    """The two sides of a source that has no `path` and `line`. Raises ValueError where they would not stand together,
    behind another member.
    """
    head = {name: value for name, value in source.items() if name < "line"}
    tail = {name: value for name, value in source.items() if name > "path"}
    if not head or len(head) + len(tail) != len(source):
        raise ValueError(f"a source of {sorted(source)} has no place for a path and a line")
    return Frame(canonical.encode(head)[:-1], b",%b" % canonical.encode(tail)[1:] if tail else b"}")


def shown(parts: Parts) -> bytes:
    """A body joined with the JSON of its status, which changes without a new version of the resource, and its source;
    without a status it is no present version.

    `status` sorts after every key of a body, and `source` after every key of a status, so what is canonical stays so.
    """
    body, status, head, tail, path, line = parts
    place = b"" if path is None else b',"line":%d,"path":%b' % (line or 0, _path(path))
    if status is None:
        return b'%b,"status":{"source":%b%b%b}}' % (body[:-1], head, place, tail)
    return b'%b,"status":%b,"source":%b%b%b}}' % (body[:-1], status[:-1], head, place, tail)


def damaged(kind: str, name: str, *, version: int, latest: bool) -> bytes:
    """What stands in a list or a history for a version that is damaged in the store.

    It has no `apiVersion` and no `spec`: nobody can take it for the resource, nor apply it.
    """
    status: dict[str, Value] = {"error": DAMAGED.format(kind=kind, name=name)}
    if latest:
        status["latest"] = True
    return canonical.encode({"kind": kind, "metadata": {"name": name, "version": version}, "status": status})


DAMAGED = "the {kind} {name} is damaged in the store; apply it anew, let Git be read in full, or restore a backup"
LATEST = b'{"latest":true}'  # the status of most resources


@lru_cache(maxsize=256)
def is_source(head: bytes, tail: bytes) -> bool:
    """Whether both halves of a source are JSON still: what `shown` joins, it does not read. One source is that of all
    that a change stored, so that few are looked at.
    """
    return is_json(head + tail)


def is_json(text: bytes) -> bool:
    """Whether a status or a source is JSON still."""
    try:
        msgspec.json.decode(text.decode(), type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeError):
        return False
    return True


def restated(shown: bytes, status: bytes) -> bytes:
    """A resource as it is shown, with another status and the source that it has; not a byte of the rest changes."""
    members = msgspec.json.decode(shown, type=dict[str, msgspec.Raw])
    source = msgspec.json.decode(members["status"], type=_Sourced).source
    if not bytes(source):  # what stands for a damaged version
        return shown
    stated = b'%b,"source":%b}' % (status[:-1], bytes(source))
    return msgspec.json.encode({**members, "status": msgspec.Raw(stated)})


def rewritten(shown: bytes, body: bytes) -> bytes:
    """A resource as it is shown, with another body; not a byte of its status changes."""
    status = msgspec.json.decode(shown, type=_Stated).status
    return b'%b,"status":%b}' % (body[:-1], bytes(status))


class _Sourced(msgspec.Struct):
    source: msgspec.Raw = msgspec.Raw(b"")


class _Stated(msgspec.Struct):
    status: msgspec.Raw
