"""People sign in through dex: their groups arrive, and its new keys are found."""

import pytest

from tests.providers.dex import EMAIL, GROUPS, Dex
from tests.providers.people import Person
from tests.providers.services import Starting

pytestmark = pytest.mark.providers


FIRST = {"claim": "groups", "value": GROUPS[0]}


def test_groups_count_since_their_scope_is_asked_for(dex: Dex, starting: Starting, ada: Person) -> None:
    service = starting(dex, firstAdmin=FIRST)
    assert ada.visit(f"{service.url}/account").heading == "Your account"
    me = ada.me(service.url)
    assert (me["name"], me["organizationAdmin"]) == (f"user:{EMAIL}", True)
    told = f"The provider {dex.issuer} offers scopes that this service does not ask for: offline_access;"
    assert any(line.startswith(told) for line in service.daemon.messages())


def test_without_their_scope_groups_give_nothing(dex: Dex, starting: Starting, ada: Person) -> None:
    service = starting(dex, scopes=["openid", "email"], firstAdmin=FIRST)
    assert ada.visit(f"{service.url}/account").heading == "No access yet"
    told = "does not ask for: groups, profile, offline_access;"
    assert any(told in line for line in service.daemon.messages())


def test_keys_of_a_provider_that_started_again_are_found(dex: Dex, starting: Starting, ada: Person) -> None:
    service = starting(dex)
    assert ada.visit(f"{service.url}/account").heading == "Your account"
    dex.stop()
    dex.start()
    with Person("ada") as again:
        assert again.visit(f"{service.url}/account").heading == "Your account"
