"""The content of an HTML page, as far as somebody without a browser needs it: heading, text, forms, where it goes on.

Fetching pages and sending forms is in `people`.
"""

from dataclasses import dataclass, field
from html.parser import HTMLParser

UNSEEN = {"script", "style", "title", "template"}


@dataclass(slots=True)
class Form:
    """A form: where it goes, and what its fields hold."""

    action: str
    method: str
    fields: dict[str, str] = field(default_factory=dict)
    buttons: list[tuple[str, str]] = field(default_factory=list)  # name and value
    texts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Page:
    """A page as it came. `url` is where it is, after all redirects."""

    url: str
    status: int
    heading: str
    text: str
    forms: tuple[Form, ...]
    onward: str | None  # where `<meta http-equiv="refresh">` leads

    def form(self, *fields: str, action: str = "") -> Form:
        """The one form with these fields, and with this in its action."""
        found = [form for form in self.forms if action in form.action and all(one in form.fields for one in fields)]
        assert len(found) == 1, f"{self.url}: {len(found)} forms with {fields} for {action!r}: {self.text[:500]}"
        return found[0]


def read(url: str, status: int, source: str) -> Page:
    """The page in a document."""
    reader = _Reader()
    reader.feed(source)
    reader.close()
    heading, text = " ".join(reader.heading), " ".join(" ".join(reader.texts).split())
    return Page(url, status, " ".join(heading.split()), text, tuple(reader.forms), reader.onward)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.heading: list[str] = []
        self.texts: list[str] = []
        self.onward: str | None = None
        self._inside: list[str] = []
        self._form: Form | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag not in {"meta", "link", "input", "br", "hr", "img"}:
            self._inside.append(tag)
        if tag == "form":
            self._form = Form(given.get("action", ""), given.get("method", "get").lower())
            self.forms.append(self._form)
        elif tag == "meta" and given.get("http-equiv", "").lower() == "refresh":
            self.onward = given["content"].partition("url=")[2].strip("'\"")
        elif tag in {"input", "select", "textarea", "button"}:
            self._control(tag, given)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:
            while self._inside.pop() != tag:
                pass
        if tag == "form":
            self._form = None

    def handle_data(self, data: str) -> None:
        if UNSEEN & set(self._inside):
            return
        self.texts.append(data)
        if "h1" in self._inside:
            self.heading.append(data)
        if self._form is not None:
            self._form.texts.append(data)

    def _control(self, tag: str, given: dict[str, str]) -> None:
        if self._form is None:
            self._outside(given)
        elif tag == "button" or given.get("type") == "submit":
            self._form.buttons.append((given.get("name", ""), given.get("value", "")))
        elif given.get("name") and (given.get("type") not in {"checkbox", "radio"} or "checked" in given):
            self._form.fields[given["name"]] = given.get("value", "")

    def _outside(self, given: dict[str, str]) -> None:
        """A button that belongs to a form by the form's id; the pages here have no more than one such."""
        if "form" in given and self.forms:
            self.forms[-1].buttons.append((given.get("name", ""), given.get("value", "")))
