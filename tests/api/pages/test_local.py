"""Pages where people have passwords: signing in, the account, keys, another password."""

import json
import re
import ssl
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests import daemons
from tests.api.pages.browsers import FORM, WEB_URL, Browser, Seen
from tests.api.pages.conftest import PASSWORD
from tests.api.pages.worlds import World
from tests.daemons import Daemon
from tests.servers.certificates import Authority

ANOTHER = "canary-another-password"


def signed_in(local: Daemon, name: str, password: str = PASSWORD) -> Browser:
    """A browser of somebody."""
    browser = Browser(local)
    seen = browser.post("/sign-in", {"name": name, "password": password, "back": "/account"})
    assert (seen.status, seen.location) == (303, "/account"), seen
    return browser


def mistakes(seen: Seen) -> list[tuple[str, str]]:
    """Return what the summary of a page says, and to which field each leads."""
    summary = [each for each in seen.page.all("div") if each.attributes.get("role") == "alert"]
    assert len(summary) == 1
    links = [each for each in seen.page.all("a") if "ul" in each.inside]
    return [(each.attributes["href"], " ".join(each.text.split())) for each in links]


def test_a_stranger_is_led_to_the_form_and_from_there_to_where_they_went(local: Daemon) -> None:
    browser = Browser(local)
    assert browser.get("/").location == "/sign-in?back=%2F"
    assert browser.get("/account").location == "/sign-in?back=/account"
    page = browser.get("/sign-in?back=/account%3Fdone%3Drevoked").page
    fields = {each.attributes["name"]: each.attributes for each in page.all("input")}
    assert fields["back"]["value"] == "/account?done=revoked"
    assert fields["name"]["autocomplete"] == "username"
    assert fields["password"]["autocomplete"] == "current-password"
    seen = browser.post("/sign-in", {"name": "ana", "password": PASSWORD, "back": "/account?done=revoked"})
    assert (seen.status, seen.location) == (303, "/account?done=revoked")
    assert [cookie.partition("=")[0] for cookie in seen.cookies] == ["reconciler"]
    assert browser.get("/account").page.words("h1") == ["Your account"]


@pytest.mark.parametrize(("name", "password"), [("ana", "canary-wrong"), ("nobody", PASSWORD), ("", ""), ("<b>", "x")])
def test_a_wrong_password_is_told_as_an_unknown_name_is(local: Daemon, name: str, password: str) -> None:
    browser = Browser(local)
    seen = browser.post("/sign-in", {"name": name, "password": password, "back": "//evil.example"})
    assert seen.status == 401
    assert seen.header("www-authenticate") == 'Bearer realm="service"'  # no window of the browser's own
    assert mistakes(seen) == [("#name", "The name or the password is wrong.")]
    fields = {each.attributes["name"]: each.attributes for each in seen.page.all("input")}
    assert (fields["name"]["value"], fields["password"]["value"], fields["back"]["value"]) == (name, "", "/")
    assert browser.jar == {}


def test_whoever_guesses_waits(local: Daemon) -> None:
    browser = Browser(local)
    answers = [browser.post("/sign-in", {"name": "guessed", "password": f"canary-{number}"}) for number in range(6)]
    assert [seen.status for seen in answers] == [401, 401, 401, 401, 401, 429]
    assert answers[-1].page.words("h1") == ["Too many requests"]
    assert 0 < int(answers[-1].header("retry-after")) <= 30


def test_nobody_signs_in_with_a_cookie_that_was_there_before(local: Daemon) -> None:
    browser = Browser(local)
    browser.jar["reconciler"] = "A" * 43
    browser.post("/sign-in", {"name": "ana", "password": PASSWORD})
    first = browser.jar["reconciler"]
    browser.post("/sign-in", {"name": "ana", "password": PASSWORD})
    assert len({"A" * 43, first, browser.jar["reconciler"]}) == 3
    for old in ("A" * 43, first):
        assert browser.ask("GET", "/v1/me", headers={"Cookie": f"reconciler={old}"}).status == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "null", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({}, 403),
        ({"Origin": WEB_URL, "Content-Type": "multipart/form-data; boundary=x"}, 415),
        ({"Origin": "null", "Sec-Fetch-Site": "same-origin"}, 303),
        ({"Origin": WEB_URL}, 303),
    ],
)
def test_a_form_says_where_it_comes_from(local: Daemon, headers: dict[str, str], status: int) -> None:
    body = f"name=ana&password={PASSWORD}".encode()
    told = {"Content-Type": "application/x-www-form-urlencoded", **headers}
    assert Browser(local).ask("POST", "/sign-in", body, told).status == status


