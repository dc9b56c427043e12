"""Every page for whoever uses a keyboard, a screen reader, a phone or a dark screen; and nothing of anybody's in its
markup.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from api.pages import routes
from api.pages.forms import PagePath
from reconciler.server import sign_in
from tests.api.pages import documents
from tests.api.pages.browsers import Browser, Seen
from tests.api.pages.test_local import signed_in
from tests.api.pages.worlds import World
from tests.daemons import Daemon

STYLE = (routes.ASSETS / "style.css").read_text()
POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


def every_page(world: World, local: Daemon) -> dict[str, Seen]:
    """Each template at least once, with mistakes and without."""
    ana, stranger = signed_in(local, "ana"), Browser(local)
    key = {"name": "of a page", "project": "default", "role": "user", "scopes": ["resources"]}
    return {
        "sign-in": stranger.get("/sign-in"),
        "sign-in that failed": stranger.post("/sign-in", {"name": "x", "password": "y"}),
        "account": ana.get("/account"),
        "account after something": ana.get("/account?done=revoked"),
        "account with mistakes": ana.make_key({"role": "boss", "expiry": "x"}),
        "account with a wrong password": ana.post("/account/password", {"newPassword": "short"}),
        "key": ana.make_key(key),
        "account with a key": ana.get("/account"),
        "account without a role": signed_in(local, "bob").get("/account"),
        "account of the organization's admin": world.as_("first-person").sign_in(),
        "invitation": world.browser().get("/invitation"),
        "invitation that is none": world.browser().post("/invitation", {"code": "x"}),
        "onwards": world.browser().post("/invitation", {"code": "rci_" + "A" * 43}),
        "no access": world.as_("nobody-at-all").sign_in(),
        "signed out": ana.get("/signed-out"),
        "error": ana.get("/oidc/redirect"),
    }


def test_every_page_is_whole_for_everybody(world: World, local: Daemon) -> None:
    pages = every_page(world, local)
    assert {name: found for name, seen in pages.items() if (found := documents.faults(seen.body))} == {}
    for seen in pages.values():
        assert seen.header("content-security-policy") == POLICY
        assert seen.header("referrer-policy") == "same-origin"
        assert seen.header("cache-control") == "no-store"
        assert "Undefined" not in seen.body
        assert re.findall(r'(?:href|src|action)="(?!/|#|http://127\.0\.0\.1)', seen.body) == []
    assert len({seen.page.words("title")[0] for seen in pages.values()}) >= 9


def test_what_people_and_providers_call_things_is_text_wherever_it_stands(world: World) -> None:
    evil = "\"'><img src=x onerror=alert(1)><b>"
    browser = world.as_("evil", service_projects="admin:default", name=evil, preferred_username=evil)
    seen = browser.sign_in()
    assert evil in seen.page.words("dd")
    asked = {"name": evil, "project": "default", "role": "user", "scopes": ["resources"]}
    for page in (seen, browser.make_key(asked), browser.get("/account")):
        assert "<img src=x" not in page.body
        assert documents.faults(page.body) == []
    mistaken = browser.make_key({**asked, "role": evil, "expiry": evil, "project": evil})
    assert (mistaken.status, documents.faults(mistaken.body)) == (400, [])
    for path in (f"/oidc/redirect?error={evil}", f"/account?done={evil}", f"/sign-in?back={evil}"):
        answered = browser.get(path.replace(" ", "%20"))
        assert "<img" not in answered.body.replace('<img src="/assets', "")


def test_the_assets_are_what_they_are_and_nothing_else_is_there(local: Daemon) -> None:
    browser = Browser(local)
    style, icon = browser.get("/assets/style.css"), browser.get("/favicon.ico")
    assert (style.header("content-type"), style.body) == ("text/css; charset=utf-8", STYLE)
    assert icon.header("content-type") == "image/svg+xml"
    assert icon.body == browser.get("/assets/icon.svg").body
    for path in ("/assets/", "/assets/../app.py", "/assets/%2e%2e/pages/forms.py", "/assets/style.css/"):
        assert browser.get(path).status == 401


def test_what_is_filled_in_at_first_makes_a_key_of_one_project(world: World) -> None:
    page = world.as_("first-person").sign_in().page
    chosen = [each.attributes["value"] for each in page.all("option") if "selected" in each.attributes]
    assert chosen == ["default", "viewer", "2160h"]


def test_what_is_registered_at_a_provider_is_where_the_pages_are() -> None:
    assert (sign_in.CALLBACK, sign_in.SIGNED_OUT) == (PagePath.CALLBACK, PagePath.SIGNED_OUT)


# Colours

LIGHT = re.search(r":root \{(.*?)\}", STYLE, re.DOTALL)
DARK = re.search(r"prefers-color-scheme: dark\) \{\s*:root \{(.*?)\}", STYLE, re.DOTALL)
TEXT = [
    *((ink, paper) for ink in ("text", "muted", "link", "danger") for paper in ("page", "card")),
    ("button-text", "button"),
    ("text", "danger-page"),
    ("text", "good-page"),
]
LINES = [
    ("edge", "card"),
    ("edge", "page"),
    ("focus", "page"),
    ("focus", "card"),
    ("button", "page"),
    ("danger", "danger-page"),
]


def colours(found: re.Match[str] | None) -> dict[str, tuple[int, ...]]:
    """The colours of a scheme by name."""
    assert found is not None
    pairs = re.findall(r"--([\w-]+): #([0-9a-f]{6});", found[1])
    return {name: tuple(bytes.fromhex(value)) for name, value in pairs}


def luminance(colour: tuple[int, ...]) -> float:
    """WCAG 2.2, relative luminance."""
    parts = [part / 255 for part in colour]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """WCAG 2.2, contrast ratio."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
def test_what_is_written_can_be_read(scheme: re.Match[str] | None) -> None:
    found = colours(scheme)
    assert [pair for pair in TEXT if contrast(found[pair[0]], found[pair[1]]) < 4.5] == []
    assert [pair for pair in LINES if contrast(found[pair[0]], found[pair[1]]) < 3.0] == []


def test_both_schemes_have_every_colour_and_none_stands_elsewhere() -> None:
    assert colours(LIGHT).keys() == colours(DARK).keys()
    rest = re.sub(r":root \{.*?\}", "", STYLE, flags=re.DOTALL)
    assert re.findall(r"#[0-9a-f]{3,8}\b", rest) == []
    assert set(re.findall(r"var\(--([\w-]+)\)", rest)) <= colours(LIGHT).keys()


def test_nothing_is_wider_than_the_narrowest_phone() -> None:
    widths = [float(width) for width in re.findall(r"(?<!max-)(?:min-)?width: ([\d.]+)rem", STYLE)]
    assert [width for width in widths if width * 16 > 320] == []
    assert "url(" not in STYLE
    assert "@import" not in STYLE


# What a service that shows no page pays


def test_without_a_page_neither_templates_nor_a_provider_are_loaded() -> None:
    code = (
        "import sys, api.app, reconciler.server.daemon\n"
        "print([name for name in ('jinja2', 'markupsafe', 'authlib', 'joserfc', 'cryptography', 'httpx2')"
        " if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert told.stdout == "[]\n"


def test_a_running_service_with_passwords_has_loaded_neither(local: Daemon) -> None:
    maps = Path(f"/proc/{local.process.pid}/maps").read_text()
    assert "cryptography" not in maps
