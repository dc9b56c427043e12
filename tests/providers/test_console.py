"""The console in Chromium: every page for each role, every button, updates without a reload, keys, and no script.

Each test also asserts that no page said anything to the console, broke its policy, or asked beyond this machine
(`visiting`).
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests import daemons
from tests.api.pages import consoles
from tests.api.pages.consoles import PASSWORD, ConsoleWorld
from tests.providers import found, looking
from tests.providers.chromium import Scheme, Visitor
from tests.servers import processes

pytestmark = pytest.mark.providers

LOOKS: list[tuple[Scheme, int]] = [("light", 1280), ("dark", 360), ("dark", 1280)]
PAGES = {
    "overview": "/",
    "problems": "/problems",
    "resources": "/resources",
    "resource": "/resources/default/Destination/siem",
    "configuration": "/configurations/default/orders",
    "rendered": "/configurations/default/hosts",
    "delivery": "/delivery",
    "destination": "/delivery/default/siem",
    "runs": "/runs",
    "repository": "/runs?repository=telemetry",
    "plans": "/plans",
    "notifications": "/notifications",
    "projects": "/projects",
    "project": "/projects/default",
    "keys": "/keys",
}
OF_ROLE = {"vera": {}, "uma": {}, "ana": {"audit": "/audit"}, "root": {"audit": "/audit", "people": "/people"}}
GRAVE = {"serious", "critical"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleWorld]:
    port = processes.free_port()
    folder, url = tmp_path_factory.mktemp("console"), f"http://127.0.0.1:{port}"
    with consoles.standing(folder, listen=f"127.0.0.1:{port}", webURL=url) as standing:
        yield standing


def enter(visitor: Visitor, world: ConsoleWorld, name: str, path: str = "/") -> Page:
    """Sign in, and go to a page."""
    page = visitor.page
    visitor.visit(f"{world.web_url}/sign-in")
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    visitor.visit(world.web_url + path)
    return page


def grave(page: Page) -> list[str]:
    """Return what axe-core finds that is serious."""
    page.evaluate((found.NODE_MODULES / "axe-core" / "axe.min.js").read_text())
    result = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    violations: list[dict[str, Any]] = result["violations"]
    return [
        f"{one['id']}: {node['html'][:120]}"
        for one in violations
        if one["impact"] in GRAVE
        for node in one["nodes"][:3]
    ]


@pytest.mark.parametrize("name", OF_ROLE)
def test_every_page_is_fit_for_everybody(world: ConsoleWorld, visiting: Callable[[], Visitor], name: str) -> None:
    visitor = visiting()
    page = enter(visitor, world, name)
    for title, path in {**PAGES, **OF_ROLE[name]}.items():
        visitor.visit(world.web_url + path)
        if page.locator("#live").get_attribute("data-live"):
            expect(page.locator("#connection")).to_have_text("live")
        for scheme, width in LOOKS if name in ("vera", "root") else LOOKS[:1]:
            visitor.become(scheme, width)
            if name == "root":
                visitor.photograph(f"console-{title}-{scheme}-{width}")
            assert (name, title, width, looking.faults(page, scripts=True)) == (name, title, width, [])
        assert (name, title, grave(page)) == (name, title, [])


def test_a_phone_shows_every_button(world: ConsoleWorld, visitor: Visitor) -> None:
    page = enter(visitor, world, "root")
    visitor.become("light", 360)
    world.endpoint.status = 422
    try:
        world.send(3)
        daemons.until(lambda: world.delivery()["deadLetters"]["records"] == 3, "it is given up")
        run = world.daemon.runs("telemetry", limit=1)[0]["id"]
        for path in (*PAGES.values(), "/audit", "/people", "/account", f"/runs/{run}"):
            visitor.visit(world.web_url + path)
            page.evaluate("() => document.querySelectorAll('details').forEach(one => { one.open = true; })")
            assert (path, looking.faults(page, scripts=True)) == (path, [])
    finally:
        world.endpoint.status = 200
        world.daemon.post("/v1/destinations/siem/delivery/discard", {"what": "all"})


def test_what_was_typed_survives_a_refusal(world: ConsoleWorld, visitor: Visitor) -> None:
    page = enter(visitor, world, "ana", "/runs?repository=telemetry")
    page.get_by_text("Suspend…").click()
    page.get_by_label("Why").fill("maintenance of the store")
    page.get_by_label("For").fill("two days")
    page.get_by_role("button", name="Suspend", exact=True).click()
    error = page.get_by_role("alert")
    expect(error).to_be_focused()
    expect(error).to_be_in_viewport()
    expect(page).to_have_url(f"{world.web_url}/runs?repository=telemetry")
    expect(page.get_by_label("Why")).to_have_value("maintenance of the store")
    page.get_by_label("For").fill("1h")
    page.get_by_role("button", name="Suspend", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("suspended")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("main")).to_contain_text("The repository is followed again.")


def test_the_values_of_a_chart_are_readable_without_a_script(world: ConsoleWorld, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    session = world.browser("vera").jar["reconciler"]
    context.add_cookies([{"name": "reconciler", "value": session, "url": world.web_url}])
    page = context.new_page()
    page.goto(f"{world.web_url}/delivery/default/siem")
    page.get_by_text("The last hour in numbers").click()
    expect(page.get_by_role("row").nth(1)).to_have_text(re.compile(r"^now"))
    expect(page.get_by_role("columnheader", name="Delivered, records/s")).to_be_visible()
    titles = page.locator("svg.chart rect title").all_text_contents()
    assert [one for one in titles if not re.fullmatch(r"(\d\d:\d\d UTC|now): \S+ records(/s|/min)?", one)] == []
    assert "now: 0 records" in titles
    context.close()


def test_a_mark_reaches_the_other_tab(world: ConsoleWorld, visitor: Visitor) -> None:
    shown = daemons.until(world.lasting_notification, "a notification opens")
    page = enter(visitor, world, "ana", "/notifications")
    expect(page.locator("#connection")).to_have_text("live")
    line, tab = page.locator(f"#n-{shown}"), world.browser("ana")
    for status, count in (("dismissed", 0), ("unread", 1)):
        tab.post("/act", {"action": "note", "id": shown, "userStatus": status, "back": "/notifications"})
        expect(line).to_have_count(count, timeout=15_000)


def test_a_commit_shows_without_a_reload(world: ConsoleWorld, visitor: Visitor) -> None:
    page = enter(visitor, world, "vera")
    row = page.locator("#repository-telemetry")
    expect(page.locator("#connection")).to_have_text("live")
    page.evaluate("() => { window.isTheSame = true; window.scrollTo(0, 50); }")
    before = page.evaluate("() => window.scrollY")
    commit = world.change()
    expect(row).to_contain_text(commit[:12], timeout=15_000)
    expect(row).to_contain_text("Move the endpoint")
    assert page.evaluate("() => window.isTheSame") is True
    assert page.evaluate("() => window.scrollY") == before


def test_a_run_says_without_a_reload_that_another_commit_is_applied(world: ConsoleWorld, visitor: Visitor) -> None:
    run = world.daemon.run_of("telemetry", world.change())
    page = enter(visitor, world, "vera", f"/runs/{run['id']}")
    facts = page.locator("dl.facts")
    expect(page.locator("#connection")).to_have_text("live")
    expect(facts).to_contain_text("applied Move the endpoint")
    later = world.change()
    expect(facts).to_contain_text(re.compile(f"Applied now.*{later[:12]}", re.DOTALL), timeout=15_000)


def test_a_fold_that_is_open_stays_open_over_an_update(world: ConsoleWorld, visitor: Visitor) -> None:
    page = enter(visitor, world, "ana", "/runs?repository=telemetry")
    expect(page.locator("#connection")).to_have_text("live")
    page.get_by_text("Suspend…").click()
    page.get_by_label("Why").fill("half of a reason")
    page.get_by_label("Why").focus()
    commit = world.change()
    expect(page.locator("tbody")).to_contain_text(commit[:12], timeout=15_000)
    expect(page.get_by_label("Why")).to_have_value("half of a reason")
    expect(page.get_by_label("Why")).to_be_focused()


def test_delivery_and_notifications_show_without_a_reload(world: ConsoleWorld, visitor: Visitor) -> None:
    page = enter(visitor, world, "vera", "/delivery/default/siem")
    expect(page.locator("#connection")).to_have_text("live")
    world.endpoint.status = 422
    try:
        world.send(3)
        expect(page.locator("main")).to_contain_text("3 records in 1 batch", timeout=15_000)
        visitor.visit(f"{world.web_url}/notifications")
        expect(page.locator("main")).to_contain_text("siem", timeout=15_000)
    finally:
        world.endpoint.status = 200
        world.daemon.post("/v1/destinations/siem/delivery/discard", {"what": "all"})


def test_an_update_that_fails_takes_nothing_away(world: ConsoleWorld, browser: Browser) -> None:
    visitor = Visitor(browser)  # whose console says that an answer failed
    page = enter(visitor, world, "vera")
    expect(page.locator("#connection")).to_have_text("live")
    page.route(f"{world.web_url}/", lambda route: route.fulfill(status=503, body="away"))
    commit = world.change()
    expect(page.locator("#connection")).to_have_text("not updated", timeout=15_000)
    expect(page.locator("#repository-telemetry")).to_be_visible()
    page.unroute(f"{world.web_url}/")
    expect(page.locator("#repository-telemetry")).to_contain_text(commit[:12], timeout=20_000)
    visitor.close()


def test_a_session_that_ends_elsewhere_leads_to_the_sign_in(world: ConsoleWorld, browser: Browser) -> None:
    here, there = Visitor(browser), Visitor(browser)
    page, other = enter(here, world, "uma"), enter(there, world, "uma", "/account")
    expect(page.locator("#connection")).to_have_text("live")
    other.get_by_role("button", name="Sign out everywhere").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in", timeout=20_000)
    here.close()
    there.close()


def test_the_result_of_a_test_stays(world: ConsoleWorld, visitor: Visitor) -> None:
    page = enter(visitor, world, "ana", "/delivery/default/siem")
    page.get_by_role("button", name="Send a test").click()
    expect(page.get_by_text("The test record was delivered")).to_be_visible()
    expect(page).to_have_url(f"{world.web_url}/delivery/default/siem")
    world.send(1)
    expect(page.locator("main")).to_contain_text("delivered", timeout=15_000)
    page.wait_for_timeout(4_000)
    expect(page.get_by_text("The test record was delivered")).to_be_visible()


def test_the_keyboard_searches_and_reaches_everything(world: ConsoleWorld, visitor: Visitor) -> None:
    page = enter(visitor, world, "ana")
    page.keyboard.press("/")
    assert visitor.focused() == "Search resources"
    page.keyboard.type("sie")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Resources")
    visitor.press("siem")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Destination siem")
    for path in ("/", "/problems", "/runs?repository=telemetry", "/delivery/default/siem"):
        visitor.visit(world.web_url + path)
        assert (path, looking.keyboard_faults(page)) == (path, [])


def press(page: Page, world: ConsoleWorld, path: str, *names: str) -> None:
    """Go to a page, and press one button after the other."""
    page.goto(world.web_url + path)
    for name in names:
        page.get_by_role("main").get_by_text(name, exact=True).first.click()


def test_every_button_is_pressed(world: ConsoleWorld, visitor: Visitor) -> None:  # noqa: PLR0915 - one after the other
    page, daemon = enter(visitor, world, "root"), world.daemon
    done = page.get_by_role("status").filter(has_text=re.compile(r"\w+ .*\."))
    press(page, world, "/runs?repository=telemetry", "Reconcile now")
    expect(done.first).to_contain_text("A run was requested.")
    press(page, world, "/runs?repository=telemetry", "Suspend…")
    page.get_by_label("Why").fill("maintenance")
    page.get_by_role("button", name="Suspend", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("suspended")
    press(page, world, "/problems", "Resume")
    expect(page.locator("main")).to_contain_text("The repository is followed again.")
    press(page, world, "/problems", "Approve…")
    expect(page.locator("main")).to_contain_text("Destination edge-5")
    page.get_by_role("button", name="Approve the deletion").click()
    expect(page.locator("main")).to_contain_text("are approved")
    world.endpoint.status = 422
    world.send(1)
    page.goto(f"{world.web_url}/delivery/default/siem")
    expect(page.locator("main")).to_contain_text("1 record in 1 batch", timeout=15_000)
    press(page, world, "/delivery/default/siem", "Send a test")
    expect(page.locator("main")).to_contain_text("was not delivered")
    press(page, world, "/delivery/default/siem", "Records")
    expect(page.locator("main")).to_contain_text("hello")
    world.endpoint.status = 200
    page.get_by_role("button", name="Replay", exact=True).last.click()
    expect(page.locator("main")).to_contain_text("queued again")
    world.endpoint.status = 422
    world.send(1)
    page.goto(f"{world.web_url}/delivery/default/siem")
    expect(page.get_by_text("Discard…").first).to_be_visible(timeout=15_000)
    press(page, world, "/delivery/default/siem", "Discard…", "Discard the dead letters")
    expect(page.locator("main")).to_contain_text("The records are discarded.")
    world.endpoint.status = 200
    press(page, world, "/notifications", "Dismiss")
    expect(page.locator("main")).to_contain_text("The notification is updated.")
    page.goto(f"{world.web_url}/projects")
    page.get_by_label("A new project").fill("clicked")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("main")).to_contain_text("clicked")
    page.goto(f"{world.web_url}/projects/clicked")
    page.get_by_label("Add").fill("uma")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.get_by_role("cell", name="uma")).to_be_visible()
    page.get_by_role("button", name="Set", exact=True).click()
    page.get_by_text("Remove…").click()
    page.get_by_role("button", name="Remove the member").click()
    expect(page.locator("main")).to_contain_text("not a member any more")
    page.goto(f"{world.web_url}/people")
    page.get_by_label("Name", exact=True).last.fill("nia")
    page.get_by_label("Password").last.fill("canary-a-password-of-nia")
    page.get_by_role("button", name="Add", exact=True).click()
    row = page.get_by_role("row").filter(has_text="nia")
    row.get_by_text("Admin…").click()
    row.get_by_role("button", name="Give admin rights").click()
    row.get_by_role("button", name="Remove admin rights").click()
    row.get_by_text("Remove…").click()
    row.get_by_role("button", name="Remove the person").click()
    expect(page.locator("main")).to_contain_text("The person is removed.")
    assert daemon.get("/v1/users/nia").status == 404


def test_without_a_script_the_pages_say_the_same_and_the_buttons_work(world: ConsoleWorld, browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{world.web_url}/sign-in")
    page.get_by_label("User name").fill("ana")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    for path in PAGES.values():
        answer = page.goto(world.web_url + path)
        assert answer is not None
        assert answer.status == 200
    page.goto(f"{world.web_url}/runs?repository=telemetry")
    page.get_by_role("button", name="Reconcile now").click()
    expect(page.locator("main")).to_contain_text("A run was requested.")
    context.close()


def test_a_session_that_ended_leads_to_the_form_and_back(world: ConsoleWorld, visitor: Visitor) -> None:
    page = enter(visitor, world, "uma", "/runs?repository=telemetry")
    page.goto("about:blank")  # the page asks by itself, too, and its console would tell of the refusal
    page.context.clear_cookies()
    page.goto(f"{world.web_url}/runs?repository=telemetry")
    page.get_by_label("User name").fill("uma")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{world.web_url}/runs?repository=telemetry")


def test_nobody_frames_the_console(world: ConsoleWorld, browser: Browser) -> None:
    page = browser.new_context().new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.set_content(f'<iframe src="{world.web_url}/sign-in" id="framed"></iframe>')
    page.wait_for_timeout(1_000)
    assert any("frame-ancestors 'none'" in one for one in said), said
    page.context.close()
