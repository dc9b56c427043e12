"""Who sends log records with a head that was seen before: senders have the same one for each of their requests.

Belongs here: remembering whom a head let through, for as long as that holds. Does not: letting anybody through, which
the functions do that every request is judged by.
"""

from collections.abc import Callable
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from starlette.types import Message

from api import rpc
from api.answers import Header
from api.auth import credentials
from api.auth.authenticating import Authenticator
from api.calls import Call, State
from reconciler.model.directory import Directory, Key
from reconciler.server.services import Services

UNUSUAL = frozenset({b"content-encoding", b"cookie", b"origin", b"sec-fetch-site", b"transfer-encoding"})
"""Headers that the edge asks about, or with which a body is read otherwise. So may one that is repeated be."""

MOST = 1_024  # heads that are remembered; whoever gives each request another one, as a trace's id does, gains nothing


class Sender(NamedTuple):
    """Who sends protobuf as it is, by which key, and to which project. The environment's key stands in no directory."""

    name: str
    project: str
    key: Key | None


class Senders:
    """Those of one route."""

    def __init__(self, services: Services, judge: Callable[[Call], None]) -> None:
        """`judge` is the route's: it says which project a call is about, and raises where that may not be."""
        self._services = services
        self._judge = judge
        self._authenticator = Authenticator(services)
        self._known: dict[bytes, Sender] = {}
        self._directory: Directory | None = None  # by which all of them were judged

    def of(self, headers: list[Header], *, now: datetime) -> Sender | None:
        """Who sends with such a head; None, or an exception, where more is to be asked or said of it.

        What was found out of a head holds while the directory is the same one, but for the end of a key's time. Only
        the length is another one in each request, and it stands in nothing that is asked. What is remembered is a
        digest, as it is of keys.
        """
        directory = self._services.accounts.directory
        if directory is not self._directory or len(self._known) >= MOST:
            self._directory = directory
            self._known.clear()
        lines = [b"%b:%b" % header for header in headers if header[0] != b"content-length"]
        head = sha256(b"\n".join(lines)).digest()  # the parser lets no end of a line into a header
        known = self._known.get(head)
        if known is not None:
            is_held = known.key is None or self._services.accounts.uses(known.key, at=now)
            return known if is_held else None
        judged = self._judged(headers)
        if judged is not None:
            self._known[head] = judged
        return judged

    def _judged(self, headers: list[Header]) -> Sender | None:
        call = Call({"headers": headers, "state": State(services=self._services, request="")}, _nothing)
        is_unusual = len(call.headers) < len(headers) or not UNUSUAL.isdisjoint(call.headers)
        if is_unusual or rpc.is_json(headers) is not False:
            return None
        shown = credentials.shown_credentials(headers)
        if len(shown.keys) != 1 or shown.passwords:
            return None
        call.state["principal"] = principal = self._authenticator.holder(shown.keys[0])
        call.state["directory"] = directory = self._services.accounts.directory
        self._judge(call)
        return Sender(principal.name, call.project, directory.key_of(shown.keys[0]))


async def _nothing() -> Message:
    """What is left to receive of a request that is here whole."""
    return {"type": "http.disconnect"}
