"""`/docs`: the contract as a page, shown by the vendored Redoc."""

import hashlib
import re
from pathlib import Path

import pytest

import api.app
from api.calls import Services
from reconciler.version import __version__
from tests.api.callers import ask

pytestmark = pytest.mark.anyio

ASSETS = Path(api.app.__file__).parent / "pages" / "assets"


async def test_anybody_may_read_it_and_it_loads_from_the_service_alone(services: Services) -> None:
    app = api.app.build(services)
    answer = await ask(app, "GET", "/docs", headers=[])
    headers = dict(answer.headers)
    assert (answer.status, headers[b"content-type"]) == (200, b"text/html; charset=utf-8")
    policy = headers[b"content-security-policy"]
    assert policy.startswith(b"default-src 'none'; script-src 'self'; connect-src 'self'; ")
    assert [name for name, _ in answer.headers].count(b"content-security-policy") == 1
    places = re.findall(rb'(?:href|src|spec-url)="([^"]*)"', answer.body)
    of_version = f"?v={__version__}".encode()
    icon, script = b"/assets/icon.svg" + of_version, b"/assets/redoc.js" + of_version
    assert places == [icon, b"/openapi.json", b"/openapi.json", script]
    assert [(await ask(app, "GET", place.decode(), headers=[])).status for place in places] == [200] * 4


@pytest.mark.parametrize("name", ["redoc", "htmx"])
def test_a_vendored_file_is_the_one_that_its_note_names(name: str) -> None:
    script, note = (ASSETS / f"{name}.js").read_bytes(), (ASSETS / f"{name}.txt").read_text()
    assert hashlib.sha256(script).hexdigest() in note
    assert b"cdn.redoc" not in script
