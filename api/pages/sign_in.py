"""Sign-in and sign-out pages."""

import asyncio
import logging
import os
from collections.abc import Mapping
from urllib.parse import parse_qs

from starlette.responses import Response

from api import audit_events, auth, errors, requests
from api.calls import Call
from api.pages import forms
from api.pages.forms import ACCOUNT, Elsewhere, FailureLink, Mistake, Page, PagePath, page
from reconciler.auth import admission, changes
from reconciler.auth.admission import AdmissionReason, NotAdmitted
from reconciler.auth.oidc import discovery, flows, provider
from reconciler.auth.oidc.flows import Flow
from reconciler.auth.rate_limits import RateLimit
from reconciler.auth.sessions import SessionGone
from reconciler.model.directory import ProvedIdentity
from reconciler.model.errors import ReconcilerError
from reconciler.store.contract import StoreFault
from reconciler.store.records import SessionRow

# `/sign-out` and `/signed-out`: here, and at the provider as well.

log = logging.getLogger(__name__)

OUT = "You are signed out"


async def sign_out(call: Call) -> Response:
    """POST /sign-out"""
    requests.none_known(call.query)
    await forms.read_form(call)
    session, jar = await _end(call), forms.cookie_jar(call)
    if session is not None:
        await audit_events.signed_out(call, call.services.accounts.directory.user(session.user))
    cookie = jar.taken(jar.session)
    provider = call.services.provider
    # Without a hint too, which a long ID token is not kept as: then the provider asks whether it shall.
    if provider is not None and session is not None:
        elsewhere = await provider.end_session(id_token=session.id_token)
        if elsewhere is not None:
            # Not a redirect, for the reason that stands in `invitations`.
            sentence = "Here you are signed out; the provider signs you out next."
            return page("onwards", headers=(cookie,), place=elsewhere, heading=OUT, sentence=sentence)
    return Elsewhere(PagePath.SIGNED_OUT, headers=(cookie,))


async def show_signed_out(_call: Call) -> Response:
    """GET /signed-out"""
    sentences = ("This browser is not signed in here any more.",)
    return page("message", heading=OUT, sentences=sentences, links=(FailureLink(PagePath.ACCOUNT, "Sign in again"),))


async def _end(call: Call) -> SessionRow | None:
    """End the session. It counts no more, even if the disk fails; the browser is told so in any case."""
    try:
        return await call.services.sessions.end(forms.session_token(call))
    except StoreFault as fault:
        log.error("That somebody signed out could not be written, and is tried again: %s", fault.message)
        return None


# How often pages that cost something may be asked for from one address, by whoever is unknown.

PACES: Mapping[str, RateLimit] = {
    PagePath.PROVIDER: RateLimit(burst=60, seconds=1.0),  # an office that comes to work behind one address
    PagePath.CALLBACK: RateLimit(burst=60, seconds=1.0),  # each asks the provider for a token
    PagePath.INVITATION: RateLimit(burst=20, seconds=10.0),
    PagePath.SIGN_IN: RateLimit(burst=60, seconds=1.0),  # of passwords that are wrong, far fewer
}


def check_pace(call: Call, what: str) -> None:
    """Count a request of this page. Raises `TooMany`."""
    now = asyncio.get_running_loop().time()
    seconds = call.services.paces.take(what, auth.address(call), pace=PACES[what], now=now)
    if seconds > 0:
        raise errors.TooMany("Too many people sign in from this address at once; wait a little.", after=seconds)


# `/oidc/sign-in` and `/oidc/redirect`: through the provider and back, where people sign in there (`auth.type: oidc`).
#
# What goes wrong is told in one sentence to the person, and to the operator in the log, under the same id.

AGAIN = FailureLink(PagePath.ACCOUNT, "Sign in again")
ANOTHER = "Sign out at the provider, to come as somebody else"
OPENS_NOTHING = "This code opens nothing"
KEPT = "What you had here you still have."
ANOTHER_CODE = FailureLink(PagePath.INVITATION, "Use another code")
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


async def begin_sign_in(call: Call) -> Response:
    """GET /oidc/sign-in"""
    _has_provider(call)
    return await lead_to_provider(call, back=forms.asked_back(call))


async def lead_to_provider(call: Call, *, back: str) -> Response:
    """Straight to the provider, and to `back`, a path of ours, from there."""
    check_pace(call, PagePath.PROVIDER)
    try:
        place, cookie = await leave_for_provider(call, back=back)
    except (discovery.ProviderUnreachable, discovery.ProviderUnfit) as problem:
        return unusable(call, problem)
    return Elsewhere(place, headers=(cookie,))


