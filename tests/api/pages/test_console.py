"""The console for each role, without a script: every page, every button, and text from strangers."""

import json
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from api.pages import words
from api.pages.actions import ACTIONS
from tests import daemons
from tests.api.pages import consoles, documents
from tests.api.pages.browsers import Browser, Seen
from tests.api.pages.consoles import EVIL, ROLES, SECRET, ConsoleWorld

POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
PAGES = {
    "/": "Overview",
    "/?project=default": "Overview",
    "/problems": "Problems",
    "/resources": "Resources",
    "/resources?q=siem&kind=Destination&label=team%3Dorders": "Resources",
    "/resources?q=nothing-is-called-this": "Resources",
    "/resources/default/Destination/siem": "Destination siem",
    "/configurations/default/orders": "Configuration orders",
    "/configurations/default/hosts": "Configuration hosts",
    "/delivery": "Delivery",
    "/delivery/default/siem": "Delivery to siem",
    "/runs": "Runs",
    "/runs?repository=telemetry": "telemetry",
    "/plans": "Plans",
    "/notifications": "Notifications",
    "/notifications?all=1": "Notifications",
    "/projects": "Projects",
    "/projects/default": "Project default",
}
OF_ADMINS = {"/audit": "Audit", "/audit?action=created": "Audit", "/keys": "Keys"}
OF_ROOT = {"/people": "People", "/people?q=uma": "People"}
PEOPLE = (*ROLES, "root")
SIEM = "/resources/default/Destination/siem"
COMMITS = "https://github.com/example/telemetry/commit"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleWorld]:
    with consoles.standing(tmp_path_factory.mktemp("console")) as standing:
        yield standing


def heading(seen: Seen) -> str:
    """The heading of a page, without the word of its state."""
    return seen.page.words("h1")[0]


def actions(seen: Seen) -> set[str]:
    """Return the names of the buttons on a page."""
    return {each.attributes["value"] for each in seen.page.all("input") if each.attributes.get("name") == "action"}


@pytest.mark.parametrize("name", PEOPLE)
def test_every_page_is_whole_for_each_role(world: ConsoleWorld, name: str) -> None:
    browser = world.browser(name)
    for path, title in PAGES.items():
        seen = browser.get(path)
        assert (path, seen.status) == (path, 200), seen.page.text
        assert heading(seen).startswith(title), path
        assert (path, documents.faults(seen.body, scripts=True)) == (path, [])
        assert seen.header("content-security-policy") == POLICY
        assert seen.header("cache-control") == "no-store"
        assert "Undefined" not in seen.body
        assert SECRET not in seen.body


def test_sections_are_those_that_a_role_may_read(world: ConsoleWorld) -> None:
    allowed = {"vera": set(), "uma": set(), "ana": {"/audit"}, "root": {"/audit", "/people"}}
    for name, paths in allowed.items():
        browser = world.browser(name)
        menu = {urlsplit(link).path for link in browser.get("/").page.links().values()}
        for path in ("/audit", "/people"):
            is_allowed = path in paths
            assert (name, path, path in menu) == (name, path, is_allowed)
            assert (name, path, browser.get(path).status) == (name, path, 200 if is_allowed else 403)


def test_the_overview_answers_if_the_commit_is_live(world: ConsoleWorld) -> None:
    page = world.browser("vera").get("/").page
    text = page.text
    assert "needs attention" in text
    rows = {row.split()[2]: row for row in page.words("tr") if "telemetry" in row or "edge" in row}
    assert any("partly live" in row and "Send the orders" in row for row in page.words("tr"))
    assert any("prune-held" in row for row in page.words("tr")), rows
    links = page.links()
    commit = world.telemetry.head()
    assert f"https://github.com/example/telemetry/commit/{commit}" in links.values()
    assert "stuck" in links
    assert links["Show the problems"] == "/problems"
    assert links["orders"] == "/configurations/default/orders"
    assert links["hosts"] == "/configurations/default/hosts"
    assert "1 delivers" in text
    assert "1 is rendered for Collectors" in text
    assert "1 does not work as declared" in text
    assert "1 Configuration does not work as declared" in page.words("p")[0]


def test_an_overview_without_a_configuration_says_how_to_get_one(world: ConsoleWorld) -> None:
    assert "There is no Configuration yet. Commit one" in world.browser("root").get("/?project=other").page.text


