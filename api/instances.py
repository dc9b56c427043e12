"""Operations that each replica does for itself, combined in one answer.

Each instance has queues of its own. The replica that gets the request asks each other one for its part. `instances` in
the answer says which ones answered, and why others did not. On one machine an answer is the part alone.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, urlencode

import msgspec
from starlette.requests import ClientDisconnect

from api import access, errors, replicas, requests
from api.calls import Call
from api.errors import Problem
from reconciler.model.error_codes import ErrorCode
from reconciler.replicas.peers import Peer, PeerGone, Peers

PARAMETER = "instance"
READ_SECONDS = 2.0  # for the part of another replica: a page waits for it
ACTION_SECONDS = 60.0  # for an action of another replica, which may wait for a disk or an endpoint
AGAIN_SECONDS = 5.0  # after which an instance may answer again

Part: TypeAlias = dict[str, Any]
Own = Callable[[], Awaitable[Part]]
Merge = Callable[[Sequence[tuple[str, Part]]], Part]
"""Merges the parts of several instances into one; each part comes with the name of its instance."""


class Reply(NamedTuple):
    """The reply of one instance: a part, or a problem."""

    instance: str
    part: Part | None = None
    problem: Problem | None = None

    @property
    def is_unknown(self) -> bool:
        """True if the instance does not know the requested thing."""
        return self.problem is not None and self.problem.code is ErrorCode.DESTINATION_NOT_FOUND

    def told(self) -> dict[str, str | None]:
        """Return the instance's entry in `instances`."""
        said = None if self.problem is None or self.is_unknown else " ".join(self.problem.sentences)
        return {PARAMETER: self.instance, "problem": said}


def instance_of(call: Call, *, strict: bool = False) -> str | None:
    """Return the instance that the query chooses. If `strict`, no other parameter is allowed. Raises `BadRequest`."""
    query = requests.Query(call.query, known=frozenset({PARAMETER}), strict=strict)
    query.check()
    return query.text(PARAMETER)


async def read(call: Call, own: Own, merge: Merge, *, query: Mapping[str, object] | None = None) -> Part:
    """Return the merged parts of all instances, which are asked at the same time, or the part of the chosen one.
    `query` is passed on.
    """
    peers, chosen = call.peers, _chosen(call, instance_of(call))
    if peers is None or _is_alone(peers, chosen):
        return await own()
    if isinstance(chosen, Peer):
        return _answered(await _ask(call, peers, chosen, query=query))
    asked = [_own(call, peers, own), *(_ask(call, peers, one, query=query) for one in peers.others())]
    return _merged([*await asyncio.gather(*asked), *map(_missing, peers.missing())], merge)


async def act(call: Call, own: Own, merge: Merge, *, instance: str | None, body: object = None) -> Part:
    """Let the chosen instance do something, or all of them, one after another. If one fails, the others still act.
    Without contact to the database nothing is done, because it could not be recorded. Raises `CutOff`.
    """
    if call.services.contact is not None:
        call.services.contact.check_write()
    peers, chosen = call.peers, _chosen(call, instance)
    if peers is None or _is_alone(peers, chosen):
        return await own()
    if isinstance(chosen, Peer):
        return _answered(await _ask(call, peers, chosen, body=body, seconds=ACTION_SECONDS))
    replies = [await _own(call, peers, own)]
    for one in peers.others():
        replies.append(await _ask(call, peers, one, body=body, seconds=ACTION_SECONDS))
    return _merged([*replies, *map(_missing, peers.missing())], merge)


def _is_alone(peers: Peers, chosen: Peer | str | None) -> bool:
    """Return True if this replica's part is the whole answer."""
    return chosen == peers.name or (chosen is None and not peers.others() and not peers.missing())


def _missing(name: str) -> Reply:
    return Reply(name, problem=errors.Unavailable(MISSING.format(name), code=ErrorCode.REPLICA_UNAVAILABLE))


MISSING = (
    "The replica {} is gone, or has no `replica.url`. Its queue is on its disk: start it again, or move the queue with "
    "`reconciler queue move`."
)


def _chosen(call: Call, instance: str | None) -> Peer | str | None:
    """Return another replica, or the name of this one. A request that was passed on is always for this one. Raises
    `NotFound`.
    """
    peers = call.peers
    if instance is None or call.passed_on is not None or (peers is not None and instance == peers.name):
        return instance
    found = None if peers is None else replicas.named(peers, instance)
    if found is None:
        raise errors.NotFound(
            f"There is no living instance {instance} that can be asked; GET /v1/deliveries names them."
        )
    return found


async def _own(call: Call, peers: Peers, own: Own) -> Reply:
    try:
        return Reply(peers.name, await own())
    except ClientDisconnect:
        raise
    except Exception as exception:  # the parts of the others are still shown
        return Reply(peers.name, problem=errors.problem_of(exception, request=call.request))


async def _ask(
    call: Call,
    peers: Peers,
    peer: Peer,
    *,
    query: Mapping[str, object] | None = None,
    body: object = None,
    seconds: float = READ_SECONDS,
) -> Reply:
    path = f"{quote(call.scope['path'])}?{urlencode({**(query or {}), PARAMETER: peer.name})}"
    try:
        answer = await peers.call(
            peer,
            "POST" if call.scope["method"] == "POST" else "GET",
            path,
            principal=call.principal,
            body=b"" if body is None else msgspec.json.encode(body),
            seconds=seconds,
            headers=((access.HEADER, call.project.encode()),),
        )
        replicas.note_revision(call, answer.headers)
        told = msgspec.json.decode(answer.body, type=dict[str, Any])
    except (PeerGone, msgspec.MsgspecError) as problem:
        said = problem.message if isinstance(problem, PeerGone) else "It gave no answer of this interface."
        return Reply(
            peer.name, problem=errors.Unavailable(said, code=ErrorCode.REPLICA_UNAVAILABLE, after=AGAIN_SECONDS)
        )
    if answer.status == 200:
        return Reply(peer.name, told)
    return Reply(peer.name, problem=_problem(answer.status, told))


def _problem(status: int, told: Part) -> Problem:
    sentences, codes = told.get("errors"), told.get("codes")
    code = next((one for one in ErrorCode if isinstance(codes, list) and codes and one == codes[0]), ErrorCode.INTERNAL)
    if not isinstance(sentences, list) or not sentences:
        sentences = [f"It answered {status}."]
    after = AGAIN_SECONDS if status in (429, 503) else None
    return Problem(*map(str, sentences), status=status, code=code, after=after)


def _answered(reply: Reply) -> Part:
    if reply.part is not None:
        return reply.part
    assert reply.problem is not None
    raise reply.problem


def _merged(replies: Sequence[Reply], merge: Merge) -> Part:
    """Return one answer, sorted by names. If no instance has a part, raise the reason: a failure comes before `not
    found`.
    """
    replies = sorted(replies, key=lambda one: one.instance)
    found = [(one.instance, one.part) for one in replies if one.part is not None]
    if not found:
        raise next(one.problem for one in sorted(replies, key=lambda one: one.is_unknown) if one.problem is not None)
    return {**merge(found), "instances": [one.told() for one in replies]}