def test_a_listener_with_tls_gives_cookies_for_https_alone_whatever_is_set(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "authority")
    shown = authority.issue()
    settings = {"tls": {"certFile": str(shown.chain), "keyFile": str(shown.key)}}
    daemon = Daemon(tmp_path / "daemon", settings=settings)
    daemon.tls = ssl.create_default_context(cafile=authority.bundle)
    try:
        daemon.start()
        assert daemon.post("/v1/users", {"name": "ana", "password": PASSWORD}).status == 201
        origin = f"https://{daemon.host}:{daemon.port}"
        form = urlencode({"name": "ana", "password": PASSWORD}).encode()
        given = daemon.ask("POST", "/sign-in", form, {"Content-Type": FORM, "Origin": origin}).headers["set-cookie"]
        assert re.fullmatch(r"__Host-reconciler=[\w-]{43}; Path=/; Secure; HttpOnly; SameSite=Lax", given)
        assert daemon.ask("GET", "/v1/me", None, {"Cookie": given.partition(";")[0]}).status == 200
    finally:
        daemons.end(daemon)


def test_there_is_no_provider_and_no_invitation(local: Daemon) -> None:
    browser = signed_in(local, "ana")
    for path in ("/oidc/sign-in", "/oidc/redirect?code=x&state=y", "/invitation"):
        seen = browser.get(path)
        assert (seen.status, seen.page.words("h1")) == (404, ["There is no such page"])
    assert browser.post("/invitation", {"code": "rci_" + "A" * 43}).status == 404


def test_whoever_has_no_role_reads_so_and_sees_no_keys(local: Daemon) -> None:
    page = signed_in(local, "bob").get("/account").page
    assert "You have no role in any project yet." in page.text
    assert page.words("h2") == ["You", "Projects", "Password", "Sessions"]
    seen = signed_in(local, "bob").post("/account/keys", {"name": "x", "project": "default", "role": "user"})
    assert seen.status in (400, 404)


def test_a_key_is_shown_once_and_can_be_revoked(local: Daemon) -> None:
    browser = signed_in(local, "ana")
    asked = {"name": "<b>pipeline", "project": "default", "role": "user", "scopes": ["resources"], "expiry": "720h"}
    seen = browser.make_key(asked)
    assert (seen.status, seen.location, seen.header("cache-control")) == (201, "", "no-store")
    text = next(each.text.strip() for each in seen.page.all("code") if each.attributes.get("class") == "secret")
    used = browser.ask("GET", "/v1/me", headers={"Authorization": f"Bearer {text}", "Cookie": ""})
    assert used.status == 200
    page = browser.get("/account").page
    assert text not in page.html
    assert "<b>pipeline" in page.words("h3")
    listed = local.get("/v1/api-keys").body["apiKeys"]
    (identifier,) = (one["id"] for one in listed if text.startswith(one["prefix"]))
    assert f'name="id" value="{identifier}"' in page.html
    seen = browser.post("/account/keys/revoke", {"id": identifier})
    assert (seen.status, seen.location) == (303, "/account?done=revoked")
    assert "The key is revoked." in browser.get(seen.location).page.text
    assert browser.ask("GET", "/v1/me", headers={"Authorization": f"Bearer {text}"}).status == 401
    assert browser.post("/account/keys/revoke", {"id": identifier}).status == 404


def test_a_member_makes_keys_of_their_own_alone(world: World) -> None:
    browser = world.member("keyless")
    page = browser.get("/account").page
    assert page.words("h2") == ["You", "Projects", "API keys", "Sessions"]
    assert "It is your own: it has at most your role, and ends when you are removed." in page.words("p")
    whose = next(each for each in page.all("input") if each.attributes.get("name") == "whose")
    assert whose.attributes == {"type": "hidden", "name": "whose", "value": "own"}
    asked = {"name": "mine", "project": "default", "role": "user", "scopes": ["resources"], "expiry": ""}
    assert browser.make_key({**asked, "whose": ""}).status == 403
    assert mistakes(browser.make_key({**asked, "role": "admin", "whose": "own"})) == [
        ("#key-name", "A personal key has at most your own role, and you are not admin in the project default.")
    ]
    seen = browser.make_key({**asked, "whose": "own"})
    text = next(each.text.strip() for each in seen.page.all("code") if each.attributes.get("class") == "secret")
    listed = json.loads(browser.ask("GET", "/v1/api-keys").body)["apiKeys"]
    assert [(one["name"], one["personal"], one["expiresAt"]) for one in listed] == [("mine", True, None)]
    assert browser.ask("GET", "/v1/me", headers={"Authorization": f"Bearer {text}", "Cookie": ""}).status == 200


