"""The account page and its keys."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import quote

from starlette.responses import Response

from api import calls, errors, requests, users
from api import projects as api_projects
from api.calls import Call
from api.pages import forms, sign_in
from api.pages.forms import Elsewhere, Form, Mistake, Page, PagePath, page
from api.requests import Members
from reconciler.auth import changes, rate_limits
from reconciler.auth.sessions import SessionGone
from reconciler.model.clock import rfc3339
from reconciler.model.directory import Key, User, is_expired
from reconciler.model.principals import Permission, Role, Scope

# A long list, as far as a page shows it.

T = TypeVar("T")


class ShownPart(NamedTuple, Generic[T]):
    """The first of them, and how many more there are, as text; empty for none."""

    shown: Sequence[T]
    more: str

    @classmethod
    def of(cls, everything: "Sequence[T]", *, most: int) -> "ShownPart[T]":
        """As many as may be."""
        left = len(everything) - most
        return cls(everything[:most], f"{left:,}" if left > 0 else "")


# The keys on the account's page: those that somebody may see, what may be filled in for another, making and revoking.

MOST_SHOWN = 200
MOST_CHOICES = 200  # of projects; where there are more, their names are typed
EVERY_PROJECT = "The whole organization"
EXPIRIES = (
    ("720h", "in 30 days"),
    ("2160h", "in 90 days"),
    ("8760h", "in 365 days"),
    ("", f"in {changes.KEY_LASTS.days} days; a key of your own never"),
)
OWN = "own"  # what the form says of a personal key
SCOPES = {
    Scope.RESOURCES: "resources: what its role permits",
    Scope.LOGS: "logs: sending log records in",
    Scope.METRICS: "metrics: reading the service's own metrics",
    Scope.RAW: "raw: reading what a Collector loads",
}
NAMES = {
    "name": "The name",
    "project": "The project",
    "role": "The role",
    "expiry": "The end",
    "personal": "Whose it is",
}
CHOOSE = "Choose at least one of the scopes."


@dataclass(frozen=True, slots=True)
class AskedKey:
    """The values that were filled in."""

    name: str = ""
    project: str = ""
    role: str = Role.VIEWER.value
    scopes: tuple[str, ...] = (Scope.RESOURCES.value,)
    expiry: str = "2160h"
    whose: str = ""


class KeyChoices(NamedTuple):
    """The choices, each as value and words; no `projects` where there are too many to list."""

    projects: Sequence[tuple[str, str]] | None
    roles: Sequence[str]
    scopes: Sequence[tuple[str, str]]
    expiries: Sequence[tuple[str, str]]
    can_own: bool
    can_share: bool  # make keys that are not their own


class ShownKey(NamedTuple):
    """A key that there is."""

    id: str
    name: str
    facts: Sequence[tuple[str, str]]


class Mistaken(Exception):
    """The mistakes in a request for a key."""

    def __init__(self, *mistakes: Mistake) -> None:
        super().__init__()
        self.mistakes = mistakes


def read_asked(form: Form) -> AskedKey:
    """Read a form. Raises `BadRequest` for a field that is given twice."""
    return AskedKey(
        name=form.text("name"),
        project=form.text("project"),
        role=form.text("role"),
        scopes=tuple(form.texts("scopes")),
        expiry=form.text("expiry"),
        whose=form.text("whose"),
    )


async def make_form_key(call: Call, wanted: AskedKey) -> tuple[Key, str]:
    """The new key, and its text. Raises Mistaken, `NotFound`, `Forbidden`."""
    try:
        return await api_projects.make_key(call, _Fields(wanted))
    except (changes.Invalid, changes.Conflict) as problem:
        raise Mistaken(Mistake("key-name", problem.message)) from None


async def end_form_key(call: Call, identifier: str) -> None:
    """Revoke a key. Raises `Missing`, `NotFound`, `Forbidden`."""
    await api_projects.end_key(call, identifier)


def shown_keys(call: Call) -> ShownPart[ShownKey] | None:
    """The keys that somebody may see; None for who may have none, of any project."""
    if not call.principal.roles and not api_projects.may_manage_any(call.principal):
        return None
    part = ShownPart.of(api_projects.visible(call), most=MOST_SHOWN)
    return ShownPart([_shown(call, key) for key in part.shown], part.more)


def key_choices(call: Call) -> KeyChoices:
    """Return the choices for another key."""
    admin, can_share = call.principal.organization_admin, api_projects.may_manage_any(call.principal)
    existing = sorted(call.services.accounts.directory.projects)
    names = [name for name in existing if call.principal.role_in(name) is not None]
    # Those whose keys one may make come first: the first is the one that is chosen.
    names.sort(key=lambda name: not calls.permits(call, Permission.MANAGE_KEYS, project=name))
    projects = [(name, name) for name in names] + ([("", EVERY_PROJECT)] if admin else [])
    return KeyChoices(
        projects=projects if len(projects) <= MOST_CHOICES else None,
        roles=[role.value for role in Role],
        scopes=[(scope.value, words) for scope, words in SCOPES.items() if admin or scope is not Scope.METRICS],
        expiries=EXPIRIES,
        can_own=call.principal.user is not None,
        can_share=can_share,
    )


def at_first(choices: KeyChoices) -> AskedKey:
    """Return the first values of a form: the whole organization must be chosen."""
    whose = "" if choices.can_share else OWN
    return AskedKey(project=choices.projects[0][0], whose=whose) if choices.projects else AskedKey(whose=whose)


class _Fields(Members):
    """A form's fields as the members of a body, each mistake at its field."""

    def __init__(self, wanted: AskedKey) -> None:
        super().__init__(
            {
                "name": wanted.name,
                "project": wanted.project or None,
                "role": wanted.role,
                "scopes": list(wanted.scopes),
                "personal": wanted.whose == OWN,
                **({"expiry": wanted.expiry} if wanted.expiry else {}),
            },
            known=api_projects.API_KEY_MEMBERS,
        )
        self.found: list[Mistake] = []

    def mistake(self, name: str, sentence: str) -> None:
        told = CHOOSE if name == "scopes" else f"{NAMES[name]} {sentence}."
        self.found.append(Mistake(f"key-{name}", told))

    def check(self) -> None:
        if self.found:
            raise Mistaken(*self.found)


