"""The frame of the console: the visitor, the chosen project, the menu, and what every page is made of.

A page of the console is a handler of a `View`:

@console.page("GET /runs", known=("repository",))
async def show_runs(view: View) -> Response: ...

It asks the API (`view.api`), and renders one template. The server makes all HTML: without scripts, a page is the same
but does not update itself.
"""

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, unquote, urlencode

from starlette.responses import Response

from api import access, auth, errors
from api.calls import Call, Subject
from api.pages import actions, forms, sign_in
from api.pages.actions import ACTIONS, DONE
from api.pages.api_client import Api
from api.pages.forms import FailureLink, Form, PagePath
from api.requests import Query
from api.responses import OF_CONSOLE
from api.routing import Router, Routes, Style
from reconciler.model.directory import User

routes = Routes(Style(OF_CONSOLE, forms.failure_page))


# The sections in the order of the menu. A visitor sees those whose operation they may call in a shown project.
SECTIONS = (
    (PagePath.HOME, "Overview", "GET /v1/repositories"),
    (PagePath.PROBLEMS, "Problems", "GET /v1/repositories"),
    (PagePath.RESOURCES, "Resources", "GET /v1/resources/{kind}"),
    (PagePath.DELIVERY, "Delivery", "GET /v1/deliveries"),
    (PagePath.RUNS, "Runs", "GET /v1/runs"),
    (PagePath.PLANS, "Plans", "GET /v1/plans"),
    (PagePath.NOTIFICATIONS, "Notifications", "GET /v1/api/notifications"),
    (PagePath.AUDIT, "Audit", "GET /v1/audit-events"),
    (PagePath.PROJECTS, "Projects", "GET /v1/projects"),
    (PagePath.PEOPLE, "People", "GET /v1/users"),
    (PagePath.KEYS, "Keys", "GET /v1/api-keys"),
)

LISTS = frozenset(path for path, _, _ in SECTIONS)


REFUSED = "This was refused, and nothing was changed"


class Refusal(NamedTuple):
    """A form that was refused: its fields without passwords, and why."""

    fields: Mapping[str, str]
    problem: errors.Problem


class View:
    """One request for a page: the visitor's API, the chosen project, the query, and the time."""

    def __init__(self, call: Call, query: Query, *, here: str = "", refusal: Refusal | None = None) -> None:
        """Make the view. The query must have been checked. `here` is the path of the page, if it differs from the
        call's. Raises `NotFound` for a project out of reach.
        """
        self.refusal = refusal
        self._path = here or call.scope["path"]
        self.call = call
        self.api = Api(call)
        self.query = query
        self.now = call.services.clock()
        events = call.services.events
        self.position = events.id_of(events.last)  # taken before anything is read: every later change is an event
        self.unread: list[str] = []  # projects whose delivery is not known yet
        self.missing: dict[str, str] = {}  # instances whose part of the delivery is missing, and why
        principal = call.principal
        self.projects = [one for one in sorted(call.directory.projects) if principal.role_in(one) is not None]
        self.chosen = query.text("project") or ""
        if self.chosen and self.chosen not in self.projects:
            raise access.no_project(call, self.chosen)

    @property
    def project(self) -> str:
        """The project of pages that show one: the chosen one, else `default` or the first; empty if there is none."""
        if self.chosen:
            return self.chosen
        return "default" if "default" in self.projects else next(iter(self.projects), "")

    @property
    def scope(self) -> Sequence[str]:
        """The projects that are shown: the chosen one, or all within reach."""
        return (self.chosen,) if self.chosen else self.projects

    def may(self, action: str, *, project: str) -> bool:
        """Return True if the visitor has the permission for an action."""
        return self.api.may(ACTIONS[action].operation, project=project)

    def text(self, name: str) -> str:
        """Return a parameter of the query; empty when it is not given."""
        return self.query.text(name) or ""

    def link(self, path: str, **query: object) -> str:
        """Return a path with a query that keeps the chosen project. Empty values are left out."""
        told = {"project": self.chosen, **query}
        text = urlencode({name: value for name, value in told.items() if value not in ("", None)})
        return f"{path}?{text}" if text else path

    @property
    def here(self) -> str:
        """The path and query of this page."""
        path = quote(self._path)
        return f"{path}?{urlencode(self.query.values)}" if self.query.values else path

    @property
    def filters(self) -> tuple[str, dict[str, str]]:
        """The path and query of the form that chooses a project: this list without the project, or the overview."""
        if self._path not in LISTS:
            return PagePath.HOME, {}
        return self._path, {name: text for name, text in self.query.values.items() if name not in ("project", "after")}

    def typed(self, fields: Mapping[str, object]) -> Mapping[str, str]:
        """Return what was sent with the form that has these hidden fields, if it was refused; otherwise nothing."""
        sent = {} if self.refusal is None else self.refusal.fields
        return sent if sent and all(sent.get(name) == str(value) for name, value in fields.items()) else {}

    def sections(self) -> list[tuple[str, str]]:
        """Return the sections that the visitor may see, with their paths."""
        scope, may = self.scope or ("",), self.api.may
        return [
            (self.link(path), name)
            for path, name, operation in SECTIONS
            if any(may(operation, project=project) for project in scope)
        ]

    def page(self, template: str, *, section: str, live: str = "", status: int = 200, **values: Any) -> Response:
        """Render a page. `live` names the types of events that refresh it, separated by spaces. A page with a refused
        form is never refreshed.
        """
        user: User | None = self.call.directory.user(self.call.principal.user or "")
        cookies = auth.cookies(self.call)
        done = auth.read_cookie(self.call.headers, cookies.done)
        who = self.call.principal.name if user is None else user.display_name or user.name
        headers = (cookies.taken(cookies.done),) if done else ()
        if self.refusal is not None:
            status, live, headers = self.refusal.problem.status, "", (*headers, *self.refusal.problem.headers)
        return forms.page(
            template,
            status=status,
            headers=headers,
            who=who,
            can_sign_out=self.call.services.anybody is None,
            view=self,
            now=self.now,
            section=section,
            live=live,
            done=DONE.get(done, ""),
            refused=REFUSED,
            **values,
        )


