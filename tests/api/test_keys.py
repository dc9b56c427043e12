"""Keys in use: shown once, kept as a digest, told apart, limited each by itself, and noted without a write."""

import asyncio
import base64
import json
import statistics
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any
from unittest.mock import ANY

import pytest
from starlette.types import ASGIApp, Message

import api.app
from api import auth
from api.edge import MOST as IN_FLIGHT
from reconciler.auth import changes
from reconciler.model import directory
from reconciler.model.directory import Amendment, Audited, Member
from reconciler.model.principals import Role
from tests import stores
from tests.api import parts
from tests.api.callers import OTHER, OWN, PASSWORD, Answer, Caller, ask, password_header
from tests.api.conftest import Populated
from tests.auth import directories

pytestmark = pytest.mark.anyio

Asking = Callable[..., Coroutine[Any, Any, Answer]]

NOT_IN_URL = auth.IN_A_URL
UNKNOWN = "The key is not known."
IN_400_DAYS = "2027-12-26T06:12:00.123Z"


@pytest.fixture
def app(populated: Populated) -> ASGIApp:
    populated.parts.clock.instant = parts.START
    return api.app.build(populated.parts.services)


@pytest.fixture
def asking(app: ASGIApp, populated: Populated) -> Asking:
    """Ask as a caller that there is, or with a key."""

    async def one(caller: str, method: str, path: str, body: object = None) -> Answer:
        known = named(caller) if caller in JOINED else populated.callers.get(caller)
        headers = known.headers if known else bearer(caller)
        return await ask(app, method, path, headers=headers, body=b"" if body is None else json.dumps(body).encode())

    return one


def bearer(key: str) -> tuple[tuple[str, str], ...]:
    return (("Authorization", f"Bearer {key}"),)


async def make(asking: Asking, caller: str = "admin", **members: Any) -> dict[str, Any]:
    answer = await asking(caller, "POST", "/v1/api-keys", {"name": "a pipeline", "role": "viewer", **members})
    assert answer.status == 201
    return dict(json.loads(answer.body)["apiKey"])


async def listed(asking: Asking, identifier: str) -> list[dict[str, Any]]:
    found = json.loads((await asking("admin", "GET", "/v1/api-keys")).body)["apiKeys"]
    return [key for key in found if key["id"] == identifier]


async def test_a_key_is_shown_once_and_kept_as_a_digest(asking: Asking, populated: Populated) -> None:
    made = await make(asking)
    secret = made.pop("key")
    assert made == {
        "id": made["id"],
        "name": "a pipeline",
        "prefix": directory.key_prefix(secret),
        "project": OWN,
        "personal": False,
        "role": "viewer",
        "scopes": ["resources"],
        "createdAt": parts.AT,
        "createdBy": "user:admin",
        "expiresAt": IN_400_DAYS,
        "lastUsedAt": None,
    }
    assert await listed(asking, made["id"]) == [made]
    assert (await asking(secret, "GET", "/v1/resources/Source")).status == 200
    kept = b"".join(files(populated).values())
    assert made["prefix"].encode() in kept
    assert secret[len(made["prefix"]) + 1 :].encode() not in kept


async def test_a_key_opens_nothing_once_it_is_revoked_or_expired(asking: Asking, populated: Populated) -> None:
    lasting, ending = await make(asking), await make(asking, expiry="1h")
    populated.parts.clock.pass_(hours=1)
    assert (await asking(ending["key"], "GET", "/v1/me")).status == 401
    assert (await asking(lasting["key"], "GET", "/v1/me")).status == 200
    assert (await asking("admin", "DELETE", f"/v1/api-keys/{lasting['id']}")).status == 204
    refused = await asking(lasting["key"], "GET", "/v1/me")
    assert (refused.status, json.loads(refused.body)) == (401, {"errors": [UNKNOWN], "codes": ANY})
    assert await listed(asking, lasting["id"]) == []


