"""Signing in through a provider, from the first page to the last."""

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests import daemons
from tests.api.pages import worlds
from tests.api.pages.browsers import FORM, WEB_URL, Browser, Seen
from tests.api.pages.worlds import FIRST, World
from tests.auth.oidc import hostile
from tests.auth.oidc.hostile import Behaviour

ME = "/v1/me"


def me(browser: Browser) -> dict[str, object]:
    """Return what the interface says who a browser is."""
    seen = browser.get(ME)
    assert seen.status == 200, seen
    return dict(json.loads(seen.body)["me"])


def reason(seen: Seen) -> str:
    """Why somebody has no access."""
    assert (seen.status, seen.page.words("h1")) == (403, ["No access yet"]), seen
    return seen.page.words("p")[0]


def test_a_browser_without_a_session_goes_straight_to_the_provider(world: World) -> None:
    seen = world.browser().get("/account")
    asked = parse_qs(urlsplit(seen.location).query)
    assert (seen.status, seen.body) == (303, "")
    assert seen.location.startswith(f"{world.provider.issuer}/authorize?")
    assert asked["redirect_uri"] == ["http://127.0.0.1:3001/oidc/redirect"]
    assert asked["scope"] == ["openid profile email"]
    assert (asked["response_type"], asked["code_challenge_method"]) == (["code"], ["S256"])
    (cookie,) = seen.cookies
    assert cookie.startswith("reconciler-flow=ey")
    assert cookie.endswith("; Path=/; Max-Age=600; HttpOnly; SameSite=Lax")


def test_the_way_back_ends_where_it_began_with_one_cookie_and_without_the_other(world: World) -> None:
    browser = world.as_("newcomer", service_projects="user:default", name="Ada <i>Newcomer</i>")
    seen = browser.get(browser.come_back(browser.get("/oidc/sign-in?back=/account%3Fdone%3Drevoked")))
    assert (seen.status, seen.location) == (303, "/account?done=revoked")
    assert [cookie.partition("=")[0] for cookie in seen.cookies] == ["reconciler", "reconciler-flow"]
    session, flow = seen.cookies
    assert session.endswith("; Path=/; HttpOnly; SameSite=Lax")
    assert flow == "reconciler-flow=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"
    page = browser.get("/account").page
    assert page.words("nav")[0].startswith("Ada <i>Newcomer</i>")
    assert page.words("tr") == ["ProjectYour role", "defaultuser"]
    assert me(browser)["projects"] == [{"name": "default", "role": "user"}]


def test_of_two_windows_that_begin_the_later_goes_on_and_the_earlier_leads_to_the_account(world: World) -> None:
    browser = world.as_("windows", service_projects="user:default")
    earlier = browser.come_back(browser.get("/account"))
    later = browser.come_back(browser.get("/oidc/sign-in?back=/account%3Fdone%3Drevoked"))
    told = browser.get(earlier)
    assert (told.status, told.cookies) == (401, [])
    seen = browser.get(later)
    assert (seen.status, seen.location) == (303, "/account?done=revoked")
    again = browser.get(earlier)
    assert (again.status, again.location, again.cookies) == (303, "/account", [])


def test_the_first_person_administers_the_organization_and_every_project(folder: Path) -> None:
    with worlds.standing(folder, has_first=False, disableInvitations=True) as world:
        world.daemon.post("/v1/projects", {"name": "payments"})
        browser = world.as_(FIRST, service_projects="viewer:default", preferred_username="ada")
        assert browser.sign_in().status == 200
        assert me(browser) == {
            "name": "user:ada",
            "organizationAdmin": True,
            "scopes": ["logs", "metrics", "raw", "resources"],
            "projects": [{"name": "default", "role": "admin"}, {"name": "payments", "role": "admin"}],
            "email": "",
            "identity": {"issuer": world.provider.issuer, "subject": FIRST},
        }
        assert world.daemon.complaints()[1:] == []


