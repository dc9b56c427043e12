"""Forms, visitors and templates of pages of the service."""

from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl

from starlette.responses import Response

from api import auth, errors, requests
from api.calls import Call, Caller
from api.errors import Problem
from api.pages import words
from api.responses import OF_PAGES, Content, Empty, Header
from api.routing import Style
from reconciler.auth.oidc import flows
from reconciler.model.error_codes import ErrorCode
from reconciler.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment


class PagePath:
    """The paths of pages."""

    HOME = "/"
    SIGN_IN = "/sign-in"
    PROVIDER = "/oidc/sign-in"
    CALLBACK = "/oidc/redirect"
    INVITATION = "/invitation"
    ACCOUNT = "/account"
    ACCOUNT_KEYS = "/account/keys"
    REVOKE = "/account/keys/revoke"
    PASSWORD = "/account/password"  # noqa: S105 - a path
    EVERYWHERE = "/account/sessions/end"
    SIGN_OUT = "/sign-out"
    SIGNED_OUT = "/signed-out"
    NOTIFICATION_TYPES = "/docs/notifications"  # the explanation of each type: notifications link to it
    STYLE = "/assets/style.css"
    ICON = "/assets/icon.svg"
    FAVICON = "/favicon.ico"
    REDOC = "/assets/redoc.js"
    REFERENCE = "/docs"  # every operation of the interface
    HTMX = "/assets/htmx.js"
    SCRIPT = "/assets/console.js"
    ACT = "/act"  # every button of the console
    PROBLEMS = "/problems"
    RESOURCES = "/resources"
    CONFIGURATIONS = "/configurations"
    DELIVERY = "/delivery"
    RUNS = "/runs"
    PLANS = "/plans"
    NOTIFICATIONS = "/notifications"
    AUDIT = "/audit"
    PROJECTS = "/projects"
    PEOPLE = "/people"
    KEYS = "/keys"


# Forms that a browser sends. They must come from one of our pages. They are read within limits, and each field is text.

MAX_BYTES = 16 << 10  # of a body: the longest field is a password of 1,024 bytes, and each may be written as three
MOST = 32  # fields
TYPE = b"application/x-www-form-urlencoded"


class Form:
    """The fields of a form, in their order."""

    def __init__(self, body: bytes) -> None:
        self._fields: dict[str, list[str]] = {}
        try:
            text = body.decode("ascii")
            for name, value in parse_qsl(text, keep_blank_values=True, max_num_fields=MOST, errors="strict"):
                self._fields.setdefault(name, []).append(value)
        except ValueError:
            raise errors.BadRequest(f"The form is not at most {MOST} fields in percent-encoded UTF-8.") from None

    def text(self, name: str) -> str:
        """Return a field; empty when it is not there. Raises `BadRequest` for two."""
        values = self.texts(name)
        if len(values) > 1:
            raise errors.BadRequest(f"The field `{name}` is given more than once.")
        return values[0] if values else ""

    def told(self) -> dict[str, str]:
        """Return every field but passwords, to show them again: of one that is given more than once, the first."""
        return {name: values[0] for name, values in self._fields.items() if name != "password"}

    def texts(self, name: str) -> list[str]:
        """Return every value of a field."""
        return list(self._fields.get(name, ()))


async def read_form(call: Call) -> Form:
    """Return the form in a request's body. The request must have no query.

    If a person is signed in, the call is judged again when the body has arrived. Raises `Forbidden` for a form that
    none of our pages sent, `UnknownType`, `TooLarge`, `BadRequest`, `ClientDisconnect`, and the errors of `auth.again`.
    """
    requests.none_known(call.query)
    auth.check_origin(call, needs_proof=True)
    if [value.partition(b";")[0].strip().lower() for value in call.header(b"content-type")] != [TYPE]:
        raise errors.UnknownType(f"A form is sent as `{TYPE.decode()}`.")
    pieces: list[bytes] = []
    await requests.pass_on(call, pieces.append, limit=MAX_BYTES)
    if call.caller is not None:
        auth.again(call)
    return Form(b"".join(pieces))