async def test_a_key_that_was_used_meanwhile_is_revoked_all_the_same(asking: Asking, populated: Populated) -> None:
    made = await make(asking)
    accounts = populated.parts.services.accounts
    seen = accounts.directory.keys[made["prefix"]]
    await asking(made["key"], "GET", "/v1/me")
    await accounts.touch()
    await accounts.amend(lambda present: changes.revoke_key(present, seen), actor="user:root", request=None)
    assert (await asking(made["key"], "GET", "/v1/me")).status == 401


@pytest.mark.parametrize(
    ("caller", "members", "status"),
    [
        ("admin", {"project": OTHER}, 404),
        ("admin", {"project": "none"}, 404),
        ("admin", {"project": None}, 403),
        ("user", {"project": OWN}, 403),
        ("viewer", {"project": OWN, "role": "viewer"}, 403),
        ("key of a admin", {"project": OWN}, 403),
        ("key of a admin", {"project": OWN, "role": "viewer", "personal": True}, 403),
        ("key of a neighbour", {"project": OWN}, 403),
        ("key for logs", {"project": OWN, "scopes": ["logs"]}, 403),
        ("organization key of a user", {"project": OWN}, 403),
        ("organization key of a admin", {"project": OWN}, 403),
        ("organization key of a admin", {"project": None}, 403),
        ("SERVICE_API_KEY", {"project": OWN}, 201),
        ("SERVICE_API_KEY", {"project": None, "scopes": ["metrics"]}, 201),
        ("SERVICE_API_KEY", {"project": OWN, "personal": True}, 403),
        ("user", {"project": OWN, "role": "user", "personal": True}, 201),
        ("viewer", {"project": None, "role": "viewer", "personal": True}, 201),
        ("viewer", {"project": OWN, "role": "user", "personal": True}, 400),
        ("user", {"project": OWN, "role": "user", "personal": True, "scopes": ["logs"]}, 400),
        ("admin", {"project": OWN, "personal": True, "scopes": ["resources", "raw"]}, 400),
        ("user", {"project": OTHER, "role": "user", "personal": True}, 404),
        ("user", {"project": "none", "role": "user", "personal": True}, 404),
        ("nobodys", {"project": None, "role": "viewer", "personal": True}, 400),
        ("root", {"project": OWN}, 201),
        ("root", {"project": None}, 201),
        ("admin", {"project": OWN, "scopes": ["logs"]}, 201),
        ("admin", {"project": OWN, "scopes": ["resources", "metrics"]}, 403),
        ("admin", {"project": OWN, "scopes": ["raw"]}, 201),
        ("root", {"project": OWN, "scopes": ["metrics"]}, 201),
        ("admin", {"project": OWN, "expiry": "9600h"}, 201),
        ("admin", {"project": OWN, "expiry": "9601h"}, 400),
        ("admin", {"project": OWN, "expiry": "2027-12-26T06:12:01Z"}, 400),
        ("root", {"project": None, "expiry": "9601h"}, 400),
    ],
)
async def test_nobody_makes_a_key_beyond_what_they_manage(
    asking: Asking, caller: str, members: dict[str, Any], status: int
) -> None:
    answer = await asking(caller, "POST", "/v1/api-keys", {"name": "mine", "role": "admin", **members})
    assert answer.status == status


@pytest.mark.parametrize("expiry", ["9601h", "2027-12-26T06:12:01Z"])
async def test_an_expiry_that_is_too_far_away_is_told_the_limit(asking: Asking, expiry: str) -> None:
    answer = await asking(
        "admin", "POST", "/v1/api-keys", {"name": "mine", "role": "user", "project": OWN, "expiry": expiry}
    )
    assert (answer.status, json.loads(answer.body)) == (
        400,
        {"errors": ["/expiry: must be in the future, and at most 400 days away"], "codes": ANY},
    )


async def test_a_key_is_not_made_for_another_project_than_the_header_chooses(
    app: ASGIApp, populated: Populated
) -> None:
    for caller, project, chosen in (("admin", OWN, OTHER), ("root", OWN, OTHER), ("root", None, "no-project")):
        headers = [*populated.callers[caller].headers, ("X-Service-Project", chosen)]
        body = json.dumps({"name": "a pipeline", "role": "viewer", "project": project}).encode()
        answer = await ask(app, "POST", "/v1/api-keys", headers=headers, body=body)
        assert (answer.status, json.loads(answer.body)) == (
            404,
            {"errors": ["There is no such project."], "codes": ANY},
        )