def test_only_whoever_is_meant_becomes_the_first_admin(folder: Path) -> None:
    first = {"claim": "email", "value": "ada@example.com"}
    with worlds.standing(folder, has_first=False, firstAdmin=first) as world:
        for claims in ({}, {"email": "ada@example.com"}, {"email": "ada@example.com", "email_verified": "true"}):
            assert "who is to be the first" in reason(world.as_("mallory", **claims).sign_in())
        browser = world.as_("ada", email="ada@example.com", email_verified=True)
        assert browser.sign_in().status == 200
        assert me(browser)["organizationAdmin"] is True


def test_whoever_was_not_invited_reads_why_and_what_to_do(world: World) -> None:
    browser = world.as_("stranger")
    seen = browser.sign_in()
    assert reason(seen).startswith(
        "You have no role in any project here; ask an administrator of one for an invitation. "
    )
    links = seen.page.links()
    assert list(links) == [
        "Use an invitation code",
        "Sign in again",
        "Sign out at the provider, to come as somebody else",
    ]
    assert links["Sign out at the provider, to come as somebody else"].startswith(
        f"{world.provider.issuer}/end-session?id_token_hint="
    )
    assert browser.jar == {}


def test_a_code_admits_once_with_its_project_and_role(world: World) -> None:
    code = world.code(role="user")
    guest = world.as_("guest-with-a-code")
    seen = guest.post("/invitation", {"code": f" {code} "})
    assert (seen.status, seen.page.words("h1"), code in seen.body) == (200, ["Sign in"], False)
    assert seen.onwards == seen.page.links()["Continue"]
    assert guest.finish(guest.come_back(seen)).page.words("h1") == ["Your account"]
    assert me(guest)["projects"] == [{"name": "default", "role": "user"}]
    other = world.as_("another-guest")
    seen = other.finish(other.come_back(other.post("/invitation", {"code": code})))
    assert reason(seen).startswith("This invitation code opens nothing")


def test_a_member_whose_code_opens_nothing_stays_signed_in(world: World) -> None:
    member, code = world.member("member-with-a-code"), world.code(role="user")
    assert member.finish(member.come_back(member.post("/invitation", {"code": code}))).status == 200
    seen = member.finish(member.come_back(member.post("/invitation", {"code": code})))
    assert seen.status == 403
    assert reason(seen).startswith("This invitation code opens nothing: ")
    assert me(member)["projects"] == [{"name": "default", "role": "user"}]


def test_what_is_no_code_is_told_beside_the_field(world: World) -> None:
    seen = world.browser().post("/invitation", {"code": "rci_short"})
    said = "This is no invitation code: it begins with rci_ and has 47 characters."
    field = next(each for each in seen.page.all("input") if each.attributes.get("name") == "code")
    assert (seen.status, seen.page.words("li"), seen.page.words("title")) == (
        400,
        [said],
        ["Error: Use an invitation - Reconciler"],
    )
    assert field.attributes["aria-describedby"] == "code-hint code-wrong"
    assert (field.attributes["aria-invalid"], field.attributes["value"]) == ("true", "")


def test_an_invited_address_admits_when_the_provider_vouches_for_it(world: World) -> None:
    asked = {"role": "viewer", "email": "Eve@Example.com"}
    assert world.daemon.post("/v1/projects/default/invitations", asked).status == 201
    browser = world.as_("eve", email="eve@example.COM", email_verified=True)
    assert browser.sign_in().status == 200
    assert me(browser)["projects"] == [{"name": "default", "role": "viewer"}]
    assert "eve@example.com" in browser.get("/account").page.words("dd")


