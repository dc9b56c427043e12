"""Permissions are judged when a body has arrived, too: a client decides how long that takes."""

import base64
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, TypeAlias
from unittest.mock import ANY

import pytest
from starlette.types import Message

import api.app
from reconciler.auth import changes
from reconciler.auth.accounts import Accounts, Decide
from reconciler.auth.sign_in import SigningIn
from reconciler.model import directory, principals
from reconciler.model.directory import Amendment, Audited, Directory, Key, Member
from reconciler.model.principals import Role
from tests.api import callers, parts
from tests.api.callers import OTHER, OWN, Pairs, ask
from tests.api.conftest import Populated, make_key
from tests.auth import directories

pytestmark = pytest.mark.anyio

Write: TypeAlias = tuple[str, str, object]

GONE = {"errors": ["What you showed opens nothing any more."], "codes": ANY}
WRITES: list[Write] = [
    ("POST", "/v1/apply", {"resources": [parts.destination("late")]}),
    ("POST", "/v1/delete", {"resources": [parts.destination("late")]}),
    ("POST", "/v1/Destination/late/history/redact", {"value": "logs.example.org"}),
    ("POST", "/v1/api-keys", {"name": "late", "role": "admin"}),
    ("PUT", f"/v1/projects/{OWN}/members/late", {"role": "admin"}),
    ("POST", "/v1/users", {"name": "mallory", "organizationAdmin": True}),
    ("PATCH", "/v1/users/late", {"organizationAdmin": True}),
    ("POST", "/v1/projects", {"name": "of-mallory"}),
    ("PUT", "/v1/me/password", {"password": callers.PASSWORD, "newPassword": "another password"}),
]


async def late(populated: Populated, write: Write, *, headers: Pairs, meanwhile: Decide) -> tuple[int, Any]:
    """A request whose body arrives after a change of access."""
    services = populated.parts.services
    method, path, body = write
    sent: list[Message] = []

    async def receive() -> Message:
        await services.accounts.amend(meanwhile, actor="user:root", request=None)
        return {"type": "http.request", "body": json.dumps(body).encode()}

    async def send(message: Message) -> None:
        sent.append(message)

    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "root_path": "",
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
        "client": ("192.0.2.1", 40_000),
    }
    await api.app.build(services)(scope, receive, send)
    return sent[0]["status"], json.loads(sent[1]["body"])


@pytest.fixture
async def headers(populated: Populated) -> AsyncIterator[Pairs]:
    """Those of an organization admin, new for each test."""
    accounts = populated.parts.services.accounts
    encoded = accounts.directory.users["root"].password
    new = directories.user("late", organization_admin=True, password=encoded)
    await accounts.amend(lambda directory: changes.create_user(directory, new), actor="user:root", request=None)
    shown = base64.b64encode(f"late:{callers.PASSWORD}".encode()).decode()
    yield (("Authorization", f"Basic {shown}"), ("X-Service-Project", OWN))
    if "late" in accounts.directory.users:
        await accounts.amend(removed, actor="user:root", request=None)


def removed(directory: Directory) -> Amendment:
    return changes.remove_user(directory, "late")


def other_password(directory: Directory) -> Amendment:
    return changes.change_user(directory, changes.with_password(directory.users["late"], "another"))


def no_admin(directory: Directory) -> Amendment:
    return changes.change_user(directory, replace(directory.users["late"], organization_admin=False))


@pytest.mark.parametrize("meanwhile", [removed, other_password])
@pytest.mark.parametrize("write", WRITES)
async def test_whoever_is_removed_while_their_body_arrives_changes_nothing(
    populated: Populated, headers: Pairs, write: Write, meanwhile: Callable[[Directory], Amendment]
) -> None:
    accounts = populated.parts.services.accounts
    assert await late(populated, write, headers=headers, meanwhile=meanwhile) == (401, GONE)
    assert "mallory" not in accounts.directory.users
    assert "of-mallory" not in accounts.directory.projects