JOINED = ("una", "ula", "uri")  # people of one test each


def named(person: str) -> Caller:
    """Somebody whom a test made, with the password of every other."""
    shown = base64.b64encode(f"{person}:{PASSWORD}".encode()).decode()
    return Caller(person, (("Authorization", f"Basic {shown}"),), is_person=True)


async def join(populated: Populated, name: str, **roles: Role) -> None:
    """Make one of `JOINED` a member of projects; a dash of their names is written as `_`."""
    accounts = populated.parts.services.accounts
    new = directories.user(name, password=accounts.directory.users["root"].password)
    made = Amendment(
        Audited("created", "User", name),
        users=(new,),
        members=tuple(Member(project.replace("_", "-"), new.id, role) for project, role in roles.items()),
    )
    await accounts.amend(lambda _: made, actor="user:root", request=None)


async def test_a_member_makes_sees_and_revokes_keys_of_their_own(asking: Asking, populated: Populated) -> None:
    await join(populated, "una", own_project=Role.USER)
    made = await make(asking, "una", role="user", personal=True)
    assert (made["personal"], made["project"], made["createdBy"], made["expiresAt"]) == (True, OWN, "user:una", None)
    assert json.loads((await asking(made["key"], "GET", "/v1/me")).body)["me"] == {
        "name": f"key:{made['id']}",
        "organizationAdmin": False,
        "scopes": ["resources"],
        "projects": [{"name": OWN, "role": "user"}],
    }
    seen = json.loads((await asking("una", "GET", "/v1/api-keys")).body)["apiKeys"]
    assert [one["id"] for one in seen] == [made["id"]]
    assert await listed(asking, made["id"]) == seen  # an admin of the project sees it, too
    for other in ("user", "neighbour"):
        theirs = json.loads((await asking(other, "GET", "/v1/api-keys")).body)["apiKeys"]
        assert made["id"] not in [one["id"] for one in theirs]
    assert (await asking("user", "DELETE", f"/v1/api-keys/{made['id']}")).status == 403
    assert (await asking("neighbour", "DELETE", f"/v1/api-keys/{made['id']}")).status == 404
    assert (await asking(made["key"], "POST", "/v1/api-keys", {"name": "x", "role": "user"})).status == 403
    assert (await asking("una", "DELETE", f"/v1/api-keys/{made['id']}")).status == 204
    assert (await asking(made["key"], "GET", "/v1/me")).status == 401


async def test_a_personal_key_has_at_most_the_role_of_its_person_at_each_request(
    asking: Asking, populated: Populated
) -> None:
    await join(populated, "ula", own_project=Role.ADMIN, other_project=Role.VIEWER)
    made = await make(asking, "ula", role="admin", project=OWN, personal=True)
    everywhere = await make(asking, "ula", role="user", project=None, personal=True)
    keys_of = f"/v1/projects/{OWN}/members"

    async def may() -> list[int]:
        """Manage members, change, and read."""
        apply = {"resources": [parts.destination("of-ula")]}
        statuses = [(await asking(made["key"], "GET", keys_of)).status]
        statuses += [(await asking(made["key"], "POST", "/v1/apply?dryRun=true", apply)).status]
        return [*statuses, (await asking(made["key"], "GET", "/v1/resources/Source")).status]

    async def roles(key: str) -> dict[str, str]:
        me = json.loads((await asking(key, "GET", "/v1/me")).body)["me"]
        return {one["name"]: one["role"] for one in me["projects"]}

    assert await may() == [200, 202, 200]
    assert await roles(everywhere["key"]) == {OWN: "user", OTHER: "viewer"}
    for role, expected in (("user", [403, 202, 200]), ("viewer", [403, 403, 200]), ("admin", [200, 202, 200])):
        assert (await asking("root", "PUT", f"/v1/projects/{OWN}/members/ula", {"role": role})).status == 200
        assert await may() == expected, role
    assert (await asking("root", "DELETE", f"/v1/projects/{OWN}/members/ula")).status == 204
    assert await may() == [404, 404, 404]
    assert (await roles(made["key"]), await roles(everywhere["key"])) == ({}, {OTHER: "viewer"})


