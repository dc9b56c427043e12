"""Every sort of caller, with what each sends to say who they are, and the projects that they are callers of.

Belongs here: people, keys and roles in real parts, and asking without a client in between. Does not: what is expected
of anybody.
"""

import asyncio
import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from starlette.types import ASGIApp, Message

from api.calls import Services
from reconciler.auth import sign_in
from reconciler.model.directory import Amendment, Audited, Key, Member, User
from reconciler.model.principals import Role, Scope
from tests.api import parts
from tests.auth import directories

OWN, OTHER, UNKNOWN = "own-project", "other-project", "no-project"
PASSWORD = "correct horse battery staple"
PAST = "2026-11-21T06:11:59.000Z"  # before the time of the tests

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who asks. `roles` are by project, `everywhere` for those that it does not name; `stranger`: nobody knows
    them; `scope` is that of a key for one thing alone.
    """

    name: str
    headers: Pairs = ()
    roles: Pairs = ()
    everywhere: str = ""
    scope: str = ""
    is_person: bool = False
    is_stranger: bool = False


class Answer(NamedTuple):
    """The answer that came back. The request's id, which no two answers share, is left out."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


async def ask(app: ASGIApp, method: str, path: str, *, headers: Sequence[tuple[str, str]], body: bytes = b"") -> Answer:
    """One request to an application, without a connection."""
    path, _, query = path.partition("?")
    sent: list[Message] = []
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "headers": [*raw, (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))],
        "client": ("192.0.2.1", 40_000),
    }

    waiting: list[Message] = [{"type": "http.request", "body": body}]

    async def receive() -> Message:
        return waiting.pop() if waiting else await asyncio.Future()  # the client stays, and sends no more

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    told = tuple((name, value) for name, value in sent[0]["headers"] if name != b"x-request-id")
    return Answer(sent[0]["status"], told, b"".join(message.get("body", b"") for message in sent[1:]))


async def settle(services: Services) -> Mapping[str, Caller]:
    """Make every sort of caller known to the service, by name."""
    callers = [*_people(), *_keys(), *_strangers()]
    await _amend(services, [name for name in (OWN, OTHER) if name not in services.accounts.directory.projects])
    return {caller.name: caller for caller in callers}


PEOPLE: Mapping[str, Pairs] = {
    "viewer": ((OWN, "viewer"),),
    "user": ((OWN, "user"),),
    "admin": ((OWN, "admin"),),
    "neighbour": ((OTHER, "admin"),),
    "both": ((OTHER, "admin"), (OWN, "viewer")),
    "nobodys": (),
}


class _Made(NamedTuple):
    """A key to make."""

    name: str
    project: str | None
    role: Role
    scope: Scope = Scope.RESOURCES
    expires_at: str | None = None
    owner: str | None = None
    roles: Pairs | None = None  # where they are not what the rest says


KEYS = (
    *(_Made(f"key of a {role}", OWN, role) for role in Role),
    _Made("key of a neighbour", OTHER, Role.ADMIN),
    *(_Made(f"organization key of a {role}", None, role) for role in Role),
    _Made("key for logs", OWN, Role.ADMIN, Scope.LOGS),
    _Made("key for metrics", OWN, Role.ADMIN, Scope.METRICS),
    _Made("organization key for logs", None, Role.ADMIN, Scope.LOGS),
    _Made("organization key for metrics", None, Role.ADMIN, Scope.METRICS),
    _Made("key for loading", OWN, Role.VIEWER, Scope.RAW),
    _Made("organization key for loading", None, Role.VIEWER, Scope.RAW),
    _Made("personal key of a user", OWN, Role.ADMIN, owner="user", roles=((OWN, "user"),)),
    _Made("personal key of a viewer, for all projects", None, Role.ADMIN, owner="viewer", roles=((OWN, "viewer"),)),
    _Made("personal key of both", None, Role.USER, owner="both", roles=((OTHER, "user"), (OWN, "viewer"))),
    _Made("personal key of nobody's", OWN, Role.ADMIN, owner="nobodys", roles=()),
    _Made("personal key of an organization admin", None, Role.ADMIN, owner="root"),
    _Made("expired", OWN, Role.ADMIN, expires_at=PAST),
)