def test_problems_have_their_place_at_the_forge_and_their_cause(world: ConsoleWorld) -> None:
    page = world.browser("vera").get("/problems").page
    places = {each.attributes["href"] for each in page.all("a") if "github.com" in each.attributes["href"]}
    commit = world.daemon.runs("telemetry", limit=1)[0]["commit"]
    assert places == {f"https://github.com/example/telemetry/blob/{commit}/{name}.yaml#L1" for name in ("bad", "stuck")}
    assert "/spec/type: is not a string" in page.text
    assert "prune-held" in page.text
    assert "reconciler approve" in page.words("code")  # not between backticks
    assert "processor, which the service cannot run yet" in page.text


def test_a_run_whose_deletions_are_held_says_so(world: ConsoleWorld) -> None:
    run = world.daemon.run_of("edge", world.edge.head())
    page = world.browser("vera").get(f"/runs/{run['id']}").page
    assert "5 deletions are held for approval. Show the problems" in page.text
    assert "This run changed nothing" not in page.text


def test_a_run_says_what_its_commit_is_and_if_it_is_applied(world: ConsoleWorld) -> None:
    first, second = world.change(), world.change()
    vera = world.browser("vera")
    rows = vera.get("/runs?repository=telemetry").page.words("tr")
    shown = [next(row for row in rows if commit[:12] in row) for commit in (first, second)]
    assert ["applied" in row for row in shown] == [False, True]
    assert "Move the endpoint" in shown[1]
    facts = [
        vera.get(f"/runs/{world.daemon.run_of('telemetry', one)['id']}").page.words("dl")[0] for one in (first, second)
    ]
    assert re.search(rf"Commit\s*{first[:12]}\s*Applied now\s*Move the endpoint\s*{second[:12]}", facts[0])
    assert re.search(rf"Commit\s*applied Move the endpoint\s*{second[:12]}.*Changes\s*1 configured", facts[1])
    assert "Applied now" not in facts[1]


def test_a_version_leads_to_its_changes_and_to_its_commit(world: ConsoleWorld) -> None:
    first, _ = world.change(), world.change()
    vera = world.browser("vera")
    links = vera.get(SIEM).page.links()
    assert links[first[:12]] == f"{COMMITS}/{first}"
    siem = world.daemon.resource("Destination", "siem")
    assert siem is not None
    version = siem["metadata"]["version"] - 1
    text = vera.get(links[str(version)]).page.text
    assert f"/next-{world.changes - 1}" in text
    charts = vera.get("/delivery/default/siem")
    assert charts.body.count('class="mark"') >= 3 * 2
    assert charts.page.links()[f"version {version}"] == f"{SIEM}?version={version}"


def test_the_audit_takes_durations_and_links_resources(world: ConsoleWorld) -> None:
    ana = world.browser("ana")
    found = ana.get("/audit?kind=Destination&name=siem&since=24h")
    links = found.page.links()
    assert (links["siem"], links["1"]) == (SIEM, f"{SIEM}?version=1")
    assert "Destination siem default" not in found.page.text  # which is the only project
    assert "Destination siem default" in world.browser("root").get("/audit?name=siem").page.text
    assert 'name="since" value="24h"' in found.body
    assert "No event is found" in ana.get("/audit?until=2d").page.text
    wrong = ana.get("/audit?since=yesterday")
    assert (wrong.status, "No event is found" in wrong.page.text) == (400, False)


def test_a_name_of_another_kind_of_page_is_redirected_or_missing(world: ConsoleWorld) -> None:
    vera = world.browser("vera")
    seen = vera.get("/resources/default/Configuration/orders?version=1&project=default")
    assert (seen.status, seen.location) == (303, "/configurations/default/orders?project=default&version=1")
    assert vera.get("/resources/default/Configuration/%C3%A9%0Ax").status == 303
    assert vera.get("/runs?repository=nope").status == 404


def test_lists_are_searched_and_options_have_the_words_of_the_rows(world: ConsoleWorld) -> None:
    vera, ana = world.browser("vera"), world.browser("ana")
    assert "default" in vera.get("/projects?q=DEF").page.links()
    assert "No project is found." in vera.get("/projects?q=zzz").page.text
    assert "No member is found." in ana.get("/projects/default?q=zzz").page.text
    assert "No key is found." in ana.get("/keys?q=zzz").page.text
    assert '<option value="idle">does not deliver</option>' in vera.get("/resources").body


