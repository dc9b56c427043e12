"""Routes: the operations of each path with what their callers need, and the endpoint of a request.

routes = Routes()

@routes.add("GET /v1/things/{name}", Subject.PROJECT, Permission.READ)
async def get(call: Call) -> Response: ...
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from starlette.responses import Response
from starlette.routing import compile_path

from api import access, errors
from api.calls import Call, Handler, Operation, Subject
from api.errors import Problem
from reconciler.model.error_codes import ErrorCode
from reconciler.model.principals import Permission


class Style(NamedTuple):
    """The form of a path's answers: headers that replace the usual ones, and a function that renders failures."""

    headers: Mapping[bytes, bytes]
    failure: Callable[[Call, Problem], Response]


JSON = Style({}, lambda _, problem: errors.as_json(problem))


class Endpoint:
    """One path with its operations by method. `is_public`: none of them needs a credential."""

    def __init__(self, path: str, style: Style = JSON) -> None:
        self.path = path
        self.style = style
        self.operations: dict[str, Operation] = {}
        self.is_public = True

    def add(self, method: str, operation: Operation) -> None:
        """Add an operation. The one of GET also answers HEAD."""
        self.operations[method] = operation
        if method == "GET":
            self.operations["HEAD"] = operation
        self.is_public = self.is_public and operation.subject is Subject.PUBLIC

    async def answer(self, call: Call) -> Response:
        """Judge the call, then call its handler."""
        call.operation = self.operations.get(call.scope["method"])
        if call.operation is None:
            raise errors.MethodNotAllowed(", ".join(sorted(self.operations)))
        access.judge(call)
        return await call.operation.handler(call)


class Nowhere(Endpoint):
    """The endpoint of all unknown paths."""

    def __init__(self, sentence: str) -> None:
        super().__init__("")
        self.sentence = sentence
        self.is_public = False  # strangers do not learn which paths there are

    async def answer(self, call: Call) -> Response:  # noqa: ARG002 - as every endpoint
        """Raise `NotFound`."""
        raise errors.NotFound(self.sentence, code=ErrorCode.PATH_NOT_FOUND)


class Routes:
    """The endpoints of a noun by path, in the order in which they are tried."""

    def __init__(self, style: Style = JSON) -> None:
        self.style = style
        self.endpoints: dict[str, Endpoint] = {}

    def add(
        self, operation: str, subject: Subject, permission: Permission | None = None
    ) -> Callable[[Handler], Handler]:
        """Have the decorated handler answer an operation, `GET /v1/things/{name}` for instance."""
        method, path = operation.split()

        def register(handler: Handler) -> Handler:
            endpoint = self.endpoints.setdefault(path, Endpoint(path, self.style))
            endpoint.add(method, Operation(handler, subject, permission))
            return handler

        return register


class Router:
    """Finds endpoints. A literal path wins; all others are tried in their order. Starlette's takes three times as
    long.
    """

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._literal: dict[str, Endpoint] = {}
        self._patterns = []
        for endpoint in endpoints:
            if "{" in endpoint.path:
                self._patterns.append((compile_path(endpoint.path)[0], endpoint))
            else:
                self._literal[endpoint.path] = endpoint

    def find(self, path: str) -> tuple[Endpoint, Mapping[str, str]] | None:
        """Return the endpoint of a path with the path's parameters, or None."""
        if (endpoint := self._literal.get(path)) is not None:
            return endpoint, {}
        for expression, endpoint in self._patterns:
            if (match := expression.fullmatch(path)) is not None:
                return endpoint, match.groupdict()
        return None
