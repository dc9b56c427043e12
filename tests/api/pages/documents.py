"""A page as a screen reader meets it: its outline, its forms and which label each input has.

Belongs here: reading HTML, and what every page must be. Does not: what one page says.
"""

import itertools
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "img", "input", "br", "wbr"}
UNLABELLED = {"hidden", "submit"}


@dataclass
class Element:
    """An element with its attributes and the text within."""

    tag: str
    attributes: dict[str, str]
    text: str = ""
    inside: tuple[str, ...] = ()  # tags, the outermost first


@dataclass
class Document(HTMLParser):
    """A page that was read whole. `faults` are elements that were not closed in order."""

    html: str
    elements: list[Element] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[Element] = []
        self.feed(self.html)
        self.close()
        self.faults += [f"<{element.tag}> is never closed" for element in self._open]

    def __hash__(self) -> int:
        return id(self)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(set(names)) != len(names):
            self.faults.append(f"<{tag}> has an attribute twice")
        element = Element(tag, {name: value or "" for name, value in attrs}, inside=tuple(e.tag for e in self._open))
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1].tag != tag:
            self.faults.append(f"</{tag}> closes nothing")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def all(self, *tags: str) -> list[Element]:
        """The elements of these tags, in their order."""
        return [element for element in self.elements if element.tag in tags]

    def one(self, tag: str) -> Element:
        """The only element of a tag."""
        (element,) = self.all(tag)
        return element

    def words(self, *tags: str) -> list[str]:
        """The text of each of these, its spaces put together."""
        return [" ".join(element.text.split()) for element in self.all(*tags)]

    @property
    def text(self) -> str:
        """Return what the page says between header and footer."""
        return " ".join(self.one("main").text.split())

    def links(self) -> dict[str, str]:
        """Return where the links of the page itself lead, by their words."""
        found = [element for element in self.all("a") if "main" in element.inside]
        return {" ".join(element.text.split()): element.attributes["href"] for element in found}


def faults(html: str, *, scripts: bool = False) -> list[str]:
    """Return what is wrong with a page for whoever does not see it, or has no mouse. `scripts`: those of the service
    are allowed.
    """
    page = Document(html)
    found = list(page.faults)
    ids = [element.attributes["id"] for element in page.elements if "id" in element.attributes]
    found += [f"the id {one} is there twice" for one in sorted({one for one in ids if ids.count(one) > 1})]
    if not html.startswith('<!doctype html>\n<html lang="en">'):
        found.append("no doctype, or no language")
    for tag in ("title", "h1", "main", "header", "footer"):
        of_page = [one for one in page.all(tag) if "svg" not in one.inside]  # parts of a picture have titles
        if len(of_page) != 1 or (tag in ("title", "h1") and not of_page[0].text.strip()):
            found.append(f"not exactly one <{tag}>")
    if not any(meta.attributes.get("name") == "viewport" for meta in page.all("meta")):
        found.append("no viewport: a phone would show a wide page")
    found += _headings(page)
    found += _inputs(page, set(ids))
    found += ["an image without `alt`" for image in page.all("img") if "alt" not in image.attributes]
    refused = [each for each in page.all("script", "iframe", "object", "style") if not (scripts and _is_ours(each))]
    found += [f"<{each.tag}>: no script belongs here" for each in refused]
    for element in page.elements:
        found += [f"the attribute {name}" for name in element.attributes if name.startswith("on") or name == "style"]
        for name in ("aria-describedby", "aria-labelledby", "for"):
            missing = [one for one in element.attributes.get(name, "").split() if one not in ids]
            found += [f"{name} names {one}, which is not there" for one in missing]
        target = element.attributes.get("href", "")
        if target.startswith("#") and target[1:] not in ids:
            found.append(f"a link to {target}, which is not there")
    first = page.all("a")[0]
    if first.attributes["href"] != "#main":
        found.append("the first link does not skip to the content")
    return found


def _is_ours(element: Element) -> bool:
    return element.tag == "script" and element.attributes.get("src", "").startswith("/assets/") and not element.text


def _headings(page: Document) -> list[str]:
    levels = [int(element.tag[1]) for element in page.all("h1", "h2", "h3", "h4")]
    return [f"h{before} is followed by h{after}" for before, after in itertools.pairwise(levels) if after > before + 1]


def _inputs(page: Document, ids: set[str]) -> list[str]:
    labelled = {label.attributes.get("for", "") for label in page.all("label")}
    found = []
    for each in page.all("input", "select", "textarea"):
        kind = each.attributes.get("type", "")
        is_labelled = each.attributes.get("id") in labelled or "label" in each.inside or "aria-label" in each.attributes
        if kind not in UNLABELLED and not is_labelled:
            found.append(f"no label for {each.attributes.get('name')}")
        if kind in ("text", "password") and "autocomplete" not in each.attributes:
            found.append(f"no autocomplete for {each.attributes.get('name')}")
        if each.attributes.get("aria-invalid") == "true" and f"{each.attributes['id']}-wrong" not in ids:
            found.append(f"nothing says what is wrong with {each.attributes.get('name')}")
    found += ["a button without words" for each in page.all("button") if not each.text.strip()]
    return found
