"""Sign-in and sign-out pages."""

import asyncio
import logging
from collections.abc import Mapping
from urllib.parse import parse_qs

from starlette.responses import Response

from api import audit_events, auth, errors, requests
from api.calls import Call, Provider, Subject
from api.pages import forms
from api.pages.forms import ACCOUNT, FailureLink, Mistake, PagePath, page
from api.responses import Header
from api.routing import Routes
from reconciler.auth import admission, changes
from reconciler.auth.admission import NotAdmitted
from reconciler.auth.oidc import discovery, flows, provider
from reconciler.auth.oidc.flows import Flow
from reconciler.auth.sessions import SessionGone
from reconciler.model.directory import ProvedIdentity
from reconciler.model.errors import ReconcilerError
from reconciler.store.contract import StoreFault

routes = Routes(forms.STYLE)

# `/sign-out` and `/signed-out`: signing out here and at the provider.

log = logging.getLogger(__name__)

OUT = "You are signed out"
AGAIN = FailureLink(PagePath.ACCOUNT, "Sign in again")


@routes.add(f"POST {PagePath.SIGN_OUT}", Subject.PUBLIC)
async def sign_out(call: Call) -> Response:
    """End the session, here and at the provider."""
    await forms.read_form(call)
    session, cookies = None, auth.cookies(call)
    try:
        session = await call.services.sessions.end(forms.session_token(call))
    except StoreFault as fault:  # the session has ended nevertheless, and the browser is told so
        log.error("That somebody signed out could not be written, and is tried again: %s", fault.message)
    if session is not None:
        await audit_events.signed_out(call, call.directory.user(session.user))
    cookie = cookies.taken(cookies.session)
    provider = call.services.provider
    # This works without a hint too: a long ID token is not kept, and then the provider asks the person.
    if provider is not None and session is not None:
        elsewhere = await provider.end_session(id_token=session.id_token)
        if elsewhere is not None:
            # Not a redirect, for the reason that stands in `invitations`.
            sentence = "Here you are signed out; the provider signs you out next."
            return page("onwards", headers=(cookie,), place=elsewhere, heading=OUT, sentence=sentence)
    return forms.elsewhere(PagePath.SIGNED_OUT, cookie)


@routes.add(f"GET {PagePath.SIGNED_OUT}", Subject.PUBLIC)
async def show_signed_out(_call: Call) -> Response:
    """Say that the browser is signed out."""
    sentences = ("This browser is not signed in here any more.",)
    return page("message", heading=OUT, sentences=sentences, links=(AGAIN,))


# The rate limit for unknown callers of expensive pages, by address.

# Enough for an office behind one address. Each sign-in counts twice, at its beginning and at its return. The limit for
# wrong passwords is much lower.
MOST_AT_ONCE = 120


def check_pace(call: Call) -> None:
    """Count a request of the client's address. Raises `TooMany`."""
    seconds = call.services.paces.take(auth.address(call), MOST_AT_ONCE, now=asyncio.get_running_loop().time())
    if seconds > 0:
        raise errors.TooMany("Too many people sign in from this address at once; wait a little.", after=seconds)


# `/oidc/sign-in` and `/oidc/redirect`: signing in through the provider (`auth.type: oidc`).
#
# A failure is one sentence for the person, and a log line for the operator with the same id.

ANOTHER = "Sign out at the provider, to come as somebody else"
NOT_SIGNED_IN = "You are not signed in"
CHALLENGE: Header = (b"www-authenticate", auth.OF_KEYS)
UNUSABLE = (discovery.ProviderUnreachable, discovery.ProviderUnfit)
LOST = (
    "This sign-in was begun in another browser or window, took longer than ten minutes, or the browser keeps no "
    "cookies."
)
ADDRESS = "Begin again, at {}."
ELSEWHERE = (  # for the log
    "Somebody came back from the provider to a sign-in that their browser does not know: it took too long or went on "
    "in another window; when it comes again, people come by another address than webURL (%s), or their browsers keep "
    "no cookies."
)


@routes.add(f"GET {PagePath.PROVIDER}", Subject.PUBLIC)
async def begin_sign_in(call: Call) -> Response:
    """Lead to the provider."""
    _provider(call)
    return await lead_to_provider(call, back=forms.asked_back(call))


async def lead_to_provider(call: Call, *, back: str) -> Response:
    """Lead the browser to the provider, and from there to `back`, a local path."""
    check_pace(call)
    try:
        place, cookie = await _prepare_sign_in(call, back=back)
    except UNUSABLE as problem:
        return _unusable(call, problem)
    return forms.elsewhere(place, cookie)


