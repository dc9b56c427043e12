"""The plan as one page: whole, asking for nothing, and with text alone from outside."""

import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from hypothesis import given

from reconciler.model.plan import Plan
from reconciler.review import page
from tests import hostile_text
from tests.review import samples
from tests.review.strategies import PLANS

TAGS = frozenset(
    [
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "h1",
        "h2",
        "h3",
        "p",
        "section",
        "ul",
        "li",
        "strong",
        "a",
        "details",
        "summary",
        "pre",
        "ins",
        "del",
    ]
)
VOID = frozenset({"meta"})
LINK = "https://forge.example/{commit}/{path}#L{line}"


class Reader(HTMLParser):
    """The tags, the links and the text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags = set[str]()
        self.attributes = set[str]()
        self.links: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name == "href"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@given(PLANS)
def test_any_plan_is_text_between_our_own_tags(plan: Plan) -> None:
    check(plan)


@pytest.mark.parametrize(
    "make", [samples.every, samples.rendered, samples.hostile, samples.two], ids=lambda make: make.__name__
)
def test_a_page_has_our_own_tags_alone(make: Callable[[], Plan]) -> None:
    check(make())


def check(plan: Plan) -> None:
    html = page.render_page(samples.linked(plan, LINK), command="reconciler plan --path '</pre><script>'")
    read = Reader(html)
    assert read.open == []
    assert read.tags <= TAGS
    assert read.attributes <= {"lang", "charset", "http-equiv", "content", "name", "href", "open"}
    assert all(link.startswith("https://forge.example/") for link in read.links)
    assert hostile_text.unseen(html) == []
    assert "default-src 'none'" in html
    assert "reconciler plan --path '</pre><script>'" in read.text


def test_a_link_that_leads_elsewhere_than_to_the_web_is_text() -> None:
    assert Reader(page.render_page(samples.linked(samples.moved(), "javascript:{path}"))).links == []


def test_a_section_of_more_than_ten_resources_is_folded() -> None:
    created = [samples.one("created", "Fleet", f"edge-{number:02}") for number in range(11)]
    for number, folded in ((10, "<details open>"), (11, "<details>")):
        html = page.render_page(samples.plan(samples.entry(*created[:number])))
        assert html.startswith("<!doctype html>")
        assert f"{folded}<summary><h2>+ {number} to create</h2></summary>" in html


def test_many_flows_and_what_is_in_a_folded_section_are_folded() -> None:
    html = page.render_page(samples.flows(1, 10))
    assert html.index("web-9") < html.index("<details><summary>1 more flow</summary>") < html.index("web-10")
    for number, fold in ((10, "<details open>"), (11, "<details>")):
        html = page.render_page(samples.folding(number))
        assert html.count(f"{fold}<summary>6 lines</summary>") == 1
        assert html.count("<details open><summary>5 lines</summary>") == number - 1


def test_what_changes_for_collectors_is_folded() -> None:
    html = page.render_page(samples.rendered())
    assert "What collectors run" in html
    assert re.search(r"<strong>~ Configuration web</strong>[^<]*<details><summary>\d+ lines</summary>", html)
    assert "~ Configuration text" not in html


def test_it_says_what_the_text_says() -> None:
    told = Reader(page.render_page(samples.linked(samples.every(), LINK))).text
    assert '~ spec.url: "https://a.example" -> "https://b.example"' in told
    assert "(sensitive, changed)" in told
    assert "teams/orders/all.yaml:3" in told
    assert "1 lines" not in told