def test_buttons_are_those_of_the_role(world: ConsoleWorld) -> None:
    paths = ("/problems", "/runs?repository=telemetry", "/runs?repository=edge", "/projects/default", "/people")
    found = {name: {path: actions(world.browser(name).get(path)) for path in paths} for name in PEOPLE}
    assert set().union(*found["vera"].values()) <= {"note"}
    assert set().union(*found["uma"].values()) <= {"note", "reconcile"}
    assert found["uma"]["/runs?repository=telemetry"] == {"reconcile"}
    assert found["ana"]["/runs?repository=telemetry"] == {"reconcile", "suspend"}
    assert found["ana"]["/problems"] >= {"approve", "reconcile"}
    assert found["ana"]["/projects/default"] == {"member", "remove-member"}
    assert found["ana"]["/people"] == set()
    assert found["root"]["/people"] == {"set-admin", "set-password", "remove-user", "create-user"}


REFUSED_OF_VIEWERS = sorted(set(ACTIONS) - {"note", "revoke-key"})
OF_DESTINATIONS = ("replay", "replay-one", "discard", "discard-one")
OF_PROJECTS = ("member", "remove-member", "withdraw")


@pytest.mark.parametrize("action", REFUSED_OF_VIEWERS)
def test_a_viewer_who_posts_a_button_of_others_changes_nothing(world: ConsoleWorld, action: str) -> None:
    name = "siem" if action in OF_DESTINATIONS else "default" if action in OF_PROJECTS else "telemetry"
    fields = {"action": action, "project": "default", "name": name, "user": "vera", "role": "admin", "id": "x"}
    before = world.daemon.get("/v1/repositories").body, world.daemon.get("/v1/users").body
    seen = world.browser("vera").post("/act", {**fields, "commit": "0" * 40, "reason": "x", "what": "all"})
    assert seen.status == 403, (action, seen.page.text)
    assert (world.daemon.get("/v1/repositories").body, world.daemon.get("/v1/users").body) == before


def press(browser: Browser, action: str, back: str = "/problems", **fields: str) -> Seen:
    """Press a button, and go where it leads."""
    seen = browser.post("/act", {"action": action, "back": back, **fields})
    assert (seen.status, action) == (303, action), seen.page.text
    assert seen.location == back
    shown = browser.get(seen.location)
    assert ACTIONS[action].done in shown.page.text
    assert ACTIONS[action].done not in browser.get(back).page.text  # it is said once
    return shown


def test_every_button_of_a_repository_does_what_it_says(world: ConsoleWorld) -> None:
    ana, back = world.browser("ana"), "/runs?repository=telemetry"
    before = world.daemon.runs("telemetry")[0]["id"]
    press(ana, "reconcile", back, name="telemetry")
    world.change()
    shown = press(ana, "suspend", back, name="telemetry", reason=f"Maintenance {EVIL}")
    assert world.daemon.repository("telemetry")["suspension"]["actor"] == "user:ana"
    assert "resume" in actions(shown)
    assert "<img src=x" not in shown.body
    press(ana, "suspend", back, name="telemetry", reason="Maintenance", expiry="2h")
    assert world.daemon.repository("telemetry")["suspension"]["until"]
    press(ana, "resume", back, name="telemetry")
    assert world.daemon.repository("telemetry")["suspension"] is None
    assert world.daemon.runs("telemetry")[0]["id"] != before


def test_approving_shows_what_would_be_deleted_and_deletes_it(world: ConsoleWorld) -> None:
    ana = world.browser("ana")
    page = ana.get("/problems").page
    assert "this deletes 5 resources" in page.text
    assert all(f"Destination edge-{number}" in page.text for number in range(1, 6))
    press(ana, "approve", name="edge", commit=world.edge.head())
    daemons.until(lambda: world.daemon.repository("edge")["held"] is None, "the deletion is done")
    assert world.daemon.resource("Destination", "edge-3") is None
    assert world.browser("vera").get("/resources/default/Destination/edge-3").page.words("h1") == [
        "Destination edge-3 deleted"
    ]


