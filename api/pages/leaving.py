"""`/sign-out` and `/signed-out`: here, and at the provider as well.

Belongs here: ending the session of this browser. Does not: other browsers of the person.
"""

import logging

from starlette.responses import Response

from api import auditing, queries
from api.calls import Call
from api.pages import forms, paths, visitors
from api.pages.failures import FailureLink
from api.pages.rendering import Elsewhere, page
from reconciler.auth.sessions import Session
from reconciler.store.contract import StoreFault

log = logging.getLogger(__name__)

OUT = "You are signed out"


async def sign_out(call: Call) -> Response:
    """POST /sign-out"""
    queries.none_known(call.query)
    await forms.read_form(call)
    session, jar = await _end(call), visitors.cookie_jar(call)
    if session is not None:
        await auditing.signed_out(call, call.services.accounts.directory.user(session.user))
    cookie = jar.taken(jar.session)
    provider = call.services.provider
    # Without a hint too, which a long ID token is not kept as: then the provider asks whether it shall.
    if provider is not None and session is not None:
        elsewhere = await provider.end_session(id_token=session.id_token)
        if elsewhere is not None:
            # Not a redirect, for the reason that stands in `invitations`.
            sentence = "Here you are signed out; the provider signs you out next."
            return page("onwards", headers=(cookie,), place=elsewhere, heading=OUT, sentence=sentence)
    return Elsewhere(paths.SIGNED_OUT, headers=(cookie,))


async def show_signed_out(_call: Call) -> Response:
    """GET /signed-out"""
    sentences = ("This browser is not signed in here any more.",)
    return page("message", heading=OUT, sentences=sentences, links=(FailureLink(paths.ACCOUNT, "Sign in again"),))


async def _end(call: Call) -> Session | None:
    """What ended. It counts no more, even where the disk fails; the browser is told so in any case."""
    try:
        return await call.services.sessions.end(visitors.session_token(call))
    except StoreFault as fault:
        log.error("That somebody signed out could not be written, and is tried again: %s", fault.message)
        return None