async def leave_for_provider(call: Call, *, back: str, invitation: str = "") -> tuple[str, tuple[bytes, bytes]]:
    """Return the URL at which the browser signs in, and the cookie that it takes along. Raises Unreachable, Unfit."""
    services, jar = call.services, forms.cookie_jar(call)
    assert services.provider is not None
    flow = flows.begin_flow(
        back=back,
        invitation=invitation,
        now=services.clock().timestamp(),
        randomness=os.urandom(flows.RANDOM_BYTES),
    )
    place = await services.provider.authorization(flow)
    sealed = flows.seal_flow(flow, key=services.flow_key)
    return place, jar.given(jar.flow, sealed, seconds=int(flows.LIFETIME_SECONDS))


async def come_back(call: Call) -> Response:
    """GET /oidc/redirect"""
    _has_provider(call)
    if call.scope["method"] != "GET":
        raise errors.MethodNotAllowed("GET")  # a look without an answer would use up the code
    check_pace(call, PagePath.CALLBACK)
    jar, services = forms.cookie_jar(call), call.services
    sealed = auth.read_cookie(call.scope["headers"], jar.flow)
    flow = flows.open_flow(sealed, key=services.flow_key, now=services.clock().timestamp()) if sealed else None
    callback = _parameters(call.query)
    if flow is None or not provider.is_callback_of(callback, flow):
        return _of_another_way(call)
    try:
        return await _enter(call, flow, callback)
    except discovery.NotProved as problem:
        log.info("A sign-in proved nobody: %s", problem.message, extra={"fields": {"request": call.request}})
        return _not_proved(call, (problem.message,))
    except discovery.Declined as problem:
        log.info("The provider signed nobody in: %s", problem.told, extra={"fields": {"request": call.request}})
        return _message(call, 403, "You are not signed in", (problem.message,), links=(AGAIN,))
    except (discovery.ProviderUnreachable, discovery.ProviderUnfit) as problem:
        return unusable(call, problem)


def _of_another_way(call: Call) -> Response:
    """The end of a way that this browser did not begin, or of which it keeps nothing: of two windows that begin, the
    later one's cookie stays, and is left for it. Who is signed in by now needs neither.
    """
    if forms.recognise(call):
        return Elsewhere(PagePath.ACCOUNT)
    log.info(ELSEWHERE, call.services.web_url, extra={"fields": {"request": call.request}})
    sentences = (LOST, ADDRESS.format(call.services.web_url))
    challenge = (b"www-authenticate", auth.OF_KEYS)
    heading = "You are not signed in"
    return page("message", status=401, headers=(challenge,), heading=heading, sentences=sentences, links=(AGAIN,))


async def _enter(call: Call, flow: Flow, callback: Mapping[str, list[str]]) -> Response:
    """Let somebody in who came back. Raises what `Provider.proved` does."""
    services, jar = call.services, forms.cookie_jar(call)
    assert services.provider is not None
    assert services.people is not None
    proved = await services.provider.proved(callback, flow)
    try:
        entered = await services.people.enter(
            proved, code=flow.invitation, instead_of=forms.session_token(call), request=call.request
        )
    except NotAdmitted as refusal:
        return await _not_admitted(call, proved, refusal)
    await audit_events.signed_in(call, entered.user)
    return Elsewhere(flow.back, headers=(jar.given(jar.session, entered.token), jar.taken(jar.flow)))


async def _not_admitted(call: Call, proved: ProvedIdentity, refusal: NotAdmitted) -> Page:
    """The provider knows this person, and nothing here is theirs."""
    assert call.services.provider is not None
    if refusal.why is AdmissionReason.WRONG_CODE and _has_something(call, proved):
        return _message(call, 403, OPENS_NOTHING, (refusal.message, KEPT), links=(ACCOUNT, ANOTHER_CODE))
    links = [FailureLink(PagePath.INVITATION, "Use an invitation code")] if call.services.takes_invitations else []
    links.append(AGAIN)
    elsewhere = await call.services.provider.end_session(id_token=proved.id_token)
    if elsewhere is not None:
        links.append(FailureLink(elsewhere, ANOTHER))
    came_as = f"You came as {admission.user_name(proved, taken=())}."
    return _message(call, 403, "No access yet", (refusal.message, came_as), links=tuple(links))


def _has_something(call: Call, proved: ProvedIdentity) -> bool:
    """Return True when the person has a role here, which an invalid code does not take away."""
    directory = call.services.accounts.directory
    person = directory.person(proved.identity)
    return person is not None and (person.organization_admin or bool(directory.roles_of(person)))


def _has_provider(call: Call) -> None:
    if call.services.provider is None:
        raise errors.NotFound("People do not sign in through a provider here.")


def _not_proved(call: Call, sentences: tuple[str, ...]) -> Page:
    challenge = (b"www-authenticate", auth.OF_KEYS)
    return _message(call, 401, "You are not signed in", sentences, links=(AGAIN,), headers=(challenge,))