def test_dead_letters_are_shown_replayed_and_discarded(world: ConsoleWorld) -> None:
    ana, back = world.browser("ana"), "/delivery/default/siem"
    world.endpoint.status = 422
    world.send(2, body=EVIL)
    daemons.until(lambda: world.delivery()["deadLetters"]["records"] == 2, "it is given up")
    shown = ana.get(back)
    assert {"replay", "discard", "replay-one", "discard-one"} <= actions(shown)
    assert "<b>host</b>" not in shown.body
    assert "<img src=x" not in shown.body
    assert "\u202e" not in shown.body
    assert "<img src=x onerror=alert(1)>" in shown.page.text
    assert "onerror" not in world.browser("vera").get(back).page.text
    tested = ana.post(f"{back}/test")
    assert (tested.status, "The test record was not delivered" in tested.page.text) == (200, True)
    world.endpoint.status = 200
    assert "The test record was delivered" in ana.post(f"{back}/test").page.text
    press(ana, "replay", back, project="default", name="siem")
    daemons.until(lambda: world.delivery()["counts"]["delivered"] >= 2, "they are delivered")
    assert ana.get(back).page.words("h1") == ["Delivery to siem sending"]  # and not idle, between two batches
    world.endpoint.status = 422
    world.send(1)
    daemons.until(lambda: world.delivery()["deadLetters"]["records"] == 1, "it is given up")
    press(ana, "discard", back, project="default", name="siem", what="deadLetters")
    assert world.delivery()["deadLetters"]["records"] == 0
    world.endpoint.status = 200


def test_people_projects_and_notifications_are_managed(world: ConsoleWorld) -> None:
    root = world.browser("root")
    press(root, "create-project", "/projects", name="made")
    press(root, "create-user", "/people", name="nia", password="canary-a-password-of-nia")
    press(root, "member", "/projects/made", name="made", user="nia", role="user")
    assert "nia" in root.get("/projects/made").page.text
    press(root, "remove-member", "/projects/made", name="made", user="nia")
    press(root, "set-password", "/people", name="nia", password="canary-another-password-of-nia")
    press(root, "set-admin", "/people", name="nia", organizationAdmin="true")
    assert world.daemon.get("/v1/users/nia").body["user"]["organizationAdmin"] is True
    press(root, "set-admin", "/people", name="nia", organizationAdmin="false")
    press(root, "remove-user", "/people", name="nia")
    assert world.daemon.get("/v1/users/nia").status == 404
    uma = world.browser("uma")
    opened = daemons.until(world.lasting_notification, "a notification opens")
    shown = press(uma, "note", "/notifications", id=opened, userStatus="dismissed")
    assert f'id="n-{opened}"' not in shown.body
    assert f'id="n-{opened}"' in world.browser("vera").get("/notifications").body


def test_each_notification_leads_to_what_it_means(world: ConsoleWorld) -> None:
    vera = world.browser("vera")

    def explanations() -> set[str]:
        links = {each.attributes["href"] for each in vera.get("/notifications").page.all("a")}
        return {link for link in links if link.startswith("/docs/notifications")}

    explained = daemons.until(explanations, "a notification opens")
    ids = {each.attributes.get("id", "") for each in vera.get("/docs/notifications").page.all("section")}
    assert {link.partition("#")[2] for link in explained} <= ids


def test_keys_are_revoked_and_sessions_end_everywhere(world: ConsoleWorld) -> None:
    ana, again = world.browser("ana"), world.browser("ana")
    assert ana.make_key({"name": "to go", "project": "default", "role": "user", "scopes": ["resources"]}).status == 201
    key = next(one for one in world.daemon.get("/v1/api-keys").body["apiKeys"] if one["name"] == "to go")
    assert "to go" in ana.get("/keys").page.text
    press(ana, "revoke-key", "/keys", id=key["id"])
    assert "to go" not in ana.get("/keys").page.text
    assert ana.get("/account").page.text.count("Signed in") >= 2
    seen = ana.post("/account/sessions/end")
    assert (seen.status, seen.location) == (303, "/signed-out")
    assert again.get("/").location.startswith("/sign-in")


