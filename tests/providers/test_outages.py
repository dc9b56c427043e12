"""Sign-ins go on when keys change, when the provider is down and when the service restarts, in their middle too."""

import pytest

from tests import daemons
from tests.providers.certified import Certified
from tests.providers.markup import Page
from tests.providers.people import Person
from tests.providers.services import Provider, Service, Starting, said

pytestmark = pytest.mark.providers


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_another_key_of_the_provider_needs_no_restart(
    certified: Certified, starting: Starting, ada: Person, algorithm: str
) -> None:
    service = starting(certified)
    certified.say("ada", **said("ada"))
    service.sign_in(ada, certified)
    certified.rotate(algorithm)
    with Person("ada") as again:
        assert service.sign_in(again, certified).status == 200
    assert ada.me(service.url)["name"] == "user:ada@example.test"  # whoever was signed in stays so
    certified.rotate()


def test_a_provider_that_is_down_is_told_on_a_page_and_found_again_when_it_is_back(
    certified: Certified, starting: Starting, ada: Person, bob: Person
) -> None:
    service = starting(certified)
    certified.say("ada", **said("ada"))
    service.sign_in(ada, certified)
    certified.stop()
    service.daemon.restart()
    page = bob.visit(f"{service.url}/account")
    assert (page.status, page.heading) == (503, "Not at this moment")
    assert ada.me(service.url)["organizationAdmin"] is True  # who is signed in needs no provider
    certified.start()
    certified.say("bob", **said("bob"))
    page = daemons.until(lambda: asked(bob, service, certified), "the provider is found again")
    assert certified.let_in(bob, page).heading == "No access yet"


def asked(person: Person, service: Service, provider: Provider) -> Page | None:
    """The provider's page where somebody begins to sign in; None while the service does not find the provider."""
    page = person.visit(f"{service.url}/account")
    return page if page.url.startswith(provider.issuer) else None


def test_a_provider_that_goes_down_in_the_middle_is_told_on_a_page(
    certified: Certified, starting: Starting, ada: Person
) -> None:
    service = starting(certified)
    certified.say("ada", **said("ada"))
    page = certified.let_in(ada, ada.visit(f"{service.url}/account"), stop_at=f"{service.url}/oidc/redirect")
    certified.stop()
    page = ada.visit(page.url)
    assert (page.status, page.heading) == (503, "Not at this moment")
    certified.start()
    assert service.sign_in(ada, certified).heading == "Your account"


def test_a_session_outlives_the_process(certified: Certified, starting: Starting, ada: Person) -> None:
    service = starting(certified)
    certified.say("ada", **said("ada"))
    service.sign_in(ada, certified)
    before = ada.me(service.url)
    service.daemon.kill()
    service.daemon.start()
    assert ada.me(service.url) == before


def test_a_sign_in_goes_on_after_a_restart_in_its_middle(certified: Certified, starting: Starting, ada: Person) -> None:
    service = starting(certified)
    certified.say("ada", **said("ada"))
    page = ada.visit(f"{service.url}/account")
    service.daemon.restart()
    assert certified.let_in(ada, page).url == f"{service.url}/account"
