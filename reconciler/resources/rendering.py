"""What a reader of the service gets, as bytes that are stored once and sent as they are.

Belongs here: the body of one version, its status, and joining the two. Does not: deciding what the status says.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

import msgspec

from reconciler.documents.values import Value
from reconciler.resources import canonical
from reconciler.resources.preparing import Prepared


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


def status(kind: str, *, source: bytes, incomplete: Sequence[str], delivery: str | None = None) -> bytes:
    """The `status` of a stored resource, canonical JSON: where it came from, and what is missing of it.

    A Configuration says whether it is `ready` to be used, and in `delivery` whether the service delivers for it: '' or
    why not, None where that is not the question.
    """
    delivers = b"" if delivery is None else b'"delivery":%b,' % canonical.encode(_delivery(delivery))
    listed = b'"incomplete":%b,' % msgspec.json.encode(incomplete) if incomplete else b""
    ready = b'"ready":%b,' % (b"false" if incomplete else b"true") if kind == "Configuration" else b""
    return b'{%b%b"latest":true,%b"source":%b}' % (delivers, listed, ready, source)


def with_incomplete(kind: str, status: bytes, incomplete: Sequence[str]) -> bytes:
    """The same status with another list of what is missing."""
    members: dict[str, Value] = {name: value for name, value in _members(status).items() if name != "incomplete"}
    if incomplete:
        members["incomplete"] = list(incomplete)
    if kind == "Configuration":
        members["ready"] = not incomplete
    return canonical.encode(members)


def with_standing(kind: str, status: bytes, *, incomplete: Sequence[str], delivery: str | None) -> bytes:
    """The same status with another list of what is missing, and another answer about delivery if there is one."""
    other = with_incomplete(kind, status, incomplete)
    return other if delivery is None else with_delivery(other, delivery)


def delivery(status: bytes) -> str | None:
    """Why a Configuration does not deliver, as its status says; '' when it does, None when it does not say."""
    said = _members(status).get("delivery")
    if not isinstance(said, dict):
        return None
    return "" if said.get("delivers") is True else str(said.get("reason"))


def with_delivery(status: bytes, reason: str) -> bytes:
    """The same status of a Configuration that delivers, or does not for a reason."""
    return canonical.encode({**_members(status), "delivery": _delivery(reason)})


def _delivery(reason: str) -> dict[str, Value]:
    return {"delivers": False, "reason": reason} if reason else {"delivers": True}


def with_source(status: bytes, source: Mapping[str, Value]) -> bytes:
    """The same status with another source; what had drifted from it has not any more."""
    members = {name: value for name, value in _members(status).items() if name != "drift"}
    return canonical.encode({**members, "source": dict(source)})


def with_drift(status: bytes, drift: Mapping[str, Value]) -> bytes:
    """The same status, of a version that is not what its owner wants; `drift` says whose it is and where it stands."""
    return canonical.encode({**_members(status), "drift": dict(drift)})


def incomplete(status: bytes) -> tuple[str, ...]:
    """What a status lists as missing."""
    listed = _members(status).get("incomplete")
    return tuple(str(line) for line in listed) if isinstance(listed, list) else ()


def _members(status: bytes) -> dict[str, Value]:
    return cast("dict[str, Value]", msgspec.json.decode(status))


def with_status(body: bytes, status: bytes) -> bytes:
    """A body joined with the JSON of its status, which changes without a new version of the resource.

    `status` sorts after every key of a body, so what is canonical stays so.
    """
    return b'%b,"status":%b}' % (body[:-1], status)


def restated(shown: bytes, status: bytes) -> bytes:
    """A resource as it is shown, with another status; not a byte of the rest changes."""
    members = msgspec.json.decode(shown, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({**members, "status": msgspec.Raw(status)})