def test_what_collectors_run_is_compared_with_what_they_ran_before(world: ConsoleWorld) -> None:
    path = "/configurations/default/compared"
    uma, vera = world.browser("uma"), world.browser("vera")

    def load(interval: int, *, sources: int = 1) -> None:
        source = {"type": "hostmetrics", "parameters": [{"name": "collection_interval", "value": interval}]}
        spec = {"sources": [source] * sources, "destinations": [{"type": "debug"}]}
        body = json.loads(consoles.resource("Configuration", "compared", spec))
        assert world.daemon.post("/v1/apply", {"resources": [body]}).status == 202
        mark = f"collection_interval: {interval}s"
        daemons.until(lambda: mark in uma.get(path).body, "it is rendered")

    load(11)
    assert "There is no earlier collector.yaml of the Configuration compared: no other one is kept." in (
        uma.get(path).page.text
    )
    load(12)
    seen = uma.get(path)
    assert documents.faults(seen.body, scripts=True) == []
    assert "How it differs from before +1 \N{MINUS SIGN}1" in seen.page.words("h2")
    assert '<span class="removed">- ' in seen.body
    assert '<span class="added">+ ' in seen.body
    assert "no other one is kept" not in seen.page.text
    load(13, sources=150)
    seen = uma.get(path)
    assert seen.body.count('<span class="added">') + seen.body.count('<span class="same">') <= words.MOST_LINES
    assert "The difference goes on; the API has both texts." in seen.page.text
    shown = vera.get(path).page.text
    assert "Your role may not read what Collectors load." in shown
    assert "How it differs" not in shown
    assert world.daemon.request("DELETE", "/v1/resources/Configuration/compared").status == 204


def test_a_plan_is_a_permalink_that_is_marked_when_it_is_stale(world: ConsoleWorld) -> None:
    source = world.telemetry
    source.branch("proposal")
    source.switch("proposal")
    source.remove("hosts.yaml")
    source.commit("Remove the hosts")
    source.switch("main")
    plan = world.daemon.post("/v1/plan", {"repository": "telemetry", "head": "refs/heads/proposal"}).body["plan"]
    vera = world.browser("vera")
    shown = vera.get(f"/plans/{plan['id']}")
    assert shown.page.words("h1") == ["Plan for telemetry current"]
    for side in ("head", "base"):
        assert f"https://github.com/example/telemetry/commit/{plan[side]['commit']}" in shown.body
    assert shown.page.text.count(" unchanged") == 1
    assert "Configuration hosts" in shown.page.text
    assert f'href="/plans/{plan["id"]}"' in vera.get("/plans").body
    world.change()
    assert vera.get(f"/plans/{plan['id']}").page.words("h1") == ["Plan for telemetry stale"]


def test_a_run_shows_each_status_and_its_fields(world: ConsoleWorld) -> None:
    commit = world.change()
    run = world.daemon.run_of("telemetry", commit)
    page = world.browser("vera").get(f"/runs/{run['id']}").page
    assert "Destination siem" in page.text
    assert "invalid" in page.text


def test_a_version_is_compared_with_any_other(world: ConsoleWorld) -> None:
    world.change()
    vera = world.browser("vera")
    page = vera.get("/resources/default/Destination/siem").page
    assert "spec.parameters[path].value" in page.text
    assert "/next-" in page.text
    assert vera.get("/resources/default/Destination/siem?version=1&from=1").page.text.count("No field differs") == 1
    assert vera.get("/resources/default/Destination/siem?version=x&from=99999999999").status == 200


def test_what_strangers_write_stays_text(world: ConsoleWorld) -> None:
    for name in PEOPLE:
        browser = world.browser(name)
        for path in PAGES | OF_ADMINS | OF_ROOT:
            body = browser.get(path).body
            assert "<img src=x" not in body, path
            assert "\u202e" not in body, path
    quoted = "%22%3E%3Cimg%20src%3Dx%3E"
    root = world.browser("root")
    for path in (f"/resources?q={quoted}", f"/audit?actor={quoted}", f"/people?q={quoted}", f"/?project={quoted}"):
        assert "<img src=x>" not in root.get(path).body


def test_whoever_has_no_role_reads_that_and_nothing_else(world: ConsoleWorld) -> None:
    answer = world.daemon.post("/v1/users", {"name": "nobody-yet", "password": consoles.PASSWORD})
    assert answer.status == 201
    browser = world.browser("nobody-yet")
    for path in ("/", "/problems", "/resources", "/delivery", "/runs"):
        assert (path, browser.get(path).page.words("h1")) == (path, ["You have no role yet"])


