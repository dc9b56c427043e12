"""People sign in to the real service through real providers, without a browser."""

import pytest

from tests.providers.certified import Certified
from tests.providers.people import Person
from tests.providers.second import Second
from tests.providers.services import Provider, Starting, said

pytestmark = pytest.mark.providers

MANY_GROUPS = [f"a-department-with-a-long-name-{number:03}" for number in range(200)]


@pytest.fixture(params=["certified", "second"])
def provider(request: pytest.FixtureRequest) -> Provider:
    chosen: Certified | Second = request.getfixturevalue(request.param)
    return chosen


# The main way, at both providers


def test_whoever_comes_first_administers_the_organization_and_every_project(
    provider: Provider, starting: Starting, ada: Person
) -> None:
    service = starting(provider, "north", "south")
    provider.say("ada", name="Ada", email="ada@example.test", email_verified=True)
    page = service.sign_in(ada, provider)
    assert (page.status, page.url, page.heading) == (200, f"{service.url}/account", "Your account")
    me = ada.me(service.url)
    assert (me["name"], me["organizationAdmin"]) == ("user:ada@example.test", True)
    assert ada.roles(service.url) == {"default": "admin", "north": "admin", "south": "admin"}


def test_the_first_admin_is_whom_the_settings_name(
    provider: Provider, starting: Starting, ada: Person, bob: Person
) -> None:
    service = starting(provider, firstAdmin={"claim": "groups", "value": "founders"})
    provider.say("ada", email="ada@example.test", email_verified=True, groups=["others", "founders"])
    provider.say("bob", email="bob@example.test", email_verified=True, groups=["others"])
    assert service.sign_in(bob, provider).heading == "No access yet"
    assert service.sign_in(ada, provider).heading == "Your account"
    assert ada.me(service.url)["organizationAdmin"] is True


def test_whoever_comes_second_without_claims_is_told_why_they_have_no_access(
    provider: Provider, starting: Starting, ada: Person, bob: Person
) -> None:
    service = starting(provider)
    for login in ("ada", "bob"):
        provider.say(login, name=login.title(), email=f"{login}@example.test", email_verified=True)
    service.sign_in(ada, provider)
    page = service.sign_in(bob, provider)
    assert (page.status, page.heading) == (403, "No access yet")
    assert bob.client.get(f"{service.url}/v1/me").status_code == 401
    assert "invitation" in page.text


def test_roles_follow_the_claims_of_each_sign_in(provider: Provider, starting: Starting, ada: Person) -> None:
    service = starting(provider, "north", "south", disableInvitations=True)
    provider.say("ada", email="ada@example.test", email_verified=True, groups=["service-org-admin"])
    service.sign_in(ada, provider)
    seen = []
    for groups in (["service-user", "service-projects-north"], ["service-viewer", "service-projects-south"]):
        provider.say("bob", email="bob@example.test", email_verified=True, groups=groups)
        with Person("bob") as again:
            service.sign_in(again, provider)
            seen.append(again.roles(service.url))
    assert seen == [{"north": "user"}, {"south": "viewer"}]


def test_claims_that_grant_nothing_any_more_leave_nothing(provider: Provider, starting: Starting, ada: Person) -> None:
    service = starting(provider, "north", disableInvitations=True)
    provider.say("ada", email="ada@example.test", email_verified=True)
    service.sign_in(ada, provider)
    provider.say("bob", email="bob@example.test", email_verified=True, service_projects="user:north")
    with Person("bob") as before:
        service.sign_in(before, provider)
        assert before.roles(service.url) == {"north": "user"}
        provider.say("bob", email="bob@example.test", email_verified=True)
        with Person("bob") as after:
            page = service.sign_in(after, provider)
        assert (page.status, page.heading) == (403, "No access yet")
        assert before.client.get(f"{service.url}/v1/me").status_code == 401


def test_whoever_signs_out_is_signed_out_here_and_at_the_provider(
    provider: Provider, starting: Starting, ada: Person
) -> None:
    service = starting(provider)
    provider.say("ada", email="ada@example.test", email_verified=True)
    page = service.sign_in(ada, provider)
    cookie = dict(ada.client.cookies)["reconciler"]
    page = provider.sign_out(ada, ada.submit(page, page.form(action="/sign-out")))
    assert (page.url.partition("?")[0], page.heading) == (f"{service.url}/signed-out", "You are signed out")
    ada.client.cookies.set("reconciler", cookie, domain="127.0.0.1")
    assert ada.client.get(f"{service.url}/v1/me").status_code == 401
    # Neither knows who this is: the provider asks anew.
    assert not ada.visit(f"{service.url}/account").url.startswith(service.url)


