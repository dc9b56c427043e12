"""The steps of people on the pages in Chromium, again and again: sign in, wait for a page, make a key.

What must be seen there is in the tests.
"""

from tests.providers.certified import Certified
from tests.providers.chromium import Visitor
from tests.providers.services import Service

PASSWORD = "canary-password-of-ada-in-a-browser"


def come(visitor: Visitor, provider: Certified, login: str, *, to: str) -> None:
    """Go to a page of the service, and sign in at the provider on the way, with the keyboard."""
    visitor.visit(to)
    assert visitor.page.url.startswith(provider.issuer)
    visitor.fill("Login", login)
    visitor.fill("Password", "canary-any")
    visitor.page.keyboard.press("Enter")


def arrive(visitor: Visitor, heading: str) -> None:
    """Wait until a page has this heading."""
    visitor.page.get_by_role("heading", level=1, name=heading, exact=True).wait_for()


def with_ada(service: Service) -> Service:
    """Give ada a password."""
    answer = service.daemon.post("/v1/users", {"name": "ada", "password": PASSWORD, "organizationAdmin": True})
    assert answer.status == 201, answer
    return service


def make_key(visitor: Visitor, name: str) -> str:
    """Make a key on the account's page; what is shown."""
    visitor.fill("What it is for", name)
    visitor.press("Make the key")
    arrive(visitor, "The new key")
    return visitor.page.locator(".secret").inner_text()
