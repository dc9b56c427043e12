"""The plan for a terminal."""

import re

import pytest
from hypothesis import given

from reconciler.model.plan import Plan, PlanDifference, PlanField, PlanTip
from reconciler.review import text
from tests import hostile_text
from tests.review import samples
from tests.review.strategies import PLANS

COLOR = re.compile(r"\x1b\[[\d;]*m")
OURS = re.compile(
    r"(?:Plan|Entry|No changes|in |merging |comparing |against |note: |nothing of|was so|what collectors run"
    r"|[-+~=!?#.|](?: |$))"
)


def render(plan: Plan, *, color: bool = False) -> str:
    return "".join(text.render_text(plan, color=color))


def line_of(field: PlanField) -> list[str]:
    """The lines of the one field of the one resource."""
    plan = samples.plan(samples.entry(samples.one("configured", "Fleet", "edge", fields=(field,))))
    lines = [line.removeprefix(" " * 6) for line in render(plan).splitlines()]
    return lines[lines.index("  ~ Fleet edge (teams/orders/all.yaml:3)") + 1 : -2]


@given(PLANS)
def test_nothing_in_any_plan_acts(plan: Plan) -> None:
    shown = render(plan)
    assert hostile_text.unseen(shown) == []
    for line in filter(None, shown.split("\n")):
        assert OURS.match(line.lstrip()), line
        assert not re.search(r"##\w*\[", line)


@given(PLANS)
def test_colour_means_nothing_alone(plan: Plan) -> None:
    assert COLOR.sub("", render(plan, color=True)) == render(plan)


def test_a_value_of_ten_megabytes_is_cut() -> None:
    (line,) = line_of(samples.field("spec.body", PlanDifference.ADDED, 5, new="x" * 10_000_000))
    assert line == f'+ spec.body: "{"x" * 499}... (10,000,002 characters) (line 5)'


def test_a_text_of_many_lines_shows_what_differs_and_a_little_around_it() -> None:
    old = [f"line {number}" for number in range(1_000)]
    new = [*old[:500], "another", *old[501:]]
    field = samples.field("spec.script", PlanDifference.CHANGED, 5, old="\n".join(old), new="\n".join(new))
    assert line_of(field) == [
        "~ spec.script: (line 5)",
        "  | line 498",
        "  | line 499",
        "  - line 500",
        "  + another",
        "  | line 501",
        "  | line 502",
    ]


def test_a_text_that_is_another_altogether_is_cut() -> None:
    old, new = "\n".join("a" * 200), "\n".join("b" * 200)
    lines = line_of(samples.field("spec.script", PlanDifference.CHANGED, 5, old=old, new=new))
    assert len(lines) == 42
    assert lines[-1] == "  # and 360 more lines"


def test_an_end_of_line_that_was_added_is_seen() -> None:
    lines = line_of(samples.field("spec.script", PlanDifference.CHANGED, 5, old="a\nb", new="a\nb\n"))
    assert lines == ["~ spec.script: (line 5)", "  | a", "  | b", "  +"]


def test_two_places_of_one_text_stand_apart() -> None:
    old = [f"line {number}" for number in range(20)]
    new = ["first", *old[1:-1], "last"]
    lines = line_of(samples.field("spec.script", PlanDifference.CHANGED, 5, old="\n".join(old), new="\n".join(new)))
    assert [line.strip() for line in lines[1:]] == [
        "- line 0",
        "+ first",
        "| line 1",
        "| line 2",
        "| ...",
        "| line 17",
        "| line 18",
        "- line 19",
        "+ last",
    ]


STEPS = [
    {"name": "first"},
    {"parameters": [{"name": "level", "value": 1}, {"name": "text", "value": "a\nb"}], "of": []},
]


def test_a_long_list_is_a_line_for_each_value() -> None:
    assert line_of(samples.field("spec.steps", PlanDifference.ADDED, 5, new=STEPS)) == [
        "+ spec.steps: (line 5)",
        '  + - name: "first"',
        "  + - parameters:",
        '  +     - name: "level"',
        "  +       value: 1",
        '  +     - name: "text"',
        '  +       value: "a\\nb"',
        "  +   of: []",
    ]
    assert line_of(samples.field("spec.steps", PlanDifference.ADDED, 5, new=STEPS[:1])) == [
        '+ spec.steps: [{"name":"first"}] (line 5)'
    ]


def test_of_a_long_list_that_changes_what_stays_is_around_what_differs() -> None:
    old = [f"step number {number}" for number in range(20)]
    field = samples.field("spec.steps", PlanDifference.CHANGED, 5, old=old, new=[*old[:9], "another", *old[10:]])
    assert line_of(field) == [
        "~ spec.steps: (line 5)",
        '  | - "step number 7"',
        '  | - "step number 8"',
        '  - - "step number 9"',
        '  + - "another"',
        '  | - "step number 10"',
        '  | - "step number 11"',
    ]


def test_a_string_that_says_sensitive_is_no_secret() -> None:
    field = samples.field("spec.note", PlanDifference.CHANGED, 5, old="(sensitive)", new="(sensitive, changed)")
    assert line_of(field) == ['~ spec.note: "(sensitive)" -> "(sensitive, changed)" (line 5)']


def test_a_head_that_the_base_has_already_is_told() -> None:
    told = "note: main has every commit of this already, so there is nothing to merge"
    assert f"{told}; with --worktree it plans what is not committed\n" in render(samples.plan(ahead=0))
    assert f"{told}\n" in render(samples.plan(ahead=0, server="https://service.example"))
    worktree = PlanTip(ref="HEAD", commit=samples.HEAD.commit, worktree=True)
    assert "note:" not in render(samples.plan(ahead=0, head=worktree))


def test_a_head_of_no_branch_is_its_commit() -> None:
    head = PlanTip(ref="HEAD", commit=samples.HEAD.commit)
    assert "  merging 3f2a1c9 into main (9a8b7c6)\n" in render(samples.plan(head=head))


@pytest.mark.parametrize("digits", [6, 40])
def test_a_commit_that_was_named_by_its_id_is_shown_once(digits: int) -> None:
    head = PlanTip(ref=samples.HEAD.commit[:digits], commit=samples.HEAD.commit)
    assert "  merging 3f2a1c9 into main (9a8b7c6)\n" in render(samples.plan(head=head))
