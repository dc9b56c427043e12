"""A replica answers what another one passes on, as if the caller had come to it, and nothing else that claims so."""

import contextlib
import dataclasses
import socket
import time
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import httpx2
import msgspec
import pytest

import api.app
from api.calls import Services
from reconciler.auth import changes
from reconciler.model import log_context
from reconciler.model.principals import SERVICE_KEY, Principal, Role
from reconciler.replicas import tokens
from reconciler.replicas.calling import CalledPeers
from reconciler.replicas.peers import Peer, PeerGone
from reconciler.replicas.tokens import PeerTokens
from reconciler.server import serving
from tests.api import parts
from tests.api.conftest import connect, make_key

pytestmark = pytest.mark.anyio

KEY = tokens.derived_key(bytes(32))


class Pair(NamedTuple):
    """A replica `two` that listens, and what another one, `one`, calls it with."""

    two: Services
    peers: CalledPeers
    peer: Peer

    def signing(self) -> PeerTokens:
        """Signs as a replica does."""
        return PeerTokens(KEY, process="process-one", clock=time.time)


@pytest.fixture
async def pair(services: Services) -> AsyncIterator[Pair]:
    two = dataclasses.replace(services, peer_tokens=PeerTokens(KEY, process="process-two", clock=time.time))
    listener = socket.create_server(("127.0.0.1", 0))
    peer = Peer("two", f"http://127.0.0.1:{listener.getsockname()[1]}", "process-two")
    me = Peer("one", "http://127.0.0.1:1", "process-one")
    signing = PeerTokens(KEY, process="process-one", clock=time.time)
    async with (
        serving.serve([(api.app.build(two), listener)], drain_seconds=1.0),
        CalledPeers("one", signing=signing, others=lambda: [peer, me, Peer("mute", "", "x")]) as peers,
    ):
        yield Pair(two, peers, peer)


def token(pair: Pair, method: str, path: str, **changed: Any) -> dict[str, str]:
    """The header of a request to `two`."""
    asked: dict[str, Any] = {
        "to": "process-two",
        "principal": SERVICE_KEY,
        "body": b"",
        "headers": [],
        "sender": "one",
        "request": "01KAH30ZPT8Q1X2Y3Z4A5B6C7D",
        "address": None,
    }
    signed = pair.signing().sign(method, path, **(asked | changed))
    return {tokens.HEADER.decode(): signed}


async def key_of(services: Services, project: str, role: Role) -> Principal:
    found = services.accounts.holder(await make_key(services, role, project=project))
    assert found is not None
    return found


async def test_only_others_with_an_address_are_called(pair: Pair) -> None:
    assert pair.peers.name == "one"
    assert pair.peers.others() == [pair.peer]


async def test_the_caller_has_their_own_permissions_there(pair: Pair, services: Services, project: str) -> None:
    user, admin = await key_of(services, project, Role.USER), await key_of(services, project, Role.ADMIN)
    headers = [(b"x-service-project", project.encode())]
    answer = await pair.peers.call(pair.peer, "GET", "/v1/audit-events", principal=admin, headers=headers)
    assert (answer.status, dict(answer.headers)[b"content-type"]) == (200, b"application/json")
    assert (await pair.peers.call(pair.peer, "GET", "/v1/audit-events", principal=user, headers=headers)).status == 403


async def test_the_audit_has_the_request_and_the_address_of_the_client(
    pair: Pair, services: Services, project: str
) -> None:
    admin = await key_of(services, project, Role.ADMIN)
    body = msgspec.json.encode({"resources": [parts.destination("d")]})
    request, place = log_context.REQUEST.set("01KAH30ZPT8Q1X2Y3Z4A5B6C7E"), log_context.PLACE.set(lambda: "192.0.2.7")
    try:
        answer = await pair.peers.call(
            pair.peer,
            "POST",
            "/v1/apply",
            principal=admin,
            body=body,
            headers=[(b"x-service-project", project.encode())],
        )
    finally:
        log_context.REQUEST.reset(request)
        log_context.PLACE.reset(place)
    assert answer.status == 202
    assert dict(answer.headers)[b"x-request-id"] == b"01KAH30ZPT8Q1X2Y3Z4A5B6C7E"
    async with connect(services, project=project) as client:
        [event] = [one for one in (await client.get("/v1/audit-events")).json()["events"] if one["name"] == "d"]
    assert (event["actor"], event["request"], event["address"]) == (
        admin.name,
        "01KAH30ZPT8Q1X2Y3Z4A5B6C7E",
        "192.0.2.7",
    )