def test_variables_are_all_that_a_provider_takes_and_claims_go_by_the_names_of_the_settings(folder: Path) -> None:
    named = {"groups": "teams", "projectsGroupPrefix": "telemetry:", "userGroupName": "crew"}
    settings = {"auth": {"oidc": {"customClaims": named}}, "webURL": WEB_URL}
    with hostile.providing() as provider:
        variables = {
            "SERVICE_AUTH_TYPE": "oidc",
            "SERVICE_OIDC_ISSUER": provider.issuer,
            "SERVICE_OIDC_OAUTH2_CLIENT_ID": hostile.CLIENT_ID,
            "SERVICE_OIDC_OAUTH2_CLIENT_SECRET": hostile.CLIENT_SECRET,
            "SERVICE_OIDC_SCOPES": "openid,teams",
            "SERVICE_OIDC_DISABLE_INVITATIONS": "true",
        }
        with daemons.running(folder / "daemon", settings=settings, environment=variables) as daemon:
            world = World(daemon, provider)
            assert world.as_(FIRST).sign_in().status == 200
            browser = world.as_("member", teams=["Crew", "telemetry:default"])
            assert browser.sign_in().status == 200
            assert me(browser)["projects"] == [{"name": "default", "role": "user"}]
            assert world.as_("else", groups=["service-org-admin"]).sign_in().status == 403
            assert world.browser().get("/invitation").status == 404
        asked = {request.form["scope"] for request in provider.requests if request.endpoint == "authorize"}
        assert asked == {"openid teams"}


def test_where_claims_decide_each_sign_in_gives_and_takes(folder: Path) -> None:
    with worlds.standing(folder, disableInvitations=True) as world:
        world.daemon.post("/v1/projects", {"name": "payments"})
        browser = world.as_("ada", groups=["service-projects-payments", "service-user"])
        assert browser.sign_in().status == 200
        assert me(browser)["projects"] == [{"name": "payments", "role": "user"}]
        before = dict(browser.jar)
        again = world.as_("ada", service_projects="viewer:default")
        assert again.sign_in().status == 200
        assert me(again)["projects"] == [{"name": "default", "role": "viewer"}]
        browser.jar = before
        assert browser.get(ME).status == 401  # it was of somebody who could do more
        unreadable = world.as_("ada", service_projects=["default"])
        assert unreadable.sign_in().status == 200
        assert me(unreadable)["projects"] == [{"name": "default", "role": "viewer"}]
        assert reason(world.as_("ada").sign_in()).startswith("What your provider says of you opens no project here")
        assert again.get(ME).status == 401
        assert world.browser().get("/invitation").status == 404


def test_two_hundred_groups_make_no_cookie_larger(world: World) -> None:
    few = world.as_("few-groups", service_projects="default")
    many = world.as_("many-groups", service_projects="default", groups=[f"group-{number:05}" for number in range(200)])
    few_cookie, many_cookie = (
        browser.get(browser.come_back(browser.get("/account"))).cookies[0] for browser in (few, many)
    )
    assert len(few_cookie) == len(many_cookie) < 120


def test_signing_out_ends_the_session_here_and_leads_to_the_provider(world: World) -> None:
    browser = world.member("leaver")
    kept = dict(browser.jar)
    seen = browser.post("/sign-out")
    assert (seen.status, seen.page.words("h1")) == (200, ["You are signed out"])
    asked = parse_qs(urlsplit(seen.onwards).query)
    assert seen.onwards.startswith(f"{world.provider.issuer}/end-session?")
    assert asked["post_logout_redirect_uri"] == ["http://127.0.0.1:3001/signed-out"]
    assert seen.cookies == ["reconciler=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"]
    assert browser.get("/signed-out").page.words("h1") == ["You are signed out"]
    browser.jar = kept
    assert browser.get(ME).status == 401
    assert browser.get("/account").location.startswith(world.provider.issuer)


def test_signing_out_without_a_session_or_a_providers_end_is_done_here(folder: Path) -> None:
    with worlds.standing(folder, document={"end_session_endpoint": hostile.GONE}, has_first=False) as world:
        browser = world.browser()
        assert browser.post("/sign-out").location == "/signed-out"
        assert browser.sign_in().status == 200
        assert browser.post("/sign-out").location == "/signed-out"
        assert browser.get(ME).status == 401


