"""`/oidc/sign-in` and `/oidc/redirect`: through the provider and back, where people sign in there (`auth.type: oidc`).

Belongs here: the cookie that carries the way, and a page for each way that it ends. Does not: the protocol
(`reconciler.oidc`), who is let in (`reconciler.auth.admission`).

What goes wrong is told in one sentence to the person, and to the operator in the log, under the same id.
"""

import logging
import os
from collections.abc import Mapping
from urllib.parse import parse_qs

from starlette.responses import Response

from api import auditing, errors, queries
from api.auth import authenticating, cookies
from api.calls import Call
from api.pages import pacing, paths, visitors
from api.pages.failures import ACCOUNT, FailureLink
from api.pages.rendering import Elsewhere, Page, page
from reconciler.auth import admission
from reconciler.auth.admission import AdmissionReason, NotAdmitted
from reconciler.auth.oidc import discovery, flows, provider
from reconciler.auth.oidc.flows import Flow
from reconciler.model.directory import ProvedIdentity
from reconciler.model.errors import ReconcilerError

log = logging.getLogger(__name__)

AGAIN = FailureLink(paths.ACCOUNT, "Sign in again")
ANOTHER = "Sign out at the provider, to come as somebody else"
OPENS_NOTHING = "This code opens nothing"
KEPT = "What you had here you still have."
ANOTHER_CODE = FailureLink(paths.INVITATION, "Use another code")
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
    return await lead_to_provider(call, back=visitors.asked_back(call))


async def lead_to_provider(call: Call, *, back: str) -> Response:
    """Straight to the provider, and to `back`, a path of ours, from there."""
    pacing.check_pace(call, paths.PROVIDER)
    try:
        place, cookie = await leave_for_provider(call, back=back)
    except (discovery.ProviderUnreachable, discovery.ProviderUnfit) as problem:
        return unusable(call, problem)
    return Elsewhere(place, headers=(cookie,))


async def leave_for_provider(call: Call, *, back: str, invitation: str = "") -> tuple[str, tuple[bytes, bytes]]:
    """Where the browser goes to sign in, and the cookie that it takes along. Raises Unreachable, Unfit."""
    services, jar = call.services, visitors.cookie_jar(call)
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
    pacing.check_pace(call, paths.CALLBACK)
    jar, services = visitors.cookie_jar(call), call.services
    sealed = cookies.read_cookie(call.scope["headers"], jar.flow)
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
    if visitors.recognise(call):
        return Elsewhere(paths.ACCOUNT)
    log.info(ELSEWHERE, call.services.web_url, extra={"fields": {"request": call.request}})
    sentences = (LOST, ADDRESS.format(call.services.web_url))
    challenge = (b"www-authenticate", authenticating.OF_KEYS)
    heading = "You are not signed in"
    return page("message", status=401, headers=(challenge,), heading=heading, sentences=sentences, links=(AGAIN,))


async def _enter(call: Call, flow: Flow, callback: Mapping[str, list[str]]) -> Response:
    """Let somebody in who came back. Raises what `Provider.proved` does."""
    services, jar = call.services, visitors.cookie_jar(call)
    assert services.provider is not None
    assert services.people is not None
    proved = await services.provider.proved(callback, flow)
    try:
        entered = await services.people.enter(
            proved, code=flow.invitation, instead_of=visitors.session_token(call), request=call.request
        )
    except NotAdmitted as refusal:
        return await _not_admitted(call, proved, refusal)
    await auditing.signed_in(call, entered.user)
    return Elsewhere(flow.back, headers=(jar.given(jar.session, entered.token), jar.taken(jar.flow)))


async def _not_admitted(call: Call, proved: ProvedIdentity, refusal: NotAdmitted) -> Page:
    """The provider knows this person, and nothing here is theirs."""
    assert call.services.provider is not None
    if refusal.why is AdmissionReason.WRONG_CODE and _has_something(call, proved):
        return _message(call, 403, OPENS_NOTHING, (refusal.message, KEPT), links=(ACCOUNT, ANOTHER_CODE))
    links = [FailureLink(paths.INVITATION, "Use an invitation code")] if call.services.takes_invitations else []
    links.append(AGAIN)
    elsewhere = await call.services.provider.end_session(id_token=proved.id_token)
    if elsewhere is not None:
        links.append(FailureLink(elsewhere, ANOTHER))
    came_as = f"You came as {admission.user_name(proved, taken=())}."
    return _message(call, 403, "No access yet", (refusal.message, came_as), links=tuple(links))


def _has_something(call: Call, proved: ProvedIdentity) -> bool:
    """Whether the person has a role here, of which a code that opens nothing takes nothing."""
    directory = call.services.accounts.directory
    person = directory.person(proved.identity)
    return person is not None and (person.organization_admin or bool(directory.roles_of(person)))


def _has_provider(call: Call) -> None:
    if call.services.provider is None:
        raise errors.NotFound("People do not sign in through a provider here.")


def _not_proved(call: Call, sentences: tuple[str, ...]) -> Page:
    challenge = (b"www-authenticate", authenticating.OF_KEYS)
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
    jar = visitors.cookie_jar(call)
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
        return parse_qs(query.decode("ascii"), keep_blank_values=True, max_num_fields=queries.MOST, errors="strict")
    except ValueError:
        raise errors.BadRequest("What the provider sent along cannot be read.") from None
