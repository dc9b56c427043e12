"""Who looks at a page: somebody signed in, whoever is at this machine where nobody signs in, or a stranger.

Pages need no credential, so each asks here. A key means nothing to them. Belongs here: recognising, and our cookies.
Does not: signing in (`local`, `provider`).
"""

from api import errors, queries
from api.auth import authenticating, browsers, cookies
from api.auth.cookies import Cookies
from api.calls import Call
from reconciler.auth.oidc import flows

GONE = "You are not signed in any more, and nothing was changed."


def recognise(call: Call) -> bool:
    """Whether somebody is there; then they are the call's principal."""
    services = call.services
    if services.anybody is not None:
        call.state["principal"], call.state["directory"] = services.anybody, services.accounts.directory
        return True
    visitor = browsers.visitor(call.scope["headers"], services)
    if visitor is None:
        return False
    call.state["principal"], call.state["directory"] = visitor.principal, visitor.directory
    call.state["session"] = visitor.session
    return True


def require(call: Call) -> None:
    """Raise `Unauthenticated` for a form that a stranger sends."""
    if not recognise(call):
        raise errors.Unauthenticated(GONE, challenge=authenticating.OF_KEYS)


def asked_back(call: Call) -> str:
    """The local path that a query names to come back to. Raises `BadRequest`."""
    query = queries.Query(call.query, known=frozenset({"back"}), strict=False)
    query.check()
    return flows.local_path(query.text("back") or "")


def cookie_jar(call: Call) -> Cookies:
    """Our cookies."""
    return cookies.cookies_of(call.services.web_url, has_tls=call.services.has_tls)


def session_token(call: Call) -> str:
    """What the cookie of a session holds, whatever it is worth; empty for none."""
    return cookies.read_cookie(call.scope["headers"], cookie_jar(call).session)