async def test_a_personal_key_ends_with_its_person_and_the_key_that_they_made_for_the_project_does_not(
    asking: Asking, populated: Populated
) -> None:
    await join(populated, "uri", own_project=Role.ADMIN)
    own, shared = await make(asking, "uri", role="admin", personal=True), await make(asking, "uri", role="viewer")
    statuses = [(await asking(one["key"], "GET", "/v1/resources/Source")).status for one in (own, shared)]
    assert (await asking("root", "DELETE", "/v1/users/uri")).status == 204
    statuses += [(await asking(one["key"], "GET", "/v1/resources/Source")).status for one in (own, shared)]
    assert statuses == [200, 200, 401, 200]
    assert await populated.parts.services.store.directory() == populated.parts.services.accounts.directory
    await join(populated, "uri", own_project=Role.ADMIN)  # somebody else of that name
    assert (await asking(own["key"], "GET", "/v1/me")).status == 401


RAW = f"/v1/resources/Configuration/{'fleet-wide'}/raw"


def as_password(key: str, *, name: str = "collector") -> tuple[tuple[str, str], ...]:
    return password_header(f"{name}:{key}")


async def test_a_key_is_a_password_under_any_name_and_opens_what_it_opens_as_a_bearer(
    asking: Asking, populated: Populated, app: ASGIApp
) -> None:
    raw = {"apiVersion": "service/v1", "kind": "Configuration", "metadata": {"name": "fleet-wide"}}
    headers = [*populated.callers["root"].headers, ("X-Service-Project", OWN)]
    body = json.dumps({"resources": [{**raw, "spec": {"raw": "receivers: {}"}}]}).encode()
    assert (await ask(app, "POST", "/v1/apply", headers=headers, body=body)).status == 202
    loads = await make(asking, scopes=["raw"])
    user, viewer = await make(asking, role="user"), await make(asking, role="viewer")

    async def status(key: str, path: str = RAW, *, name: str = "collector") -> int:
        return (await ask(app, "GET", path, headers=as_password(key, name=name))).status

    answer = await ask(app, "GET", RAW, headers=as_password(loads["key"]))
    assert (answer.status, answer.body) == (200, b"receivers: {}")
    assert answer == await asking(loads["key"], "GET", RAW)
    assert [await status(loads["key"], name=name) for name in ("", "admin", "nobody at all")] == [200] * 3
    assert [await status(one["key"]) for one in (user, viewer)] == [200, 403]
    elsewhere = ("/v1/resources/Configuration/fleet-wide", "/v1/api-keys", "/v1/repositories", "/metrics")
    for one in (loads, user, viewer):
        as_bearer = [(await asking(one["key"], "GET", path)).status for path in elsewhere]
        assert [await status(one["key"], path) for path in elsewhere] == as_bearer
    assert [await status(loads["key"], path) for path in elsewhere] == [403] * 4
    neighbours = [*as_password(loads["key"]), ("X-Service-Project", OTHER)]
    assert (await ask(app, "GET", RAW, headers=neighbours)).status == 404
    assert (await asking("admin", "DELETE", f"/v1/api-keys/{loads['id']}")).status == 204
    assert await status(loads["key"]) == 401


async def test_what_begins_like_a_key_is_never_compared_with_a_persons_password(
    app: ASGIApp, populated: Populated, asking: Asking
) -> None:
    """However often it is wrong, the person signs in; the audit counts it as for a key in a header."""
    made = await make(asking)
    services = populated.parts.services
    services.refusals.taken(services.clock())
    wrong = ("rck_", "rck_not-a-key", made["prefix"], made["key"][:-1], f"{made['key']} ", f"{made['key']}x")
    for key in wrong * 5:
        answer = await ask(app, "GET", RAW, headers=as_password(key, name="user"))
        assert (answer.status, json.loads(answer.body)) == (401, {"errors": [UNKNOWN], "codes": ["unknown-key"]})
        assert dict(answer.headers)[b"www-authenticate"] == auth.WRONG_KEY
    [row] = services.refusals.taken(services.clock())
    assert (row.actor, row.name, json.loads(row.detail or "")["times"]) == ("unknown", "401", len(wrong) * 5)
    assert (await asking("user", "GET", "/v1/me")).status == 200


