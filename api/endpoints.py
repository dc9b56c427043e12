"""The endpoint that gives each method of a path its handler, once it was judged that the caller may."""

from functools import partial

from starlette.types import Receive, Scope, Send

from api import errors, judging
from api.calls import Call
from api.judging import AccessRule, PermissionPlace


class Endpoint:
    """An ASGI application for one path. Starlette's route for functions would wrap each call three times more."""

    def __init__(self, **rules: AccessRule) -> None:
        self.rules = dict(rules)
        if "GET" in rules:
            self.rules["HEAD"] = rules["GET"]
        self.allow = ", ".join(sorted(self.rules))
        self.judges = {method: partial(judging.judge, rule=rule) for method, rule in self.rules.items()}

    @property
    def is_public(self) -> bool:
        """Whether no method of it asks for a credential."""
        return all(rule.place is PermissionPlace.PUBLIC for rule in self.rules.values())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rule = self.rules.get(scope["method"])
        if rule is None:
            raise errors.MethodNotAllowed(self.allow)
        call = Call(scope, receive)
        call.judge = self.judges[scope["method"]]
        call.judge(call)
        response = await rule.handler(call)
        await response(scope, receive, send)
