"""The API as pages use it: each operation is called inside the process with the visitor's own rights.

So a page shows the API's answers to this person, with the API's permissions.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.requests import ClientDisconnect
from starlette.types import Message

from api import access, errors
from api.calls import Call, Subject
from reconciler.model import principals

MOST_BYTES = 16 << 20  # of an answer that a page shows
UNSEEN = frozenset({403, 404})  # statuses for a hidden or a missing thing
TOO_LARGE = "This is too large for a page; ask the API for it."


class Api:
    """The operations of the interface, as the visitor of a page may use them."""

    def __init__(self, call: Call) -> None:
        self._call = call

    async def ask(
        self,
        operation: str,
        *,
        project: str = "",
        query: Mapping[str, object] | None = None,
        body: object = None,
        **parameters: Any,
    ) -> Any:
        """Call an operation, `GET /v1/runs/{id}` with `id="..."` for instance. Return its JSON, or another type's text.

        An empty `project` leaves the header out. Empty values of `query` are left out. Raises `Problem` for whatever
        the operation refuses, and for an answer of more than `MOST_BYTES`, and ClientDisconnect.
        """
        method, path = operation.split()
        told = [(access.HEADER, project.encode("utf-8"))] if project else []
        scope = {
            "type": "http",
            "method": method,
            "path": path.format(**parameters),
            "query_string": urlencode({name: value for name, value in (query or {}).items() if value != ""}).encode(),
            "headers": [(b"content-type", b"application/json"), *told],
            "client": self._call.scope.get("client"),
        }
        sent: bytes | None = b"" if body is None else msgspec.json.encode(body)

        async def receive() -> Message:
            nonlocal sent
            if sent is None:
                return await self._call.receive()
            message, sent = {"type": "http.request", "body": sent, "more_body": False}, None
            return message

        inner = Call(scope, receive, self._call.services, self._call.request, parameters)
        inner.caller, inner.passed_on = self._call.caller, self._call.passed_on
        pieces = _Pieces()
        try:
            response = await self._call.endpoints[path].answer(inner)
            await response(scope, receive, pieces.take)
        except ClientDisconnect:
            raise
        except Exception as exception:
            raise errors.problem_of(exception, request=inner.request) from exception
        text = b"".join(pieces.found)
        return msgspec.json.decode(text) if pieces.is_json else text.decode("utf-8", "replace")

    async def maybe(self, operation: str, *, project: str = "", **asked: Any) -> Any:
        """Call an operation; None if the visitor may not see the thing, or it does not exist."""
        try:
            return await self.ask(operation, project=project, **asked)
        except errors.Problem as problem:
            if problem.status not in UNSEEN:
                raise
            return None

    def may(self, operation: str, *, project: str) -> bool:
        """Return True if the visitor has the permission for an operation in a project."""
        method, path = operation.split()
        _, subject, permission = self._call.endpoints[path].operations[method]
        if permission is None:
            return True
        if subject is Subject.ORGANIZATION:
            return principals.may(self._call.principal, permission, role=None)
        return access.permits(self._call, permission, project=project)


class _Pieces:
    """The body of an answer, bounded."""

    def __init__(self) -> None:
        self.found: list[bytes] = []
        self.is_json = False
        self._size = 0

    async def take(self, message: Message) -> None:
        """Keep what an answer sends. Raises `TooLarge`."""
        if message["type"] == "http.response.start":
            kinds = [value for name, value in message["headers"] if name == b"content-type"]
            self.is_json = kinds == [b"application/json"]
            return
        piece = message.get("body", b"")
        self._size += len(piece)
        if self._size > MOST_BYTES:
            raise errors.TooLarge(TOO_LARGE)
        self.found.append(piece)