async def test_a_forged_key_with_a_known_prefix_is_as_unknown_as_any_other(asking: Asking) -> None:
    made = await make(asking)
    other = directory.make_key(bytes(range(directory.RANDOM_BYTES)))
    forged = made["prefix"] + other[len(made["prefix"]) :]
    assert directory.key_prefix(forged) == made["prefix"]
    assert await asking(forged, "GET", "/v1/me") == await asking(other, "GET", "/v1/me")
    assert (await asking(forged, "GET", "/v1/me")).status == 401


@pytest.mark.parametrize("path", ["/v1/api-keys/{key}", "/v1/resources/Source/{key}", "/{key}"])
@pytest.mark.parametrize("caller", ["admin", "nobody"])
async def test_a_key_in_a_path_is_refused_before_anything_else(asking: Asking, path: str, caller: str) -> None:
    answer = await asking(caller, "DELETE", path.format(key=directories.text(1)))
    assert (answer.status, json.loads(answer.body)) == (400, {"errors": [auth.IN_A_URL], "codes": ANY})


@pytest.mark.parametrize(
    "query",
    [
        "api_key=x",
        "limit=1&API_KEY=x",
        "api-key=x",
        "apikey=x",
        "access_token=x",
        "api%5Fkey=x",
        "%61ccess_token=x",
        "key={key}",
        "selector=team%3D{key}",
        "key={encoded}",
        f"key={parts.KEY}",
        f"limit=1&x={parts.KEY.replace('-', '%2D')}",
    ],
)
@pytest.mark.parametrize("caller", ["admin", "nobody"])
@pytest.mark.parametrize("path", ["/v1/resources/Source", "/v1/version"])
async def test_a_key_in_a_url_is_refused_before_anything_else(
    asking: Asking, path: str, caller: str, query: str
) -> None:
    key = directories.text(1)
    query = query.format(key=key, encoded=key.replace("_", "%5f"))
    answer = await asking(caller, "GET", f"{path}?{query}")
    assert (answer.status, json.loads(answer.body)) == (400, {"errors": [NOT_IN_URL], "codes": ANY})


@pytest.mark.parametrize(
    "query", ["after=datadog-api-key", "selector=api-key%3Dx", "after=marck_1", "selector=access_token"]
)
async def test_names_of_things_in_a_url_are_no_keys(asking: Asking, query: str) -> None:
    assert (await asking("admin", "GET", f"/v1/resources/Source?{query}")).status == 200


class Held:
    """A request whose body does not come until it is let go."""

    def __init__(self, app: ASGIApp, caller: Caller) -> None:
        self.waits, self.go = asyncio.Event(), asyncio.Event()
        self.sent: list[Message] = []
        headers = [(name.lower().encode(), value.encode()) for name, value in caller.headers]
        self.scope: dict[str, Any] = {
            **{"type": "http", "method": "POST", "path": "/v1/apply", "raw_path": b"/v1/apply", "root_path": ""},
            **{"query_string": b"", "headers": headers, "client": None},
        }
        self.task = asyncio.create_task(self._run(app))

    async def _run(self, app: ASGIApp) -> None:
        async def receive() -> Message:
            self.waits.set()
            await self.go.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            self.sent.append(message)

        await app(self.scope, receive, send)


async def hold(app: ASGIApp, caller: Caller) -> list[Held]:
    held = [Held(app, caller) for _ in range(IN_FLIGHT)]
    await asyncio.gather(*(one.waits.wait() for one in held))
    return held


async def let_go(held: Sequence[Held]) -> None:
    for one in held:
        one.go.set()
        await one.task


