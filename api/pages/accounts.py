"""`/account`: a person's identity, projects, keys and password."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from api import access, audit_events, auth, projects, requests, users
from api.calls import Call, Subject
from api.pages import forms, sign_in
from api.pages.forms import Form, Mistake, PagePath
from api.routing import Routes
from reconciler.auth import changes
from reconciler.auth.sessions import SessionGone
from reconciler.model.clock import rfc3339
from reconciler.model.directory import User, is_expired
from reconciler.model.principals import Permission, Role, Scope
from reconciler.model.values import Value

routes = Routes(forms.STYLE)

MOST_SHOWN = 200  # projects, and as many keys
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
NAMES = {  # of what may be wrong in the form of a key
    "name": "The name",
    "project": "The project",
    "role": "The role",
    "expiry": "The end",
    "personal": "Whose it is",
}
CHOOSE = "Choose at least one of the scopes."
DONE = {
    "password": "The password is changed. Every other session of yours has ended.",
    "revoked": "The key is revoked.",
}


@routes.add(f"GET {PagePath.ACCOUNT}", Subject.PUBLIC)
async def show(call: Call) -> Response:
    """Show the account, or lead to the sign-in."""
    query = requests.Query(call.query, known=frozenset({"done"}), strict=False)
    query.check()
    if await forms.recognise(call):
        return _page(call, done=DONE.get(query.text("done") or "", ""))
    if call.services.auth_type == "oidc":
        return await sign_in.lead_to_provider(call, back=PagePath.ACCOUNT)
    return forms.elsewhere(f"{PagePath.SIGN_IN}?back={quote(PagePath.ACCOUNT)}")


@routes.add(f"POST {PagePath.ACCOUNT_KEYS}", Subject.PUBLIC)
async def make_key(call: Call) -> Response:
    """Create a key, and show it once."""
    form = await forms.read_own_form(call)
    values = _asked(form)
    try:
        key, text = await projects.make_key(call, _members(values))
    except Exception as problem:
        return _page(call, values=values, mistakes=_mistakes(problem))
    # The key is only on this page: a redirect would have to carry it in a URL, or store it.
    return forms.page("key", status=201, key=key, text=text, **_visitor(call))


def _asked(form: Form) -> Mapping[str, Value]:
    """Return the fields that were filled in for a key. Raises `BadRequest` for a field that is given twice."""
    texts = {name: form.text(name) for name in ("name", "project", "role", "expiry", "whose")}
    return {**texts, "scopes": [*form.texts("scopes")]}


def _members(values: Mapping[str, Value]) -> requests.Members:
    """Return the fields as the members of a body."""
    given = {name: values[name] for name in ("name", "role", "scopes")}
    given["project"], given["personal"] = values["project"] or None, values["whose"] == OWN
    if values["expiry"]:
        given["expiry"] = values["expiry"]
    return requests.Members(given, known=projects.API_KEY_MEMBERS)


def _mistakes(problem: Exception) -> Sequence[Mistake]:
    """Return the mistakes of the form by field. An error that no field causes is raised again."""
    if isinstance(problem, (changes.Invalid, changes.Conflict)):
        return [Mistake("key-name", problem.message)]
    if isinstance(problem, requests.InvalidBody):
        return [
            Mistake(f"key-{name}", CHOOSE if name == "scopes" else f"{NAMES[name]} {sentence}.")
            for name, sentence in problem.mistakes
        ]
    raise problem


@routes.add(f"POST {PagePath.REVOKE}", Subject.PUBLIC)
async def revoke_key(call: Call) -> Response:
    """Revoke a key."""
    form = await forms.read_own_form(call)
    await projects.end_key(call, form.text("id"))
    return forms.elsewhere(f"{PagePath.ACCOUNT}?done=revoked")


@routes.add(f"POST {PagePath.PASSWORD}", Subject.PUBLIC)
async def change_password(call: Call) -> Response:
    """Change the password."""
    form = await forms.read_own_form(call)
    mistake = await _change_password(call, form)
    if mistake is not None:
        return _page(call, mistakes=[mistake])
    # Another password ends every session of the person, this one too: a new one begins, with another cookie.
    user, cookies = _user(call), auth.cookies(call)
    cookie = cookies.taken(cookies.session)
    if user is not None:
        try:
            token = await call.services.sessions.begin(user, since=call.directory, instead_of=forms.session_token(call))
            cookie = cookies.given(cookies.session, token)
        except SessionGone:
            pass
    return forms.elsewhere(f"{PagePath.ACCOUNT}?done=password", cookie)


@routes.add(f"POST {PagePath.EVERYWHERE}", Subject.PUBLIC)
async def sign_out_everywhere(call: Call) -> Response:
    """End every session of the person, this one too."""
    await forms.read_own_form(call)
    user, cookies = _user(call), auth.cookies(call)
    if user is not None:
        await call.services.sessions.end_all(user.id)
        await audit_events.signed_out(call, user)
    return forms.elsewhere(PagePath.SIGNED_OUT, cookies.taken(cookies.session))


async def _change_password(call: Call, form: Form) -> Mistake | None:
    """Change the password, or return the mistake in the form. Raises the other errors of `users.replace_password`."""
    new = form.text("newPassword")
    try:
        changes.check_password(new)
    except changes.Invalid as problem:
        return Mistake("new-password", problem.message)
    if form.text("repeated") != new:
        return Mistake("repeated-password", "The new password is not the same both times.")
    try:
        await users.replace_password(call, form.text("password"), new)
    except users.WrongPassword as problem:
        return Mistake("old-password", problem.message)
    return None


def _page(
    call: Call, *, done: str = "", values: Mapping[str, Value] | None = None, mistakes: Sequence[Mistake] = ()
) -> Response:
    """Return the present page; `values` are the entered fields of a key."""
    user, principal = _user(call), call.principal
    can_share, is_admin = projects.may_manage_any(principal), principal.organization_admin
    roles = {name: principal.role_in(name) for name in sorted(call.directory.projects)}
    reached = {name: role.value for name, role in roles.items() if role is not None}
    # Projects in which the person may create keys come first, because the first one is preselected.
    names = sorted(reached, key=lambda name: not access.permits(call, Permission.MANAGE_KEYS, project=name))
    choices = [(name, name) for name in names] + ([("", EVERY_PROJECT)] if is_admin else [])
    first = {  # the whole organization must be chosen
        "name": "",
        "project": choices[0][0] if choices else "",
        "role": Role.VIEWER.value,
        "scopes": [Scope.RESOURCES.value],
        "expiry": "2160h",
        "whose": "" if can_share else OWN,
    }
    return forms.page(
        "account",
        status=400 if mistakes else 200,
        **_visitor(call),
        mistakes=mistakes,
        done=done,
        principal=principal,
        user=user,
        projects=reached,
        most=MOST_SHOWN,
        keys=projects.visible(call) if principal.roles or can_share else None,  # None for who may have none
        is_over=lambda key: is_expired(key, now=rfc3339(call.services.clock())),
        every_project=EVERY_PROJECT,
        choices=choices,
        roles=[role.value for role in Role],
        scopes=[(scope.value, words) for scope, words in SCOPES.items() if is_admin or scope is not Scope.METRICS],
        expiries=EXPIRIES,
        can_own=principal.user is not None,
        can_share=can_share,
        own=OWN,
        values=values or first,
        sessions=[] if user is None else call.services.sessions.of_user(user.id),
        this=None if call.caller is None or call.caller.session is None else call.caller.session.digest,
        now=call.services.clock(),
        has_password=call.services.auth_type == "local" and user is not None and user.password is not None,
        shortest=changes.SHORTEST_PASSWORD,
    )


def _user(call: Call) -> User | None:
    """Return the person; None for a visitor of a service where nobody signs in."""
    return call.directory.user(call.principal.user or "")


def _visitor(call: Call) -> dict[str, Any]:
    """Return the person that a page names at its top."""
    user = _user(call)
    who = call.principal.name if user is None else user.display_name or user.name
    return {"who": who, "can_sign_out": call.services.anybody is None}