# What else may happen, at the first


def test_groups_beyond_what_a_cookie_holds_are_no_hindrance(
    certified: Certified, starting: Starting, ada: Person, bob: Person
) -> None:
    service = starting(certified, "north", disableInvitations=True)
    certified.say("ada", **said("ada"))
    service.sign_in(ada, certified)
    certified.say("bob", **said("bob"), groups=[*MANY_GROUPS, "service-projects-user:north"])
    page = service.sign_in(bob, certified)
    assert bob.roles(service.url) == {"north": "user"}
    assert all(len(value) < 200 for value in dict(bob.client.cookies).values())
    page = certified.sign_out(bob, bob.submit(page, page.form(action="/sign-out")))
    assert page.heading == "You are signed out"


def test_whoever_says_no_at_the_provider_is_told_that_they_are_not_signed_in(
    certified: Certified, starting: Starting, ada: Person
) -> None:
    service = starting(certified)
    certified.say("ada", **said("ada"))
    page = certified.let_in(ada, ada.visit(f"{service.url}/account"), press="no")
    assert (page.status, page.heading) == (403, "You are not signed in")
    assert service.sign_in(ada, certified).heading == "Your account"  # they thought better of it


def test_a_callback_counts_once_and_in_the_browser_alone_that_began(
    certified: Certified, starting: Starting, ada: Person, bob: Person
) -> None:
    service = starting(certified)
    certified.say("ada", **said("ada"))
    callback = f"{service.url}/oidc/redirect"
    page = certified.let_in(ada, ada.visit(f"{service.url}/account"), stop_at=callback)
    assert bob.visit(page.url).status == 401
    assert bob.client.get(f"{service.url}/v1/me").status_code == 401
    on_the_way = [*ada.client.cookies.jar]
    assert ada.visit(page.url).heading == "Your account"
    assert ada.visit(page.url).url == f"{service.url}/account"  # whoever is in needs it no more
    assert ada.me(service.url)["organizationAdmin"] is True  # what she had is not taken
    ada.client.cookies.jar.clear()
    for cookie in on_the_way:
        ada.client.cookies.jar.set_cookie(cookie)
    assert ada.visit(page.url).status == 401


def test_an_invitation_lets_in_whoever_brings_its_code_once(
    certified: Certified, starting: Starting, ada: Person, bob: Person
) -> None:
    service = starting(certified, "north")
    for login in ("ada", "bob", "eve"):
        certified.say(login, **said(login))
    service.sign_in(ada, certified)
    answer = service.daemon.post("/v1/projects/north/invitations", {"role": "user"})
    assert answer.status == 201, answer
    code = str(answer.body["invitation"]["code"])
    page = bob.visit(f"{service.url}/invitation")
    page = certified.let_in(bob, bob.submit(page, page.form("code"), code=code))
    assert (page.url, bob.roles(service.url)) == (f"{service.url}/account", {"north": "user"})
    with Person("eve") as eve:
        page = eve.visit(f"{service.url}/invitation")
        page = certified.let_in(eve, eve.submit(page, page.form("code"), code=code))
        assert page.status in {403, 409}


def test_an_address_that_waits_lets_in_whom_the_provider_has_verified(
    certified: Certified, starting: Starting, ada: Person, bob: Person
) -> None:
    service = starting(certified, "north")
    certified.say("ada", **said("ada"))
    service.sign_in(ada, certified)
    answer = service.daemon.post("/v1/projects/north/invitations", {"role": "viewer", "email": "bob@example.test"})
    assert answer.status == 201, answer
    certified.say("bob", email="bob@example.test", email_verified=False)
    assert service.sign_in(bob, certified).heading == "No access yet"
    certified.say("bob", **said("bob"))
    with Person("bob") as again:
        assert service.sign_in(again, certified).heading == "Your account"
        assert again.roles(service.url) == {"north": "viewer"}


def test_an_id_token_opens_nothing_at_the_interface(certified: Certified, starting: Starting, ada: Person) -> None:
    service = starting(certified)
    certified.say("ada", **said("ada"))
    page = service.sign_in(ada, certified)
    left = ada.submit(page, page.form(action="/sign-out"))
    token = left.url.partition("id_token_hint=")[2].partition("&")[0]
    assert token.count(".") == 2
    answer = service.daemon.ask("GET", "/v1/me", None, {"Authorization": f"Bearer {token}"})
    assert answer.status == 401
