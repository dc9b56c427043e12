"""The pages in a real browser: with the keyboard alone, light and dark, and on a phone.

Each test also asserts that no page said anything to the console, and asked nothing beyond this machine (`visiting`).
"""

from collections.abc import Callable

import pytest

from tests.api.contracts import operations
from tests.providers import looking
from tests.providers.certified import Certified
from tests.providers.chromium import Scheme, Visitor
from tests.providers.services import Starting, said
from tests.providers.visits import PASSWORD, arrive, come, make_key, with_ada

pytestmark = pytest.mark.providers

LONG = "-".join(["project"] * 8)[:63]  # the longest name there may be
# 320 pixels is the narrowest phone that WCAG 2.2, 1.4.10 asks for.
LOOKS: list[tuple[Scheme, int]] = [("dark", 320), ("light", 375), ("dark", 1280), ("light", 1280)]


def look(visitor: Visitor, name: str) -> None:
    """Hold the page against what every page must be like, in every look that there is."""
    for scheme, width in LOOKS:
        visitor.become(scheme, width)
        visitor.photograph(f"{name}-{scheme}-{width}")
        found = looking.faults(visitor.page)
        if width == 1280:
            found += looking.keyboard_faults(visitor.page)
        assert (name, scheme, width, found) == (name, scheme, width, [])


def test_every_page_at_a_provider_is_fit_for_everybody(
    certified: Certified, starting: Starting, visiting: Callable[[], Visitor]
) -> None:
    service = starting(certified, "north", LONG)
    for login in ("ada", "bob"):
        certified.say(login, **said(login))
    ada, bob = visiting(), visiting()
    come(ada, certified, "ada", to=f"{service.url}/account")
    arrive(ada, "Your account")
    look(ada, "account-without-keys")
    make_key(ada, "for the pipeline")
    look(ada, "new-key")
    ada.press("I have kept it")
    arrive(ada, "Your account")
    ada.press("Revoke…")
    look(ada, "account-with-a-key")
    bob.visit(f"{service.url}/oidc/redirect?code=of-nobody&state=of-nothing")
    arrive(bob, "You are not signed in")
    look(bob, "refused-callback")
    come(bob, certified, "bob", to=f"{service.url}/account")
    arrive(bob, "No access yet")
    look(bob, "no-access-yet")
    bob.press("Use an invitation code")
    arrive(bob, "Use an invitation")
    look(bob, "invitation")
    bob.fill("Invitation code", "rci_wrong")
    bob.page.keyboard.press("Enter")
    bob.page.get_by_role("alert").wait_for()
    look(bob, "invitation-refused")
    ada.visit(f"{service.url}/account")
    ada.press("Sign out")
    arrive(ada, "Sign out of the provider?")
    ada.press("Yes")
    arrive(ada, "You are signed out")
    look(ada, "signed-out")


def test_every_page_with_passwords_is_fit_for_everybody(starting: Starting, visitor: Visitor) -> None:
    service, ada = with_ada(starting(None, "north")), visitor
    ada.visit(f"{service.url}/account")
    arrive(ada, "Sign in")
    look(ada, "sign-in")
    ada.fill("User name", "ada")
    ada.fill("Password", "canary-wrong")
    ada.page.keyboard.press("Enter")
    ada.page.get_by_role("alert").wait_for()
    look(ada, "sign-in-refused")
    ada.fill("Password", PASSWORD)
    ada.press("Sign in")
    arrive(ada, "Your account")
    look(ada, "account-with-a-password")
    ada.fill("Present password", PASSWORD)
    ada.fill("New password", "short")
    ada.fill("New password, once more", "short")
    ada.press("Change the password")
    ada.page.get_by_role("alert").wait_for()
    look(ada, "password-refused")


def test_the_reference_shows_the_operations_from_the_service_alone(starting: Starting, visitor: Visitor) -> None:
    service = starting(None, "north")
    visitor.visit(f"{service.url}/docs")
    visitor.page.get_by_role("heading", name="Create or update resources").first.wait_for()
    headings = visitor.page.get_by_role("heading")
    shown = set(headings.all_inner_texts())
    wanted = {operation["summary"] for _, _, operation in operations()}
    assert {summary for summary in wanted if not any(summary in heading for heading in shown)} == set()
    visitor.photograph("reference")