Handler: TypeAlias = Callable[[View], Awaitable[Response]]
_PAGES: dict[str, tuple[Handler, frozenset[str]]] = {}  # with the names of the query, by path


def page(operation: str, *, known: Sequence[str] = ()) -> Callable[[Handler], Handler]:
    """Have the decorated handler show a page to people who are signed in; all others sign in first."""
    path = operation.removeprefix("GET ")

    def register(handler: Handler) -> Handler:
        _PAGES[path] = handler, frozenset({"project", *known})

        @routes.add(operation, Subject.PUBLIC)
        async def show(call: Call) -> Response:
            return await _shown(call, path) if await forms.recognise(call) else await _sign_in(call)

        return handler

    return register


async def _shown(call: Call, path: str, *, refusal: Refusal | None = None) -> Response:
    handler, names = _PAGES[path]
    query = Query(call.query, known=names, strict=False)
    query.check()
    view = View(call, query, refusal=refusal)
    # Without a role there is nothing to show; organization admins reach every project.
    return await handler(view) if view.projects else view.page("without-role", section="")


async def _sign_in(call: Call) -> Response:
    query = call.query.decode("latin-1")
    back = quote(call.scope["path"]) + (f"?{query}" if query else "")
    if call.services.auth_type == "oidc":
        return await sign_in.lead_to_provider(call, back=back)
    return forms.elsewhere(f"{PagePath.SIGN_IN}?back={quote(back, safe='')}")


# Forms: each button sends one, and its operation refuses as the API does.


@routes.add(f"POST {PagePath.ACT}", Subject.PUBLIC)
async def act(call: Call) -> Response:
    """Do the action of a button, and lead back to its page; if it is refused, show that page with the reason."""
    form = await forms.read_own_form(call)
    name, project = form.text("action"), form.text("project")
    action = ACTIONS.get(name)
    if action is None:
        raise errors.BadRequest("There is no such action.")
    parameters, body = action.parameters(form), action.members(form)
    try:
        await Api(call).ask(action.operation, project=project, body=body, **parameters)
    except errors.Problem as problem:
        return await refused(call, form, problem)
    cookies = auth.cookies(call)
    done = cookies.given(cookies.done, name, seconds=actions.DONE_SECONDS)
    return forms.elsewhere(actions.local(form.text("back")), done)


async def refused(call: Call, form: Form, problem: errors.Problem) -> Response:
    """Show the page of a form again, with what was typed and why it was refused; or that alone if the page is gone."""
    auth.again(call)
    back = actions.local(form.text("back"))
    place, _, query = back.partition("?")
    scope = {**call.scope, "method": "GET", "path": unquote(place), "query_string": query.encode()}
    found = _router().find(scope["path"])
    if found is not None and found[0].path in _PAGES:
        inner = Call(scope, call.receive, call.services, call.request, found[1], call.endpoints, call.caller)
        with contextlib.suppress(errors.Problem):
            response = await _shown(inner, found[0].path, refusal=Refusal(form.told(), problem))
            if response.status_code == problem.status:  # and does not lead elsewhere
                return response
    told = {"heading": REFUSED, "sentences": problem.sentences, "links": (FailureLink(back, "Go back"), forms.OVERVIEW)}
    return forms.page("message", status=problem.status, headers=problem.headers, **told)


@cache
def _router() -> Router:
    return Router(routes.endpoints.values())
