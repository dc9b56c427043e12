"""Who asks with a browser: the session that its cookie means, and the person whose it is.

Belongs here: from headers to somebody signed in, for the interface and for the pages alike. Does not: cookies' form
(`cookies`), when a session is over (`reconciler.auth.sessions`), what the person may do.
"""

from collections.abc import Iterable
from typing import NamedTuple

from api.answers import Header
from api.auth import cookies
from reconciler.auth.sessions import Session
from reconciler.model.directory import Directory
from reconciler.model.principals import Principal
from reconciler.server.services import Services


class Visitor(NamedTuple):
    """Somebody signed in; `directory` is the one by which they were recognised."""

    session: Session
    principal: Principal
    directory: Directory


def visitor(headers: Iterable[Header], services: Services) -> Visitor | None:
    """Whose browser this is; None without a session, and for one that is over."""
    token = cookies.read_cookie(headers, cookies.cookies_of(services.web_url, has_tls=services.has_tls).session)
    session = services.sessions.find(token) if token else None
    if session is None:
        return None
    directory = services.accounts.directory
    user = directory.user(session.user)
    return None if user is None else Visitor(session, directory.principal(user), directory)