async def _prepare_sign_in(call: Call, *, back: str, invitation: str = "") -> tuple[str, Header]:
    """Return the URL at which the browser signs in, and the cookie for its return. Raises `UNUSABLE`."""
    services, cookies = call.services, auth.cookies(call)
    flow = flows.begin_flow(back=back, invitation=invitation, now=services.clock().timestamp())
    place = await _provider(call).authorization(flow)
    sealed = flows.seal_flow(flow, key=services.flow_key)
    return place, cookies.given(cookies.flow, sealed, seconds=int(flows.LIFETIME_SECONDS))


@routes.add(f"GET {PagePath.CALLBACK}", Subject.PUBLIC)
async def come_back(call: Call) -> Response:
    """Handle the return from the provider: sign the person in."""
    _provider(call)
    if call.scope["method"] != "GET":
        raise errors.MethodNotAllowed("GET")  # a HEAD request would use up the code without an answer
    check_pace(call)
    services = call.services
    sealed = auth.read_cookie(call.headers, auth.cookies(call).flow)
    flow = flows.open_flow(sealed, key=services.flow_key, now=services.clock().timestamp()) if sealed else None
    callback = _parameters(call.query)
    if flow is None or not provider.is_callback_of(callback, flow):
        return await _without_cookie(call)
    try:
        return await _enter(call, flow, callback)
    except discovery.NotProved as problem:
        log.info("A sign-in proved nobody: %s", problem.message, extra={"fields": {"request": call.request}})
        return _message(call, 401, NOT_SIGNED_IN, (problem.message,), AGAIN, headers=(CHALLENGE,))
    except discovery.Declined as problem:
        log.info("The provider signed nobody in: %s", problem.told, extra={"fields": {"request": call.request}})
        return _message(call, 403, NOT_SIGNED_IN, (problem.message,), AGAIN)
    except UNUSABLE as problem:
        return _unusable(call, problem)


async def _without_cookie(call: Call) -> Response:
    """Answer a return for which this browser has no fitting cookie. Of two windows that begin a sign-in, only the later
    one's cookie exists, so it is kept. A person who is signed in by now needs neither window.
    """
    if await forms.recognise(call):
        return forms.elsewhere(PagePath.ACCOUNT)
    log.info(ELSEWHERE, call.services.web_url, extra={"fields": {"request": call.request}})
    sentences = (LOST, ADDRESS.format(call.services.web_url))
    return page("message", status=401, headers=(CHALLENGE,), heading=NOT_SIGNED_IN, sentences=sentences, links=(AGAIN,))


async def _enter(call: Call, flow: Flow, callback: Mapping[str, list[str]]) -> Response:
    """Sign in the person who returned. Raises the errors of `Provider.proved`."""
    services, cookies = call.services, auth.cookies(call)
    assert services.people is not None
    proved = await _provider(call).proved(callback, flow)
    await auth.catch_up(call)
    try:
        entered = await services.people.enter(
            proved, code=flow.invitation, instead_of=forms.session_token(call), request=call.request
        )
    except NotAdmitted as refusal:
        return await _not_admitted(call, proved, refusal)
    await audit_events.signed_in(call, entered.user)
    return forms.elsewhere(flow.back, cookies.given(cookies.session, entered.token), cookies.taken(cookies.flow))


async def _not_admitted(call: Call, proved: ProvedIdentity, refusal: NotAdmitted) -> Response:
    """Answer a person whom the provider knows, but who has no access here."""
    links = [FailureLink(PagePath.INVITATION, "Use an invitation code")] if call.services.takes_invitations else []
    links.append(AGAIN)
    elsewhere = await _provider(call).end_session(id_token=proved.id_token)
    if elsewhere is not None:
        links.append(FailureLink(elsewhere, ANOTHER))
    came_as = f"You came as {admission.user_name(proved, taken=())}."
    return _message(call, 403, "No access yet", (refusal.message, came_as), *links)


def _provider(call: Call) -> Provider:
    """Return the provider. Raises `NotFound` where there is none."""
    if call.services.provider is None:
        raise errors.NotFound("People do not sign in through a provider here.")
    return call.services.provider


def _unusable(call: Call, problem: ReconcilerError) -> Response:
    """Answer that the provider cannot be used. The log has the reason, and the page has the id to find it."""
    asking = f"Tell whoever runs this service: its log has the cause under the id {call.request}."
    fields = {"fields": {"request": call.request}}
    if isinstance(problem, discovery.ProviderUnfit):
        log.error("Nobody can sign in: %s", problem.message, extra=fields)
        return _message(call, 500, "Something went wrong", ("The provider cannot be used.", asking), ACCOUNT)
    log.warning("Somebody could not sign in: %s", problem.message, extra=fields)
    sentences = ("The provider that signs people in does not answer at this moment; try again.", asking)
    later = errors.retry_after(errors.BUSY_SECONDS)
    return _message(call, 503, "Not at this moment", sentences, AGAIN, headers=(later,))