def test_a_session_outlives_a_restart_and_so_does_its_end(folder: Path) -> None:
    with worlds.standing(folder) as world:
        gone, browser = world.member("eve"), world.member("ada")
        kept = dict(gone.jar)
        assert gone.post("/sign-out").status == 200
        gone.jar = kept
        begun = world.browser()
        back = begun.come_back(begun.get("/account"))
        world.daemon.restart()
        assert me(browser)["projects"] == [{"name": "default", "role": "user"}]
        assert begun.get(back).location == "/account"  # so does a sign-in on its way
        assert gone.get(ME).status == 401


def test_another_provider_ends_the_sessions_of_the_one_before(folder: Path) -> None:
    with worlds.standing(folder) as world, hostile.providing() as another:
        before = world.member("member", role="admin")
        world.daemon.stop()
        world.daemon.configure([], auth=worlds.auth(another))
        world.daemon.start()
        assert before.get(ME).status == 401
        said = "auth.oidc.issuer is another one: 2 sessions of people whom it does not know ended."
        assert world.daemon.complaints().count(said) == 1
        # Whom it calls the same is somebody else, and whom it knows stays signed in.
        another.behaviour = Behaviour(subject="member")
        assert world.browser().sign_in().page.words("h1") == ["No access yet"]
        another.behaviour = Behaviour(subject="member", claims={"service_projects": "default"})
        after = world.browser()
        assert after.sign_in().status == 200
        world.daemon.restart()
        assert after.get(ME).status == 200
        assert world.daemon.complaints().count(said) == 1


def test_over_https_the_cookies_are_of_this_host_alone(folder: Path) -> None:
    with worlds.standing(folder, settings={"webURL": "https://service.example"}, has_first=False) as world:
        browser = world.browser()
        begun = browser.get("/account")
        assert begun.cookies[0].startswith("__Host-reconciler-flow=")
        assert begun.cookies[0].endswith("; Path=/; Max-Age=600; Secure; HttpOnly; SameSite=Lax")
        seen = browser.get(browser.come_back(begun))
        assert seen.cookies[0].startswith("__Host-reconciler=")
        assert seen.cookies[0].endswith("; Path=/; Secure; HttpOnly; SameSite=Lax")
        assert browser.get("/account").status == 200
        # Whoever is in between may put a page under the same name over http; old browsers say the origin alone.
        for origin, status in (("http://service.example", 403), ("https://service.example", 400)):
            assert browser.ask("POST", "/account/keys", b"", {"Content-Type": FORM, "Origin": origin}).status == status
        browser.jar = {"reconciler": browser.jar["__Host-reconciler"]}
        assert browser.get(ME).status == 401


def test_a_look_without_an_answer_leaves_the_code_unused(world: World) -> None:
    browser = world.as_("looked-at", service_projects="default")
    back = browser.come_back(browser.get("/account"))
    assert browser.get(back, method="HEAD").status == 405
    assert browser.get(back).status == 303


@pytest.mark.parametrize("path", ["/", "/account", "/sign-in", "/signed-out", "/invitation", "/assets/style.css"])
def test_head_answers_as_get_does_without_a_body(world: World, path: str) -> None:
    browser = world.member("head")
    seen, head = browser.get(path), browser.get(path, method="HEAD")
    assert (head.status, head.body) == (seen.status, "")
    assert head.header("content-length") == seen.header("content-length")


def test_the_interface_never_leads_anywhere(world: World) -> None:
    for path in (ME, "/v1/resources/Destination", "/v1/nothing", "/v1", "/metrics"):
        seen = world.browser().get(path, {"Accept": "text/html"})
        assert (seen.status, seen.header("content-type"), seen.location) == (401, "application/json", "")
        assert seen.header("www-authenticate") == 'Bearer realm="service"'


def test_a_cookie_writes_to_the_interface_from_a_page_of_the_service(world: World) -> None:
    browser = world.member("writer", role="admin")
    body = b'{"name":"of a page","role":"user","project":"default"}'
    headers = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
    seen = browser.ask("POST", "/v1/api-keys", body, headers)
    assert seen.status == 201
    assert browser.ask("DELETE", f"/v1/api-keys/{json.loads(seen.body)['apiKey']['id']}", b"", headers).status == 204