def _shown(call: Call, key: Key) -> ShownKey:
    over = is_expired(key, now=rfc3339(call.services.clock()))
    end = "never" if key.expires_at is None else key.expires_at
    return ShownKey(
        key.id,
        key.name,
        (
            ("Begins with", key.prefix),
            (
                "Project",
                key.project if key.project is not None else EVERY_PROJECT if key.owner is None else "Every one",
            ),
            ("Role", key.role.value if key.owner is None else f"{key.role.value}, and at most that of its person"),
            ("Scopes", ", ".join(sorted(key.scopes))),
            ("Made", f"{key.created_at} by {key.created_by}"),
            ("Ends", f"{end} (it has ended)" if over else end),
            ("Last used", key.last_used_at or "never"),
        ),
    )


# `/account`: who somebody is here, what they may reach, the keys that they may see, and another password.

DONE = {
    "password": "The password is changed. Every other session of yours has ended.",
    "revoked": "The key is revoked.",
    "sent": "This form was sent already: its key is made, and no other one.",
}
NO_VALUE = "This form does not come from the page of the account; open that page, and send it from there."


async def home(_call: Call) -> Response:
    """GET /"""
    return Elsewhere(PagePath.ACCOUNT)


async def show(call: Call) -> Response:
    """GET /account"""
    query = requests.Query(call.query, known=frozenset({"done"}), strict=False)
    query.check()
    if forms.recognise(call):
        return _page(call, done=DONE.get(query.text("done") or "", ""))
    if call.services.auth_type == "oidc":
        return await sign_in.lead_to_provider(call, back=PagePath.ACCOUNT)
    return Elsewhere(f"{PagePath.SIGN_IN}?back={quote(PagePath.ACCOUNT)}")


async def make_key(call: Call) -> Response:
    """POST /account/keys"""
    requests.none_known(call.query)
    forms.require(call)
    form = await forms.read_form(call)
    asked, once = read_asked(form), form.text("once")
    if not rate_limits.is_form_token(once):
        raise errors.BadRequest(NO_VALUE)
    if not call.services.sent_forms.take((call.principal.name, once)):
        return Elsewhere(f"{PagePath.ACCOUNT}?done=sent")
    try:
        key, text = await make_form_key(call, asked)
    except Exception as problem:
        call.services.sent_forms.give_back((call.principal.name, once))
        if not isinstance(problem, Mistaken):
            raise
        return _page(call, asked=asked, mistakes=problem.mistakes)
    # On this answer alone: a redirect would have to carry the key in a URL, or keep it somewhere.
    return page("key", status=201, key=key, text=text, who=_who(call), can_sign_out=_can_sign_out(call))


