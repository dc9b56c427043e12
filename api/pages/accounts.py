"""`/account`: who somebody is here, what they may reach, the keys that they may see, and another password.

Belongs here: the page and where its forms lead back to. Does not: who may do what with keys (`api.api_keys`, whose
rules these are) and passwords (`api.identities`).
"""

import os
from urllib.parse import quote

from starlette.responses import Response

from api import errors, identities, queries
from api.calls import Call
from api.pages import account_keys, forms, paths, provider, visitors
from api.pages.account_keys import AskedKey
from api.pages.mistakes import Mistake
from api.pages.rendering import Elsewhere, Page, page
from api.pages.shown import ShownPart
from reconciler.auth import changes, rate_limits
from reconciler.auth.sessions import SessionGone
from reconciler.model.directory import User

MOST_SHOWN = 200  # projects: the page of an admin of thousands stays one that can be read
DONE = {
    "password": "The password is changed. Every other session of yours has ended.",
    "revoked": "The key is revoked.",
    "sent": "This form was sent already: its key is made, and no other one.",
}
NO_VALUE = "This form does not come from the page of the account; open that page, and send it from there."


async def home(_call: Call) -> Response:
    """GET /"""
    return Elsewhere(paths.ACCOUNT)


async def show(call: Call) -> Response:
    """GET /account"""
    query = queries.Query(call.query, known=frozenset({"done"}), strict=False)
    query.check()
    if visitors.recognise(call):
        return _page(call, done=DONE.get(query.text("done") or "", ""))
    if call.services.auth_type == "oidc":
        return await provider.lead_to_provider(call, back=paths.ACCOUNT)
    return Elsewhere(f"{paths.SIGN_IN}?back={quote(paths.ACCOUNT)}")


async def make_key(call: Call) -> Response:
    """POST /account/keys"""
    queries.none_known(call.query)
    visitors.require(call)
    form = await forms.read_form(call)
    asked, once = account_keys.read_asked(form), form.text("once")
    if not rate_limits.is_form_token(once):
        raise errors.BadRequest(NO_VALUE)
    if not call.services.sent_forms.take(call.principal.name, once):
        return Elsewhere(f"{paths.ACCOUNT}?done=sent")
    try:
        key, text = await account_keys.make_form_key(call, asked)
    except Exception as problem:
        call.services.sent_forms.give_back(call.principal.name, once)
        if not isinstance(problem, account_keys.Mistaken):
            raise
        return _page(call, asked=asked, mistakes=problem.mistakes)
    # On this answer alone: a redirect would have to carry the key in a URL, or keep it somewhere.
    return page("key", status=201, key=key, text=text, who=_who(call), can_sign_out=_can_sign_out(call))


async def revoke_key(call: Call) -> Response:
    """POST /account/keys/revoke"""
    queries.none_known(call.query)
    visitors.require(call)
    form = await forms.read_form(call)
    await account_keys.end_form_key(call, form.text("id"))
    return Elsewhere(f"{paths.ACCOUNT}?done=revoked")


async def change_password(call: Call) -> Response:
    """POST /account/password"""
    queries.none_known(call.query)
    visitors.require(call)
    form = await forms.read_form(call)
    try:
        await _replace_password(call, form)
    except _Wrong as problem:
        return _page(call, mistakes=(problem.mistake,))
    # Another password ends every session of the person, this one too: a new one begins, with another cookie.
    directory = call.services.accounts.directory
    user = directory.user(call.principal.user or "")
    jar, cookie = visitors.cookie_jar(call), None
    if user is not None:
        try:
            token = await call.services.sessions.begin(user, since=directory, instead_of=visitors.session_token(call))
            cookie = jar.given(jar.session, token)
        except SessionGone:
            cookie = None
    return Elsewhere(f"{paths.ACCOUNT}?done=password", headers=(cookie or jar.taken(jar.session),))


class _Wrong(Exception):
    """What is wrong with a change of the password."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.mistake = Mistake(field, sentence)


async def _replace_password(call: Call, form: forms.Form) -> None:
    """Raises _Wrong, and what `identities.replace_password` does."""
    new = form.text("newPassword")
    try:
        changes.check_password(new)
    except changes.Invalid as problem:
        raise _Wrong("new-password", problem.message) from None
    if form.text("repeated") != new:
        raise _Wrong("repeated-password", "The new password is not the same both times.")
    try:
        await identities.replace_password(call, form.text("password"), new)
    except identities.WrongPassword as problem:
        raise _Wrong("old-password", problem.message) from None


def _page(call: Call, *, done: str = "", asked: AskedKey | None = None, mistakes: tuple[Mistake, ...] = ()) -> Page:
    """The whole page as it is now; `asked` is what was filled in for a key."""
    user, choices = _user(call), account_keys.key_choices(call)
    return page(
        "account",
        status=400 if mistakes else 200,
        who=_who(call),
        can_sign_out=_can_sign_out(call),
        mistakes=mistakes,
        done=done,
        facts=_facts(call, user),
        projects=_projects(call),
        keys=account_keys.shown_keys(call),
        choices=choices,
        own=account_keys.OWN,
        values=asked or account_keys.at_first(choices),
        once=rate_limits.form_token(os.urandom(rate_limits.RANDOM_BYTES)),
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
