"""Somebody who signs in without a browser: keeps cookies, follows redirects and refreshes, fills in forms.

What a page must look like is in `chromium`; what is on it is read by `markup`.
"""

from types import TracebackType
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2

from tests.providers import markup
from tests.providers.markup import Form, Page

TIMEOUT_SECONDS = 30.0
MOST_STEPS = 12  # redirects and refreshes, one after another


class Person:
    """Somebody, with cookies of their own."""

    def __init__(self, login: str) -> None:
        """`login` is what they are called at the provider."""
        self.login = login
        self.client = httpx2.Client(timeout=TIMEOUT_SECONDS, trust_env=False)
        self.visited: list[str] = []  # every address, in order

    def __enter__(self) -> "Person":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()

    def visit(self, url: str) -> Page:
        """Go there."""
        return self._arrived(self.client.get(url))

    def submit(self, page: Page, form: Form, *, press: str = "", stop_at: str = "", **fields: str) -> Page:
        """Send a form of a page, with these fields filled in.

        `press`: the value of the button to press. `stop_at`: go no further than to where an address begins so.
        """
        buttons = [(name, value) for name, value in form.buttons if value == press] if press else form.buttons[:1]
        data = {**form.fields, **fields, **{name: value for name, value in buttons if name}}
        target = urljoin(page.url, form.action or page.url)
        # A browser names the type of an empty form too.
        headers = {"Origin": origin(page.url), "Content-Type": "application/x-www-form-urlencoded"}
        assert form.method == "post", form
        return self._arrived(self.client.post(target, data=data, headers=headers), stop_at=stop_at)

    def me(self, service: str) -> dict[str, Any]:
        """Return who the service says this is, by the cookie."""
        answer = self.client.get(f"{service}/v1/me")
        assert answer.status_code == httpx2.codes.OK, (answer.status_code, answer.text)
        return dict(answer.json()["me"])

    def roles(self, service: str) -> dict[str, str]:
        """Their role in each project that they can reach."""
        return {str(one["name"]): str(one["role"]) for one in self.me(service)["projects"]}

    def _arrived(self, answer: httpx2.Response, *, stop_at: str = "") -> Page:
        """Return where an answer leads, through redirects and refreshes."""
        for _ in range(MOST_STEPS):
            self.visited.append(str(answer.url))
            page = markup.read(str(answer.url), answer.status_code, answer.text)
            onward = answer.headers.get("location") if answer.is_redirect else page.onward
            if onward is None:
                return page
            target = urljoin(page.url, onward)
            if stop_at and target.startswith(stop_at):
                return Page(target, 0, "", "", (), None)
            answer = self.client.get(target)
        raise AssertionError(f"it goes on and on: {self.visited[-MOST_STEPS:]}")


def origin(url: str) -> str:
    """Scheme, host and port of an address (RFC 6454, 6.2)."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