def _message(
    call: Call,
    status: int,
    heading: str,
    sentences: tuple[str, ...],
    *links: FailureLink,
    headers: tuple[Header, ...] = (),
) -> Response:
    """Return a page that ends a sign-in, and remove its cookie."""
    cookies = auth.cookies(call)
    headers = (*headers, cookies.taken(cookies.flow))
    return page("message", status=status, headers=headers, heading=heading, sentences=sentences, links=links)


def _parameters(query: bytes) -> dict[str, list[str]]:
    """Return every parameter that the provider sent along. Raises `BadRequest`."""
    try:
        return parse_qs(query.decode("ascii"), keep_blank_values=True, max_num_fields=requests.MOST, errors="strict")
    except ValueError:
        raise errors.BadRequest("What the provider sent along cannot be read.") from None


# `/sign-in`: signing in with a name and a password (`auth.type: local`).

WRONG = "The name or the password is wrong."
CHANGED = "Your access was changed while you signed in; sign in once more."


@routes.add(f"GET {PagePath.SIGN_IN}", Subject.PUBLIC)
async def show_sign_in(call: Call) -> Response:
    """Show the form for a name and a password, or lead to the provider."""
    back = forms.asked_back(call)
    if call.services.auth_type == "oidc":
        return await lead_to_provider(call, back=back)
    if call.services.auth_type == "none":
        return forms.elsewhere(PagePath.ACCOUNT)
    return _form(back=back)


@routes.add(f"POST {PagePath.SIGN_IN}", Subject.PUBLIC)
async def sign_in(call: Call) -> Response:
    """Check a name and a password, and begin a session."""
    if call.services.auth_type != "local":
        raise errors.NotFound("People do not sign in with a password here.")
    form = await forms.read_form(call)
    check_pace(call)
    name, password, back = form.text("name"), form.text("password"), flows.local_path(form.text("back"))
    await auth.catch_up(call)
    directory = call.directory
    principal = await call.services.signing_in.principal(name, password, address=auth.address(call))
    user = None if principal is None else directory.user(principal.user or "")
    if user is None:
        return _form(back=back, name=name, mistakes=(Mistake("name", WRONG),))
    try:
        token = await call.services.sessions.begin(user, since=directory, instead_of=forms.session_token(call))
    except SessionGone:
        return _form(back=back, name=name, mistakes=(Mistake("", CHANGED),))
    await audit_events.signed_in(call, user)
    cookies = auth.cookies(call)
    return forms.elsewhere(back, cookies.given(cookies.session, token))


def _form(*, back: str, name: str = "", mistakes: tuple[Mistake, ...] = ()) -> Response:
    headers = (CHALLENGE,) if mistakes else ()
    return page("sign-in", status=401 if mistakes else 200, headers=headers, back=back, name=name, mistakes=mistakes)


# `/invitation`: a person enters an invitation's code, and then signs in through the provider.

NO_CODE = "This is no invitation code: it begins with rci_ and has 47 characters."


@routes.add(f"GET {PagePath.INVITATION}", Subject.PUBLIC)
async def show_invitation(call: Call) -> Response:
    """Show the form for an invitation's code."""
    _check_invitations(call)
    return page("invitation", mistakes=())


@routes.add(f"POST {PagePath.INVITATION}", Subject.PUBLIC)
async def use_invitation(call: Call) -> Response:
    """Lead to the provider with an invitation's code."""
    _check_invitations(call)
    form = await forms.read_form(call)
    check_pace(call)
    code = form.text("code").strip()
    if changes.code_digest(code) is None:
        return page("invitation", status=400, mistakes=(Mistake("code", NO_CODE),))
    try:
        place, cookie = await _prepare_sign_in(call, back=PagePath.ACCOUNT, invitation=code)
    except UNUSABLE as problem:
        return _unusable(call, problem)
    # A redirect would make the form lead to the provider, which `form-action` of these pages forbids.
    sentence = "Your invitation counts when the provider has signed you in."
    return page("onwards", headers=(cookie,), place=place, heading="Sign in", sentence=sentence)


def _check_invitations(call: Call) -> None:
    if not call.services.takes_invitations:
        raise errors.NotFound("Invitations admit nobody here.")