def test_an_admin_chooses_whose_a_key_is(local: Daemon) -> None:
    browser = signed_in(local, "ana")
    asked = {"name": "of ana", "project": "default", "role": "user", "scopes": ["resources"], "expiry": ""}
    for whose in ("", "own"):
        assert browser.make_key({**asked, "whose": whose}).status == 201
    made = [one for one in local.get("/v1/api-keys").body["apiKeys"] if one["name"] == "of ana"]
    assert [(one["personal"], one["expiresAt"] is None) for one in made] == [(False, False), (True, True)]


def test_what_is_wrong_with_a_key_stands_beside_its_field_with_what_was_filled_in(local: Daemon) -> None:
    browser = signed_in(local, "ana")
    seen = browser.make_key({"name": "mine", "project": "default", "role": "boss", "expiry": "1y"})
    assert seen.status == 400
    assert [field for field, _ in mistakes(seen)] == ["#key-role", "#key-scopes", "#key-expiry"]
    name = next(each for each in seen.page.all("input") if each.attributes.get("id") == "key-name")
    assert name.attributes["value"] == "mine"
    seen = browser.make_key({"name": "", "project": "default", "role": "user", "scopes": "resources"})
    assert mistakes(seen) == [("#key-name", "A key needs a name, by which people know what it is for.")]


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"project": ""}, 403),  # the organization's
        ({"project": "payments"}, 404),
        ({"project": "default", "scopes": ["metrics"]}, 403),
    ],
)
def test_the_rules_of_keys_are_those_of_the_interface(local: Daemon, asked: dict[str, object], status: int) -> None:
    before = local.get("/v1/api-keys").body
    fields = {"name": "mine", "role": "admin", "scopes": ["resources"], **asked}
    assert signed_in(local, "ana").make_key(fields).status == status
    assert local.get("/v1/api-keys").body == before


def test_another_password_ends_every_other_session(local: Daemon) -> None:
    made = local.post("/v1/users", {"name": "eve", "password": PASSWORD})
    assert made.status == 201
    browser, other = signed_in(local, "eve"), signed_in(local, "eve")
    before = browser.jar["reconciler"]
    fields = {"password": PASSWORD, "newPassword": ANOTHER, "repeated": ANOTHER}
    for changes, mistake in [
        ({"newPassword": "short"}, ("#new-password", "A password has at least 12 characters.")),
        ({"repeated": ANOTHER + "x"}, ("#repeated-password", "The new password is not the same both times.")),
        ({"password": "canary-wrong"}, ("#old-password", "The present password is another one.")),
    ]:
        seen = browser.post("/account/password", {**fields, **changes})
        assert (seen.status, mistakes(seen)) == (400, [mistake])
        assert ANOTHER not in seen.body
    seen = browser.post("/account/password", fields)
    assert (seen.status, seen.location) == (303, "/account?done=password")
    assert browser.jar["reconciler"] != before
    assert "The password is changed." in browser.get(seen.location).page.text
    assert other.get("/v1/me").status == 401
    seen = other.post("/account/password", fields)
    assert (seen.status, seen.page.words("h1")) == (401, ["You are not signed in"])
    assert signed_in(local, "eve", ANOTHER).get("/v1/me").status == 200


def test_signing_out_ends_it_for_the_interface_as_well(local: Daemon) -> None:
    browser = signed_in(local, "ana")
    kept = dict(browser.jar)
    assert json.loads(browser.get("/v1/me").body)["me"]["name"] == "user:ana"
    seen = browser.post("/sign-out")
    assert (seen.status, seen.location, browser.jar) == (303, "/signed-out", {})
    browser.jar = kept
    assert browser.get("/v1/me").status == 401
    assert browser.post("/account/keys", {}).status == 401


def test_a_key_means_nothing_to_a_page(local: Daemon) -> None:
    headers = {"Authorization": f"Bearer {local.key}"}
    assert Browser(local).get("/account", headers).location == "/sign-in?back=/account"
    assert Browser(local).post("/account/keys", {"name": "x"}, headers).status == 401


HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize(
    "path", ["/acount", "/assets/none.css", "//v1/me", "/account/", "/v1/nothing", "/v1/me", "/hooks"]
)
def test_what_is_no_page_asks_a_browser_who_it_is(local: Daemon, path: str) -> None:
    seen = Browser(local).get(path, HTML)
    assert (seen.status, seen.header("content-type")) == (401, "application/json")


def test_a_path_without_a_page_for_the_method_says_which_there_is(local: Daemon) -> None:
    seen = Browser(local).get("/sign-out")
    assert (seen.status, seen.header("allow"), seen.page.words("h1")) == (405, "POST", ["Method Not Allowed"])