AS_PASSWORDS = ("key of a viewer", "key of a admin", "key for loading", "key for logs", "expired", "SERVICE_API_KEY")
"""Keys that are shown by HTTP Basic, too. The name beside one is a person's, who may do everything."""


def _people() -> list[Caller]:
    basic = {name: _basic(name) for name in (*PEOPLE, "root")}
    members = [Caller(name, basic[name], roles=roles, is_person=True) for name, roles in PEOPLE.items()]
    return [*members, Caller("root", basic["root"], everywhere="root", is_person=True)]


def _keys() -> list[Caller]:
    found = []
    for number, made in enumerate(KEYS):
        scope = "" if made.scope is Scope.RESOURCES else made.scope.value
        everywhere = "root" if made.role is Role.ADMIN else made.role.value
        roles = () if made.project is None else ((made.project, made.role.value),)
        found.append(
            Caller(
                made.name,
                _bearer(directories.text(1_000 + number)),
                roles=roles if made.roles is None else made.roles,
                everywhere="" if made.project is not None or made.roles is not None else everywhere,
                scope=scope,
                is_stranger=made.expires_at is not None,
            )
        )
    found.append(Caller("SERVICE_API_KEY", (("X-Service-Api-Key", parts.KEY),), everywhere="root"))
    as_passwords = (one for one in found if one.name in AS_PASSWORDS)
    return [*found, *(replace(one, name=f"{one.name}, as a password", headers=_password(one)) for one in as_passwords)]


def _strangers() -> list[Caller]:
    shown = {
        "nobody": (),
        "wrong key": _bearer(directories.text(998)),
        "wrong secret": _bearer(directories.text(1_000)[:-1] + "_"),
        "revoked": _bearer(directories.text(999)),
        "no key": (("Authorization", "Bearer not-a-key"),),
        "wrong key, as a password": password_header(f"root:{directories.text(998)}"),
        "revoked, as a password": password_header(f"root:{directories.text(999)}"),
        "no key, as a password": password_header("root:rck_not-a-key"),
    }
    return [Caller(name, headers, is_stranger=True) for name, headers in shown.items()]


async def _amend(services: Services, projects: Sequence[str]) -> None:
    """One change for the people and keys, and one that takes the revoked key away."""
    for project in projects:
        await services.accounts.ensure_project(project)
    encoded = sign_in.encode_password(PASSWORD)
    people = {name: directories.user(name, password=encoded) for name in PEOPLE}
    root = directories.user("root", organization_admin=True, password=encoded)
    revoked = _key(999, _Made("revoked", OWN, Role.ADMIN))
    audited = Audited("created", "User", "everybody")
    amendment = Amendment(
        audited,
        users=(*people.values(), root),
        members=tuple(_members(people)),
        keys=(revoked, *(_key(1_000 + number, made) for number, made in enumerate(KEYS))),
    )
    await services.accounts.amend(lambda _: amendment, actor="user:root", request=None)
    gone = Amendment(audited, revoked_keys=(revoked,))
    await services.accounts.amend(lambda _: gone, actor="user:root", request=None)


def _members(people: Mapping[str, User]) -> list[Member]:
    return [Member(project, people[name].id, Role(role)) for name, roles in PEOPLE.items() for project, role in roles]


def _key(number: int, made: _Made) -> Key:
    return directories.key(
        directories.text(number),
        identifier=f"KEY{number}",
        project=made.project,
        role=made.role,
        scopes=frozenset({made.scope}),
        expires_at=made.expires_at,
        owner=made.owner,
    )


def _basic(name: str) -> Pairs:
    return password_header(f"{name}:{PASSWORD}")


def password_header(text: str) -> Pairs:
    """The header of HTTP Basic with this in it."""
    return (("Authorization", f"Basic {base64.b64encode(text.encode()).decode()}"),)


def _password(one: Caller) -> Pairs:
    key = one.headers[0][1].removeprefix("Bearer ")
    return password_header(f"root:{key}")


def _bearer(key: str) -> Pairs:
    return (("Authorization", f"Bearer {key}"),)