@pytest.mark.parametrize("order", [1, -1])
async def test_each_key_and_each_person_has_so_many_requests_under_way(
    app: ASGIApp, asking: Asking, populated: Populated, order: int
) -> None:
    in_flight = populated.parts.services.in_flight
    one, other, person = "key of a user", "key of a admin", "user"
    held = await hold(app, populated.callers[one])
    refused = await asking(one, "GET", "/v1/me")
    assert (refused.status, dict(refused.headers)[b"retry-after"]) == (429, b"1")
    assert {(await asking(caller, "GET", "/v1/me")).status for caller in (other, person)} == {200}
    theirs = await hold(app, populated.callers[person])
    assert (await asking(person, "GET", "/v1/me")).status == 429
    assert set(in_flight.values()) == {IN_FLIGHT}
    await let_go(held[:1])
    assert (await asking(one, "GET", "/v1/me")).status == 200
    await let_go([*held[1:], *theirs][::order])
    assert in_flight == {}


async def test_whatever_becomes_of_a_request_it_is_under_way_no_more(asking: Asking, populated: Populated) -> None:
    paths = ("/v1/me", "/v1/none", "/v1/users", "/v1/runs/none", "/v1/resources/Source?limit=x", "/v1/runs")
    answers = await asyncio.gather(*(asking("user", "GET", path) for path in paths * 5))
    assert {answer.status for answer in answers} == {200, 400, 403, 404}
    assert populated.parts.services.in_flight == {}


async def test_the_use_of_a_key_is_noted_without_a_write_and_written_once(asking: Asking, populated: Populated) -> None:
    made = await make(asking)
    accounts = populated.parts.services.accounts
    await accounts.touch()
    before = files(populated)
    for _ in range(100):
        assert (await asking(made["key"], "GET", "/v1/me")).status == 200
    assert files(populated) == before
    assert [key["lastUsedAt"] for key in await listed(asking, made["id"])] == [None]
    populated.parts.clock.pass_(minutes=1)
    await asking(made["key"], "GET", "/v1/me")
    await accounts.touch()
    written = files(populated)
    assert written != before
    [shown] = await listed(asking, made["id"])
    assert shown["lastUsedAt"] == "2026-11-21T06:13:00.123Z"
    assert await populated.parts.services.store.directory() == accounts.directory
    await accounts.touch()
    assert files(populated) == written


def files(populated: Populated) -> dict[str, bytes]:
    """Return what the store wrote."""
    store = populated.parts.services.store
    return stores.content(stores.state_of(store))


@pytest.mark.slow
def test_how_long_a_key_takes_to_be_refused_tells_nothing_of_it() -> None:
    known = directories.text(1)
    kept = [directories.key(directories.text(number), identifier=f"K{number}") for number in range(1, 2_000)]
    directory = directories.directory(*kept)
    asked = {"right": known, "wrong secret": known[:-1] + "_", "unknown prefix": directories.text(5_000)}
    spent: dict[str, list[int]] = {name: [] for name in asked}
    for _ in range(20_000):  # by turns, so that what else the machine does falls on each
        for name, key in asked.items():
            before = time.perf_counter_ns()
            directory.holder(key, now=directories.AT)
            spent[name].append(time.perf_counter_ns() - before)
    medians = {name: statistics.median(times) for name, times in spent.items()}
    # What is refused is compared the same way; a right key is described as well, which only its holder can time.
    assert medians["wrong secret"] / medians["unknown prefix"] == pytest.approx(1, abs=0.25)
    assert medians["right"] < 5 * medians["unknown prefix"]


def test_two_keys_with_one_prefix_cannot_be_made() -> None:
    first = directories.key(directories.text(1))
    prefix = first.prefix
    forged = prefix + directory.make_key(bytes(range(directory.RANDOM_BYTES)))[len(prefix) :]
    second = directories.key(forged, identifier="K2", role=Role.ADMIN)
    with pytest.raises(changes.Conflict, match=r"^Another key has this prefix; try again.$"):
        changes.create_key(directories.directory(first), second)
