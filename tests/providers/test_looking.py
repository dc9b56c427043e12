"""The faults that `looking` finds: each fault is seen where it is, and none where there is none."""

import pytest

from tests.providers import looking
from tests.providers.chromium import Visitor

pytestmark = pytest.mark.providers

GOOD = """<!DOCTYPE html><html lang="en"><head><title>Good</title>
<meta name="viewport" content="width=device-width"></head>
<body><main><h1>Good</h1><form><label>Name <textarea name="name"></textarea></label></form></main></body></html>"""

BAD = """<!DOCTYPE html><html><head></head><body>
<h1>One</h1><h1>Two</h1><h4>Deep</h4><p style="color: #999; background: #fff">Pale</p><input name="bare">
<button></button><img src="data:,"><table><tr><td>Cell</td></tr></table><p id="twice"></p><p id="twice"></p>
<button tabindex="3">First</button><a href="#" class="none">Link</a><div class="wide">Wide</div>
<summary class="far">Far</summary>
<style>.none:focus { outline: none } .wide { width: 3000px } button { height: 10px }
.far { position: absolute; left: 1270px; width: 99px; height: 30px }</style></body></html>"""

FAULTS = [
    "no language",
    "no title",
    "2 headings of the first level",
    "0 main landmarks",
    "no viewport for phones",
    "3008 pixels wide, on a screen of 1280",
    "twice the id twice",
    "a level is left out before: h4 Deep",
    "no label: input bare",
    "no name: <button></button>",
    "no alternative text: data:,",
    "a table without headers",
    "an order of its own: button First",
    "inline: <p",
    "inline: <style",
    "too small: input bare",
    "too small: button",
    "too small: button First",
    "beside the screen: summary Far",
    "contrast 2.8: p Pale",
]


def test_a_page_that_is_fit_for_everybody_has_no_fault(visitor: Visitor) -> None:
    visitor.page.set_content(GOOD)
    assert (looking.faults(visitor.page), looking.keyboard_faults(visitor.page)) == ([], [])


def test_each_fault_of_a_page_is_told(visitor: Visitor) -> None:
    visitor.page.set_content(BAD)
    found = looking.faults(visitor.page)
    assert [one for one, fault in zip(found, FAULTS, strict=True) if not one.startswith(fault)] == []
    met = "Tab meets ['input bare', 'button', 'a Link', 'nothing']"
    there_is = "there is ['input bare', 'button', 'button First', 'a Link']"
    assert looking.keyboard_faults(visitor.page) == ["no visible focus: a Link", f"{met}, and {there_is}"]