@pytest.mark.parametrize("write", WRITES[:-1])
async def test_whoever_loses_a_role_while_their_body_arrives_has_lost_it(
    populated: Populated, headers: Pairs, write: Write
) -> None:
    status, _ = await late(populated, write, headers=headers, meanwhile=no_admin)
    of_organization = write[1].startswith(("/v1/users", "/v1/projects")) and "members" not in write[1]
    assert status == (403 if of_organization else 404)


async def test_a_key_that_is_revoked_while_the_body_arrives_is_over_and_another_one_is_not(
    populated: Populated,
) -> None:
    services = populated.parts.services
    text = await make_key(services, Role.ADMIN, project=OTHER)
    key = services.accounts.directory.keys[directory.key_prefix(text) or ""]
    making: Write = ("PUT", f"/v1/projects/{OTHER}/members/neighbour", {"role": "admin"})
    headers = (("Authorization", f"Bearer {text}"),)
    unrelated = await make_key(services, Role.VIEWER, project=OWN)
    of_another = services.accounts.directory.keys[directory.key_prefix(unrelated) or ""]
    made = await late(populated, making, headers=headers, meanwhile=revoking(of_another))
    assert made[0] == 200
    assert await late(populated, making, headers=headers, meanwhile=revoking(key)) == (401, GONE)


async def test_a_personal_key_is_over_when_its_person_is_removed_while_the_body_arrives(populated: Populated) -> None:
    accounts = populated.parts.services.accounts
    new, text = directories.user("brief"), directories.text(1_234)
    key = directories.key(text, identifier="BRIEF", project=OWN, role=Role.USER, owner="brief")
    made = Amendment(Audited("created", "User", "brief"), users=(new,), members=(Member(OWN, new.id, Role.ADMIN),))
    await accounts.amend(lambda _: replace(made, keys=(key,)), actor="user:root", request=None)
    writing: Write = ("POST", "/v1/apply", {"resources": [parts.destination("late")]})
    headers = (("Authorization", f"Bearer {text}"),)
    for role, status in ((Role.USER, 202), (Role.VIEWER, 403)):
        changed = await late(populated, writing, headers=headers, meanwhile=setting(role))
        assert changed[0] == status
    await accounts.amend(setting(Role.ADMIN), actor="user:root", request=None)
    removing = await late(populated, writing, headers=headers, meanwhile=lambda d: changes.remove_user(d, "brief"))
    assert removing == (401, GONE)


def setting(role: Role) -> Decide:
    return lambda directory: changes.set_member(directory, project=OWN, name="brief", role=role)


def revoking(key: Key) -> Decide:
    return lambda directory: changes.revoke_key(directory, key)


@pytest.mark.parametrize("unlisted", [principals.SERVICE_KEY, principals.LOCAL])
def test_whoever_stands_in_no_directory_stays(unlisted: principals.Principal) -> None:
    assert directories.directory().still(unlisted, since=Directory(), now=directories.AT) is unlisted


class Overtaken(SigningIn):
    """Somebody sets another password for `late` while a new one waits for its turn to be hashed."""

    def __init__(self, accounts: Accounts) -> None:
        super().__init__(accounts)
        self._overtaken = accounts

    async def encode(self, password: str) -> str:
        await self._overtaken.amend(other_password, actor="user:root", request=None)
        return await super().encode(password)


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (WRITES[-1], (403, {"errors": ["The present password is another one."], "codes": ANY})),
        (("POST", "/v1/users", {"name": "mallory", "password": "a password of mallory"}), (401, GONE)),
        (("PATCH", "/v1/users/late", {"password": "a password of mallory"}), (401, GONE)),
    ],
)
async def test_a_password_that_was_replaced_meanwhile_stays_replaced(
    populated: Populated, headers: Pairs, write: Write, expected: object
) -> None:
    accounts = populated.parts.services.accounts
    method, path, body = write
    services = replace(populated.parts.services, signing_in=Overtaken(accounts))
    answer = await ask(api.app.build(services), method, path, headers=headers, body=json.dumps(body).encode())
    assert (answer.status, json.loads(answer.body)) == expected
    assert accounts.directory.users["late"].password == "another"
    assert "mallory" not in accounts.directory.users
