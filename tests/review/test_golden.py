"""Each skin of each sample, as it was last approved: a change of a skin is seen in the diff of these files.

To renew them: `RENEW_GOLDEN=1 scripts/test tests/review/test_golden.py`, and read what changed. CI never renews.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.model.plan import Plan
from reconciler.review import annotations, markdown, text
from reconciler.review import plan as review_plan
from tests.review import samples

FOLDER = Path(__file__).parent / "golden"
RENEW = "RENEW_GOLDEN"
CUT = 20_000  # bytes of a comment that does not hold its plan


def commented(plan: Plan) -> str:
    """A comment; of a large plan a part."""
    limit = CUT if len(list(plan.all)) > 1_000 else review_plan.LIMIT
    linked = samples.linked(plan, "https://forge.example/shop/blob/{commit}/{path}#L{line}")
    return markdown.render_markdown(linked, marker="shop/prod", limit=limit)


SKINS: dict[str, Callable[[Plan], str]] = {
    "txt": lambda plan: "".join(text.render_text(plan, color=False)),
    "ansi": lambda plan: "".join(text.render_text(plan, color=True)),
    "md": commented,
    "json": lambda plan: review_plan.render_json(plan).decode(),
    "github": lambda plan: "".join(annotations.render_annotations(plan)),
}
LONG = {("cut", "txt"), ("cut", "ansi"), ("cut", "json")}  # a megabyte each, and nothing new in it


@pytest.mark.parametrize("skin", SKINS)
@pytest.mark.parametrize(("name", "plan"), list(samples.all_of_them()))
def test_skin_is_as_approved(name: str, plan: Plan, skin: str) -> None:
    if (name, skin) in LONG:
        assert SKINS[skin](plan)
        return
    file = FOLDER / f"{name}.{skin}"
    if os.environ.get(RENEW):
        assert not os.environ.get("CI"), f"{RENEW} is for people, who read what changed"
        file.write_text(SKINS[skin](plan), encoding="utf-8", newline="")
    assert SKINS[skin](plan) == file.read_bytes().decode(), f"if that is meant: {RENEW}=1, and read the diff"


def test_every_golden_file_belongs_to_a_sample() -> None:
    wanted = {f"{name}.{skin}" for name, _ in samples.all_of_them() for skin in SKINS if (name, skin) not in LONG}
    assert {file.name for file in FOLDER.iterdir()} == wanted
