"""`/sign-in`: a name and a password, where people have one (`auth.type: local`).

Belongs here: the form and the session that follows. Does not: comparing passwords and slowing down whoever guesses
(`reconciler.auth.passwords`).
"""

from starlette.responses import Response

from api import auditing, errors
from api.auth import authenticating
from api.calls import Call
from api.pages import forms, pacing, paths, provider, visitors
from api.pages.mistakes import Mistake
from api.pages.rendering import Elsewhere, Page, page
from reconciler.auth.oidc import flows
from reconciler.auth.sessions import SessionGone

WRONG = "The name or the password is wrong."
CHANGED = "Your access was changed while you signed in; sign in once more."


async def show_sign_in(call: Call) -> Response:
    """GET /sign-in"""
    back = visitors.asked_back(call)
    if call.services.auth_type == "oidc":
        return await provider.lead_to_provider(call, back=back)
    if call.services.auth_type == "none":
        return Elsewhere(paths.ACCOUNT)
    return _form(back=back)


async def sign_in(call: Call) -> Response:
    """POST /sign-in"""
    if call.services.auth_type != "local":
        raise errors.NotFound("People do not sign in with a password here.")
    form = await forms.read_form(call)
    pacing.check_pace(call, paths.SIGN_IN)
    name, password, back = form.text("name"), form.text("password"), flows.local_path(form.text("back"))
    directory = call.services.accounts.directory
    principal = await call.services.signing_in.principal(name, password, address=call.address)
    user = None if principal is None or principal.user is None else directory.user(principal.user)
    if user is None:
        return _form(back=back, name=name, mistakes=(Mistake("name", WRONG),))
    try:
        token = await call.services.sessions.begin(user, since=directory, instead_of=visitors.session_token(call))
    except SessionGone:
        return _form(back=back, name=name, mistakes=(Mistake("", CHANGED),))
    await auditing.signed_in(call, user)
    jar = visitors.cookie_jar(call)
    return Elsewhere(back, headers=(jar.given(jar.session, token),))


def _form(*, back: str, name: str = "", mistakes: tuple[Mistake, ...] = ()) -> Page:
    headers = ((b"www-authenticate", authenticating.OF_KEYS),) if mistakes else ()
    status = 401 if mistakes else 200
    return page("sign-in", status=status, headers=headers, back=back, name=name, mistakes=mistakes)