def test_a_section_is_in_the_menu_if_one_project_allows_it(world: ConsoleWorld) -> None:
    assert world.daemon.post("/v1/users", {"name": "mixed", "password": consoles.PASSWORD}).status == 201
    for project, role in (("default", "viewer"), ("other", "admin")):
        path = f"/v1/projects/{project}/members/mixed"
        assert world.daemon.request("PUT", path, b'{"role":"%b"}' % role.encode()).status == 200
    browser = world.browser("mixed")
    assert "Audit" in browser.get("/").page.links()
    assert "Audit" not in browser.get("/?project=default").page.links()


def test_the_search_goes_through_every_project(world: ConsoleWorld) -> None:
    world.daemon.apply(
        {"apiVersion": "service/v1", "kind": "Destination", "metadata": {"name": "far"}, "spec": {"type": "otlp"}},
        project="other",
    )
    root = world.browser("root")
    assert root.get("/resources?q=far").page.links()["far"] == "/resources/other/Destination/far"
    assert "far" not in root.get("/resources?q=far&project=default").page.links()
    chosen = [each.attributes for each in root.get("/resources?q=far&kind=Destination").page.all("input")]
    assert {"type": "hidden", "name": "q", "value": "far"} in chosen  # another project keeps the search


def test_another_project_does_not_exist_for_whoever_is_no_member(world: ConsoleWorld) -> None:
    vera = world.browser("vera")
    for path in ("/?project=other", "/projects/other", "/resources/other/Destination/siem", "/delivery/other/siem"):
        seen = vera.get(path)
        assert (path, seen.status) == (path, 404)
    missing = vera.get("/projects/never-made")
    assert missing.page.text == vera.get("/projects/other").page.text
    assert "other" not in vera.get("/projects").page.links()


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "", "Sec-Fetch-Site": ""},
        {"Content-Type": "text/plain"},
        {"Content-Type": "multipart/form-data"},
    ],
)
def test_a_form_of_another_site_does_nothing(world: ConsoleWorld, headers: dict[str, str]) -> None:
    ana = world.browser("ana")
    for path in ("/act", "/delivery/default/siem/test", "/account/sessions/end", "/projects/default/invite"):
        fields = {"action": "suspend", "name": "telemetry", "reason": "forged", "back": "/"}
        assert ana.post(path, fields, headers).status in {403, 415}, path
    assert world.daemon.repository("telemetry")["suspension"] is None
    assert ana.get("/").status == 200


def test_a_stranger_signs_in_first_and_cannot_act(world: ConsoleWorld) -> None:
    stranger = Browser(world.daemon)
    for path in (*PAGES, *OF_ADMINS, *OF_ROOT):
        seen = stranger.get(path)
        assert (path, seen.status) == (path, 303)
        assert seen.location.startswith("/sign-in?back="), path
    assert stranger.post("/act", {"action": "reconcile", "name": "telemetry"}).status == 401
    assert stranger.get("/v1/events").status == 401