def unusable(call: Call, problem: ReconcilerError) -> Page:
    """The provider does not answer, or is not fit for use; the log has why, and the page the id to find it by."""
    asking = f"Tell whoever runs this service: its log has the cause under the id {call.request}."
    fields = {"fields": {"request": call.request}}
    if isinstance(problem, discovery.ProviderUnfit):
        log.error("Nobody can sign in: %s", problem.message, extra=fields)
        return _message(call, 500, "Something went wrong", ("The provider cannot be used.", asking), links=(ACCOUNT,))
    log.warning("Somebody could not sign in: %s", problem.message, extra=fields)
    sentences = ("The provider that signs people in does not answer at this moment; try again.", asking)
    return _message(
        call, 503, "Not at this moment", sentences, links=(AGAIN,), headers=(errors.retry_after(errors.BUSY_SECONDS),)
    )


def _message(
    call: Call,
    status: int,
    heading: str,
    sentences: tuple[str, ...],
    *,
    links: tuple[FailureLink, ...],
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> Page:
    """A page at the end of a way; its cookie is not needed any more."""
    jar = forms.cookie_jar(call)
    return page(
        "message",
        status=status,
        headers=(*headers, jar.taken(jar.flow)),
        heading=heading,
        sentences=sentences,
        links=links,
    )


def _parameters(query: bytes) -> dict[str, list[str]]:
    """Every parameter that the provider sent along. Raises `BadRequest`."""
    try:
        return parse_qs(query.decode("ascii"), keep_blank_values=True, max_num_fields=requests.MOST, errors="strict")
    except ValueError:
        raise errors.BadRequest("What the provider sent along cannot be read.") from None


# `/sign-in`: a name and a password, where people have one (`auth.type: local`).

WRONG = "The name or the password is wrong."
CHANGED = "Your access was changed while you signed in; sign in once more."


async def show_sign_in(call: Call) -> Response:
    """GET /sign-in"""
    back = forms.asked_back(call)
    if call.services.auth_type == "oidc":
        return await lead_to_provider(call, back=back)
    if call.services.auth_type == "none":
        return Elsewhere(PagePath.ACCOUNT)
    return _form(back=back)


async def sign_in(call: Call) -> Response:
    """POST /sign-in"""
    if call.services.auth_type != "local":
        raise errors.NotFound("People do not sign in with a password here.")
    form = await forms.read_form(call)
    check_pace(call, PagePath.SIGN_IN)
    name, password, back = form.text("name"), form.text("password"), flows.local_path(form.text("back"))
    directory = call.services.accounts.directory
    principal = await call.services.signing_in.principal(name, password, address=auth.address(call))
    user = None if principal is None or principal.user is None else directory.user(principal.user)
    if user is None:
        return _form(back=back, name=name, mistakes=(Mistake("name", WRONG),))
    try:
        token = await call.services.sessions.begin(user, since=directory, instead_of=forms.session_token(call))
    except SessionGone:
        return _form(back=back, name=name, mistakes=(Mistake("", CHANGED),))
    await audit_events.signed_in(call, user)
    jar = forms.cookie_jar(call)
    return Elsewhere(back, headers=(jar.given(jar.session, token),))


def _form(*, back: str, name: str = "", mistakes: tuple[Mistake, ...] = ()) -> Page:
    headers = ((b"www-authenticate", auth.OF_KEYS),) if mistakes else ()
    status = 401 if mistakes else 200
    return page("sign-in", status=status, headers=headers, back=back, name=name, mistakes=mistakes)


# `/invitation`: a code that somebody was given, taken along through the provider.

NO_CODE = "This is no invitation code: it begins with rci_ and has 47 characters."


async def show_invitation(call: Call) -> Response:
    """GET /invitation"""
    _has_invitations(call)
    return _invitation_form()


async def use_invitation(call: Call) -> Response:
    """POST /invitation"""
    _has_invitations(call)
    requests.none_known(call.query)
    form = await forms.read_form(call)
    check_pace(call, PagePath.INVITATION)
    code = form.text("code").strip()
    if changes.code_digest(code) is None:
        return _invitation_form(Mistake("code", NO_CODE))
    try:
        place, cookie = await leave_for_provider(call, back=PagePath.ACCOUNT, invitation=code)
    except (discovery.ProviderUnreachable, discovery.ProviderUnfit) as problem:
        return unusable(call, problem)
    # A redirect of a form would count as one to the provider, which `form-action` of these pages forbids.
    sentence = "Your invitation counts when the provider has signed you in."
    return page("onwards", headers=(cookie,), place=place, heading="Sign in", sentence=sentence)


def _has_invitations(call: Call) -> None:
    if not call.services.takes_invitations:
        raise errors.NotFound("Invitations admit nobody here.")


def _invitation_form(*mistakes: Mistake) -> Page:
    return page("invitation", status=400 if mistakes else 200, mistakes=mistakes)
