"""People in a real browser: through a provider and with a password, with the keyboard; and against others' pages.

What the pages are like is in `test_pages`. Each test also asserts that no page said anything to the console, and asked
nothing beyond this machine (`visiting`).
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.providers import services
from tests.providers.certified import Certified
from tests.providers.chromium import Visitor
from tests.providers.second import Second
from tests.providers.services import Starting, said
from tests.providers.visits import PASSWORD, arrive, come, make_key, with_ada
from tests.servers import processes
from tests.servers.certificates import Authority

pytestmark = pytest.mark.providers

ANOTHER = "canary-another-password-of-ada-in-a-browser"


def test_the_keyboard_alone_signs_in_makes_and_revokes_a_key_and_signs_out(
    certified: Certified, starting: Starting, visitor: Visitor
) -> None:
    service = starting(certified, "north")
    certified.say("ada", **said("ada"))
    come(visitor, certified, "ada", to=f"{service.url}/account")
    arrive(visitor, "Your account")
    key = make_key(visitor, "for the pipeline")
    headers = {"Authorization": f"Bearer {key}"}
    assert service.daemon.ask("GET", "/v1/me", None, headers).status == 200
    visitor.press("I have kept it")
    arrive(visitor, "Your account")
    assert key not in visitor.text()
    assert [one["project"] for one in service.daemon.get("/v1/api-keys").body["apiKeys"]] == ["default"]
    visitor.press("Revoke…")
    visitor.press("Revoke this key")
    visitor.page.get_by_text("The key is revoked.").wait_for()
    assert service.daemon.ask("GET", "/v1/me", None, headers).status == 401
    visitor.press("Sign out")
    arrive(visitor, "Sign out of the provider?")
    visitor.press("Yes")
    arrive(visitor, "You are signed out")
    assert [cookie for cookie in visitor.context.cookies(service.url) if cookie["name"] == "reconciler"] == []
    visitor.page.go_back()  # a page that was seen before is not shown out of what the browser kept
    assert "for the pipeline" not in visitor.text()


def test_a_code_lets_somebody_in_through_the_provider(
    certified: Certified, starting: Starting, visitor: Visitor, visiting: Callable[[], Visitor]
) -> None:
    service = starting(certified, "north")
    for login in ("ada", "bob"):
        certified.say(login, **said(login))
    come(visitor, certified, "ada", to=f"{service.url}/account")
    arrive(visitor, "Your account")
    answer = service.daemon.post("/v1/projects/north/invitations", {"role": "user"})
    bob = visiting()
    bob.visit(f"{service.url}/invitation")
    bob.fill("Invitation code", str(answer.body["invitation"]["code"]))
    bob.press("Continue")
    bob.page.wait_for_url(f"{certified.issuer}/**")
    bob.fill("Login", "bob")
    bob.page.keyboard.press("Enter")
    arrive(bob, "Your account")
    row = bob.page.get_by_role("row").filter(has_text="north")
    assert row.inner_text().split() == ["north", "user"]


def test_the_second_provider_signs_people_in_with_its_own_pages(
    second: Second, starting: Starting, visitor: Visitor
) -> None:
    service = starting(second)
    second.say("ada", **said("ada"))
    visitor.visit(f"{service.url}/account")
    visitor.page.get_by_placeholder("Your username").fill("ada")
    visitor.page.get_by_placeholder("Your password").fill(second.password)
    visitor.page.keyboard.press("Enter")
    for scope in ("profile", "email"):
        visitor.page.get_by_label(scope).check()
    visitor.page.get_by_role("button", name="Grant access").click()
    visitor.page.get_by_role("button", name="Continue").click()
    arrive(visitor, "Your account")
    assert "ada@example.test" in visitor.text()


def test_a_password_signs_in_is_changed_and_no_longer_does(starting: Starting, visiting: Callable[[], Visitor]) -> None:
    service = with_ada(starting(None))
    ada, elsewhere = visiting(), visiting()
    for one in (ada, elsewhere):
        one.visit(f"{service.url}/account")
        one.fill("User name", "ada")
        one.fill("Password", PASSWORD)
        one.press("Sign in")
        arrive(one, "Your account")
    ada.fill("Present password", PASSWORD)
    ada.fill("New password", ANOTHER)
    ada.fill("New password, once more", ANOTHER)
    ada.press("Change the password")
    ada.page.get_by_text("The password is changed.").wait_for()
    elsewhere.visit(f"{service.url}/account")
    arrive(elsewhere, "Sign in")
    elsewhere.fill("User name", "ada")
    elsewhere.fill("Password", PASSWORD)
    elsewhere.press("Sign in")
    elsewhere.page.get_by_role("alert").wait_for()
    ada.press("Sign out")
    arrive(ada, "You are signed out")


def test_cookies_are_out_of_reach_of_scripts_and_of_other_sites(
    certified: Certified, starting: Starting, visitor: Visitor
) -> None:
    service = starting(certified)
    certified.say("ada", **said("ada"))
    come(visitor, certified, "ada", to=f"{service.url}/account")
    arrive(visitor, "Your account")
    [cookie] = visitor.context.cookies(service.url)
    assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == ("reconciler", True, "Lax", "/")
    assert visitor.page.evaluate("document.cookie") == ""


def test_over_https_the_cookie_belongs_to_this_host_alone(tmp_path: Path, browser: Browser) -> None:
    issued = Authority.make(tmp_path / "authority").issue()
    url = f"https://127.0.0.1:{processes.free_port()}"
    tls = {"certFile": str(issued.chain), "keyFile": str(issued.key)}
    provider = Certified(tmp_path / "provider", service=url)
    provider.say("ada", **said("ada"))
    visitor = Visitor(browser, trusts_anybody=True)
    with provider.start(), services.running(tmp_path / "service", url, services.auth(provider), tls=tls):
        come(visitor, provider, "ada", to=f"{url}/account")
        arrive(visitor, "Your account")
        found = {cookie["name"]: (cookie["secure"], cookie["httpOnly"]) for cookie in visitor.context.cookies(url)}
        visitor.close()
    assert (found, visitor.complaints) == ({"__Host-reconciler": (True, True)}, [])


@pytest.mark.parametrize("elsewhere", ["http://localhost:9", "http://127.0.0.1:9"])
def test_a_page_of_somebody_else_changes_nothing_and_frames_nothing(
    certified: Certified, starting: Starting, visitor: Visitor, elsewhere: str
) -> None:
    """The first is another site, to which the cookie is not sent; the second is the same site at another port."""
    service = starting(certified)
    certified.say("ada", **said("ada"))
    come(visitor, certified, "ada", to=f"{service.url}/account")
    arrive(visitor, "Your account")
    trap = f'<form method="post" action="{service.url}/sign-out"><button>Win</button></form>'
    frame = f'<iframe src="{service.url}/account"></iframe>'
    visitor.context.route(
        f"{elsewhere}/**",
        lambda route: route.fulfill(
            content_type="text/html",
            body=f'<link rel="icon" href="data:,">{frame if "frame" in route.request.url else trap}',
        ),
    )
    visitor.visit(f"{elsewhere}/trap")
    visitor.press("Win")
    visitor.page.wait_for_url(f"{service.url}/sign-out")
    assert visitor.heading() in {"This was refused", "You are not signed in"}
    visitor.visit(f"{elsewhere}/frame")
    print([(f.url, f.content()[:100]) for f in visitor.page.frames], visitor.complaints)
    assert ["Your account" in one.content() for one in visitor.page.frames] == [False, False]
    visitor.complaints.clear()  # the browser may say why it framed nothing
    visitor.visit(f"{service.url}/account")
    arrive(visitor, "Your account")