async def revoke_key(call: Call) -> Response:
    """POST /account/keys/revoke"""
    requests.none_known(call.query)
    forms.require(call)
    form = await forms.read_form(call)
    await end_form_key(call, form.text("id"))
    return Elsewhere(f"{PagePath.ACCOUNT}?done=revoked")


async def change_password(call: Call) -> Response:
    """POST /account/password"""
    requests.none_known(call.query)
    forms.require(call)
    form = await forms.read_form(call)
    try:
        await _replace_password(call, form)
    except _Wrong as problem:
        return _page(call, mistakes=(problem.mistake,))
    # Another password ends every session of the person, this one too: a new one begins, with another cookie.
    directory = call.services.accounts.directory
    user = directory.user(call.principal.user or "")
    jar, cookie = forms.cookie_jar(call), None
    if user is not None:
        try:
            token = await call.services.sessions.begin(user, since=directory, instead_of=forms.session_token(call))
            cookie = jar.given(jar.session, token)
        except SessionGone:
            cookie = None
    return Elsewhere(f"{PagePath.ACCOUNT}?done=password", headers=(cookie or jar.taken(jar.session),))


class _Wrong(Exception):
    """Return the mistakes in a change of the password."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.mistake = Mistake(field, sentence)


async def _replace_password(call: Call, form: forms.Form) -> None:
    """Raises _Wrong, and what `users.replace_password` does."""
    new = form.text("newPassword")
    try:
        changes.check_password(new)
    except changes.Invalid as problem:
        raise _Wrong("new-password", problem.message) from None
    if form.text("repeated") != new:
        raise _Wrong("repeated-password", "The new password is not the same both times.")
    try:
        await users.replace_password(call, form.text("password"), new)
    except users.WrongPassword as problem:
        raise _Wrong("old-password", problem.message) from None


def _page(call: Call, *, done: str = "", asked: AskedKey | None = None, mistakes: tuple[Mistake, ...] = ()) -> Page:
    """The whole page as it is now; `asked` is what was filled in for a key."""
    user, choices = _user(call), key_choices(call)
    return page(
        "account",
        status=400 if mistakes else 200,
        who=_who(call),
        can_sign_out=_can_sign_out(call),
        mistakes=mistakes,
        done=done,
        facts=_facts(call, user),
        projects=_projects(call),
        keys=shown_keys(call),
        choices=choices,
        own=OWN,
        values=asked or at_first(choices),
        once=secrets.token_urlsafe(rate_limits.FORM_TOKEN_BYTES),
        has_password=call.services.auth_type == "local" and user is not None and user.password is not None,
        username="" if user is None else user.name,
        shortest=changes.SHORTEST_PASSWORD,
    )


def _user(call: Call) -> User | None:
    """The person; None for whoever is at this machine where nobody signs in."""
    return call.services.accounts.directory.user(call.principal.user or "")


def _who(call: Call) -> str:
    user = _user(call)
    return call.principal.name if user is None else user.display_name or user.name


def _can_sign_out(call: Call) -> bool:
    return call.services.anybody is None


def _facts(call: Call, user: User | None) -> tuple[tuple[str, str], ...]:
    name = call.principal.name.removeprefix("user:") if user is None else user.name
    found = [("User name", name)]
    if user is not None and user.display_name:
        found.append(("Name", user.display_name))
    if user is not None and user.email:
        found.append(("E-mail address", user.email))
    if call.principal.organization_admin:
        found.append(("Organization admin", "yes: everything, in every project"))
    return tuple(found)


def _projects(call: Call) -> ShownPart[tuple[str, str]]:
    directory = call.services.accounts.directory
    roles = ((name, call.principal.role_in(name)) for name in sorted(directory.projects))
    return ShownPart.of([(name, role.value) for name, role in roles if role is not None], most=MOST_SHOWN)