@pytest.mark.parametrize("back", ["//evil.example", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"])
def test_a_button_leads_nowhere_else(world: ConsoleWorld, back: str) -> None:
    seen = world.browser("ana").post("/act", {"action": "reconcile", "name": "telemetry", "back": back})
    assert (seen.status, seen.location) == (303, "/")


def test_a_refusal_is_told_as_the_api_tells_it(world: ConsoleWorld) -> None:
    ana = world.browser("ana")
    for back in ("/runs/01AAAAAAAAAAAAAAAAAAAAAAAA", "/resources/default/Configuration/orders", "/nothing"):
        seen = ana.post("/act", {"action": "suspend", "name": "telemetry", "reason": "", "back": back})
        assert (back, seen.status) == (back, 400)
        assert "reason" in seen.page.text
        assert seen.page.links()["Go back"] == back  # where there is no page that could say so
    assert ana.post("/act", {"action": "no-such", "back": "/"}).status == 400
    assert ana.get("/runs/01AAAAAAAAAAAAAAAAAAAAAAAA").status == 404
    assert ana.get("/plans/nothing").status == 404
    assert ana.get("/resources/default/Destination/never-was").status == 404
    assert ana.get("/resources/default/Nothing/x").status == 404
    assert ana.get("/resources?label=((").status == 400
    assert re.search("label selector|selector", ana.get("/resources?label=((").page.text)


def inputs(seen: Seen) -> dict[str, str]:
    """The fields of a page that have a value."""
    found = [each.attributes for each in seen.page.all("input")]
    return {each["name"]: each["value"] for each in found if each.get("type") != "hidden" and each.get("value")}


def test_a_refused_form_is_shown_again_with_what_was_typed(world: ConsoleWorld) -> None:
    ana, back = world.browser("ana"), "/runs?repository=telemetry"
    fields = {"action": "suspend", "project": "default", "name": "telemetry", "reason": f"Maintenance {EVIL}"}
    seen = ana.post("/act", {**fields, "expiry": "two days", "back": back})
    assert (seen.status, heading(seen)) == (400, heading(ana.get(back)))
    assert documents.faults(seen.body, scripts=True) == []
    assert inputs(seen) == {"reason": f"Maintenance {EVIL}", "expiry": "two days"}
    wrong = [each for each in seen.page.all("div") if each.attributes.get("class") == "wrong"]
    assert [each.inside[-3:] for each in wrong] == [("details", "div", "form")]  # beside the form, and said once
    assert "expiry" in wrong[0].text
    assert "<img src=x" not in seen.body
    assert 'data-live=""' in seen.body  # no update takes it away
    assert [each.attributes.get("open") for each in seen.page.all("details")] == [""]
    assert world.daemon.repository("telemetry")["suspension"] is None
    assert inputs(ana.get(back)) == {}


def test_a_refusal_without_its_form_is_on_top_of_the_page(world: ConsoleWorld) -> None:
    seen = world.browser("vera").post("/act", {"action": "suspend", "name": "telemetry", "reason": "x", "back": "/"})
    assert (seen.status, heading(seen)) == (403, "Overview")
    assert "This was refused, and nothing was changed" in seen.page.words("h2")


def test_a_password_is_never_shown_again(world: ConsoleWorld) -> None:
    root = world.browser("root")
    fields = {"action": "create-user", "project": "", "name": "nia", "displayName": "Nia", "back": "/people"}
    seen = root.post("/act", {**fields, "password": "canary-x"})
    assert (seen.status, inputs(seen)) == (400, {"name": "nia", "displayName": "Nia"})
    assert "canary-x" not in seen.body
    seen = root.post("/act", {"action": "set-password", "name": "uma", "password": "canary-x", "back": "/people"})
    assert (seen.status, "canary-x" in seen.body) == (400, False)


def test_all_statuses_of_a_run_are_read_part_by_part(world: ConsoleWorld) -> None:
    many = [consoles.resource("Destination", f"many-{number}", {"type": "otlp"}) for number in range(250)]
    world.telemetry.write("many.yaml", "\n---\n".join(many))
    run = world.daemon.run_of("telemetry", world.telemetry.commit("Add many"))
    vera = world.browser("vera")
    first = vera.get(f"/runs/{run['id']}").page
    total = len(run["statuses"])
    assert f"1 to 200 of {total}" in first.text
    rest = vera.get(first.links()["Next"])
    assert f"201 to {total} of {total}" in rest.page.text
    assert "Next" not in rest.page.links()
    for after in ("x", "99999999999", str(total)):
        assert f"1 to 200 of {total}" in vera.get(f"/runs/{run['id']}?after={after}").page.text


def test_a_history_has_the_last_versions_and_compares_with_all(world: ConsoleWorld) -> None:
    for number in range(25):
        spec = {"type": "otlp", "parameters": [{"name": "hostname", "value": f"host-{number}"}]}
        body = json.loads(consoles.resource("Destination", "versioned", spec))
        assert world.daemon.post("/v1/apply", {"resources": [body]}).status == 202
    page = world.browser("vera").get("/resources/default/Destination/versioned?from=1").page
    assert "host-0" in page.text
    assert "host-24" in page.text
    assert "These are the last 20 versions" in page.text


def test_a_large_resource_is_shown_in_part(world: ConsoleWorld) -> None:
    for number in range(21):
        text = f"# {number}\n{'#' * 99}\n" + f"# {'x' * 97}\n" * 8_500
        body = json.loads(consoles.resource("Configuration", "large", {"contentType": "text/yaml", "raw": text}))
        assert world.daemon.post("/v1/apply", {"resources": [body]}).status == 202, number
    seen = world.browser("uma").get("/configurations/default/large")
    assert seen.status == 200
    assert "These are the first 100 000 of" in seen.page.text
    assert "The last versions are too large together for this page" in seen.page.text