# Mistakes in a form. The page shows each sentence beside its field, and all of them at the top.


class Mistake(NamedTuple):
    """A mistake in a form. `field` is the id of an input on the page, or empty for the whole form."""

    field: str
    sentence: str


# The visitor of a page: a signed-in person, anybody if the service needs no sign-in, or a stranger.
#
# Pages need no credential, so each one checks the visitor here. Pages ignore keys.

GONE = "You are not signed in any more, and nothing was changed."


async def recognise(call: Call) -> bool:
    """Return True if a person is signed in, who is then the call's principal."""
    anybody = call.services.anybody
    call.caller = await auth.browser(call) if anybody is None else Caller(anybody, call.directory)
    return call.caller is not None


async def read_own_form(call: Call) -> Form:
    """Return the form that a signed-in person sends. Raises `Unauthenticated` for other visitors, and the errors of
    `read_form`.
    """
    if not await recognise(call):
        challenge = (b"www-authenticate", auth.OF_KEYS)
        raise errors.Unauthenticated(GONE, code=ErrorCode.CREDENTIAL_REVOKED, headers=(challenge,))
    return await read_form(call)


def asked_back(call: Call) -> str:
    """Return the local path in a query to which the browser returns afterwards. Raises `BadRequest`."""
    query = requests.Query(call.query, known=frozenset({"back"}), strict=False)
    query.check()
    return flows.local_path(query.text("back") or "")


def session_token(call: Call) -> str:
    """Return the value of the session's cookie, valid or not; empty for none."""
    return auth.read_cookie(call.headers, auth.cookies(call).session)


# Templates and the pages that they make: the one door to Jinja2, which is loaded with the first page.

TEMPLATES = Path(__file__).with_name("templates")
HTML = b"text/html; charset=utf-8"


def elsewhere(place: str, *headers: Header) -> Response:
    """Answer 303, so that the browser loads another page with GET (RFC 9110, 15.4.4). `place` is ASCII, as URLs are."""
    location = (b"location", place.encode("ascii"))
    return Empty(status=303, headers=(location, (b"content-length", b"0"), *headers))


def page(template: str, *, status: int = 200, headers: tuple[Header, ...] = (), **values: object) -> Response:
    """Return the page of a template. Every variable that it uses must be given, as text and not as HTML."""
    html = _environment().get_template(f"{template}.html").render(values)
    # A lone surrogate, which JSON may spell, is no text that can be sent.
    return Content(html.encode("utf-8", "replace"), media_type=HTML, status=status, headers=headers)


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - most services show few pages

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["paths"] = PagePath
    environment.globals["version"] = __version__
    environment.filters.update(words.FILTERS)
    return environment


# A failure on the path of a page, as a page.

HEADINGS: Mapping[int, str] = {
    401: "You are not signed in",
    403: "This was refused",
    404: "There is no such page",
    409: "This does not fit what is there",
    413: "This is too large",
    429: "Too many requests",
    500: "Something went wrong",
    503: "Not at this moment",
}
CHALLENGE = b"www-authenticate"


class FailureLink(NamedTuple):
    """A link from the page of a failure to another page."""

    place: str
    words: str


ACCOUNT = FailureLink(PagePath.ACCOUNT, "Go to your account")
OVERVIEW = FailureLink(PagePath.HOME, "Go to the overview")


def failure_page(_call: Call, problem: Problem) -> Response:
    """Return the page of a failure."""
    heading = HEADINGS.get(problem.status) or HTTPStatus(problem.status).phrase
    # If `Basic` were among them, a browser would ask for a password in its own window.
    headers = tuple((name, auth.OF_KEYS if name == CHALLENGE else value) for name, value in problem.headers)
    told = {"heading": heading, "sentences": problem.sentences, "links": (OVERVIEW, ACCOUNT)}
    return page("message", status=problem.status, headers=headers, **told)


STYLE = Style(OF_PAGES, failure_page)
"""The style of answers on the paths of pages."""
