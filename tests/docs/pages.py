"""Reading Markdown: the parts of a page that tests hold against the product."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
KINDS = ROOT / "docs" / "kinds"

_FENCE = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


class Block(NamedTuple):
    """A block between two fences."""

    language: str
    text: str


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def all_pages() -> list[Path]:
    """Every page that people read as documentation."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks in a language."""
    found = (Block(language, inside) for _, language, inside in _FENCE.findall(text))
    return [block.text for block in found if block.language == language]


def prose(text: str) -> str:
    """The page without its fenced blocks."""
    return _FENCE.sub("", text)


def links(text: str) -> list[str]:
    """Return where the links lead, other than to other sites."""
    found: list[str] = _LINK.findall(prose(text))
    return [link for link in found if "://" not in link and not link.startswith("mailto:")]


def anchors(text: str) -> set[str]:
    """Return what the page's headings are called in links."""
    headings = re.findall(r"^#{1,6} (.+)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def section(text: str, heading: str) -> str:
    """The text under a heading, down to the next heading."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"no heading {heading!r}"
    return found[1]


def table(text: str) -> list[dict[str, str]]:
    """The rows of the first table in a text, each by the heads of the columns."""
    lines = re.search(r"(?:^\|.*\|$\n?)+", text, re.MULTILINE)
    assert lines is not None, "no table"
    head, rule, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[0].splitlines()]
    assert set("".join(rule)) <= set("-:"), "no rule under the head of the table"
    assert all(len(row) == len(head) for row in rows), "a row with more or fewer cells than the head"
    return [dict(zip(head, row, strict=True)) for row in rows]