async def test_a_caller_who_lost_access_meanwhile_is_refused(pair: Pair, services: Services, project: str) -> None:
    admin = await key_of(services, project, Role.ADMIN)
    key = admin.name.removeprefix("key:")
    await services.accounts.amend(
        lambda known: changes.revoke_key(known, next(one for one in known.keys.values() if one.id == key)),
        actor="user:root",
        request=None,
    )
    answer = await pair.peers.call(pair.peer, "GET", "/v1/audit-events", principal=admin)
    assert answer.status == 401
    assert b"credential-revoked" in answer.body


async def test_another_process_of_the_replica_is_gone(pair: Pair) -> None:
    with pytest.raises(PeerGone, match="started again"):
        await pair.peers.call(pair.peer._replace(process="earlier"), "GET", "/v1/me", principal=SERVICE_KEY)


async def test_a_replica_that_does_not_answer_is_gone(pair: Pair) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as silent:  # it accepts, and says nothing
        peer = pair.peer._replace(url=f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(PeerGone, match="in time"):
            await pair.peers.call(peer, "GET", "/v1/me", principal=SERVICE_KEY, seconds=0.2)
    with pytest.raises(PeerGone, match="does not answer"):
        await pair.peers.call(peer, "GET", "/v1/me", principal=SERVICE_KEY)


@pytest.mark.parametrize(
    ("method", "path", "body", "changed"),
    [
        ("GET", "/v1/users", b"", {"to": "process-three"}),
        ("GET", "/v1/keys", b"", {}),
        ("GET", "/v1/users?x=1", b"", {}),
        ("POST", "/v1/users", b"", {}),
        ("GET", "/v1/users", b"{}", {}),
        ("GET", "/v1/users", b"", {"body": b"{}"}),
    ],
)
async def test_a_token_for_another_request_opens_nothing(
    pair: Pair, method: str, path: str, body: bytes, changed: dict[str, Any]
) -> None:
    async with httpx2.AsyncClient(base_url=pair.peer.url) as client:
        headers = token(pair, "GET", "/v1/users", **changed)
        answer = await client.request(method, path, headers=headers, content=body)
        assert (answer.status_code, answer.json()["codes"]) == (401, ["peer-refused"])


async def test_a_token_opens_once(pair: Pair) -> None:
    async with httpx2.AsyncClient(base_url=pair.peer.url) as client:
        headers = token(pair, "GET", "/v1/users")
        assert (await client.get("/v1/users", headers=headers)).status_code == 200
        again = await client.get("/v1/users", headers=headers)
        assert (again.status_code, again.json()["codes"]) == (401, ["peer-refused"])


async def test_headers_beside_the_token_count_for_nothing(pair: Pair, project: str) -> None:
    principal = await key_of(pair.two, project, Role.VIEWER)
    async with httpx2.AsyncClient(base_url=pair.peer.url) as client:
        headers = token(pair, "GET", "/v1/me", principal=principal)
        headers |= {"X-Service-Api-Key": pair.two.api_key, "X-Service-Project": "other", "X-Forwarded-For": "1.2.3.4"}
        answer = await client.get("/v1/me", headers=headers)
    assert answer.status_code == 200
    assert principal.name.removeprefix("key:") in answer.text


@pytest.mark.parametrize("value", ["", "x", "x.y", "é.é"])
async def test_what_is_no_token_is_refused_even_beside_a_key(pair: Pair, value: str) -> None:
    async with httpx2.AsyncClient(base_url=pair.peer.url) as client:
        headers = [(tokens.HEADER, value.encode()), (b"X-Service-Api-Key", pair.two.api_key.encode())]
        answer = await client.get("/v1/users", headers=headers)
        assert (answer.status_code, answer.json()["codes"]) == (401, ["peer-refused"])


async def test_one_machine_takes_no_token(pair: Pair, services: Services) -> None:
    async with connect(services, key="") as client:
        answer = await client.get("/v1/users", headers=token(pair, "GET", "/v1/users"))
        assert (answer.status_code, answer.json()["codes"]) == (401, ["peer-refused"])


async def test_the_key_of_the_environment_exists_where_it_is_set(pair: Pair) -> None:
    two = dataclasses.replace(pair.two, api_key="")
    async with connect(two, key="") as client:
        answer = await client.get("/v1/users", headers=token(pair, "GET", "/v1/users"))
        assert (answer.status_code, answer.json()["codes"]) == (401, ["credential-revoked"])
