"""The plan as a comment on a pull request."""

import re
import shlex
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model.plan import Plan, PlanDifference
from reconciler.review import markdown, text
from reconciler.review.plan import LIMIT, MINIMUM
from tests import hostile_text
from tests.review import commonplace, samples
from tests.review.strategies import PLANS


def render(plan: Plan, limit: int = LIMIT, marker: str = "prod") -> str:
    linked = samples.linked(plan, "https://forge.example/{commit}/{path}#L{line}")
    return markdown.render_markdown(linked, marker=marker, limit=limit)


@given(PLANS, st.integers(MINIMUM, 20_000))
def test_any_plan_is_balanced_and_quoted_within_any_limit(plan: Plan, limit: int) -> None:
    comment = render(plan, limit)
    assert commonplace.faults(comment) == []
    assert len(comment.encode()) <= limit
    assert hostile_text.unseen(comment) == []
    assert comment.count("<!--") == 1


@pytest.mark.parametrize("limit", [*range(MINIMUM, 3_000, 41), 8_192, 20_000, LIMIT])
@pytest.mark.parametrize(
    "make", [samples.every, samples.rendered, samples.hostile, samples.two], ids=lambda make: make.__name__
)
def test_a_cut_is_clean_wherever_it_falls(make: Callable[[], Plan], limit: int) -> None:
    comment = render(make(), limit)
    assert commonplace.faults(comment) == []
    assert len(comment.encode()) <= limit


@given(PLANS, st.integers(MINIMUM, 5_000), st.text(), st.sampled_from(["", "```", "\n", "##[x]"]))
def test_the_command_is_quoted_within_any_limit_or_left_out(plan: Plan, limit: int, one: str, other: str) -> None:
    command = shlex.join(["reconciler", "plan", "--path", f"{one}{other}"])
    comment = markdown.render_markdown(plan, marker="x", limit=limit, command=command)
    assert commonplace.faults(comment) == []
    assert len(comment.encode()) <= limit


def test_the_command_is_the_end() -> None:
    end = "\nTo make this plan again:\n\n````sh\nreconciler plan --path '```'\n````\n"
    command = "reconciler plan --path '```'"
    assert markdown.render_markdown(samples.every(), marker="x", command=command).endswith(end)
    assert "again" not in markdown.render_markdown(samples.every(), marker="x", command=command + "\u202e")
    told = "".join(text.render_text(samples.every(), color=False, command=command))
    assert told.endswith(f"\n\nTo make this plan again:\n  {command}\n")


@pytest.mark.parametrize("limit", [-1, 0, 1, MINIMUM - 1])
def test_the_verdict_and_what_is_missing_stay_at_absurd_limits(limit: int) -> None:
    comment = render(samples.large(100), limit)
    assert len(comment.encode()) <= MINIMUM
    assert comment.startswith(
        "<!-- reconciler-plan: prod -->\n### Plan for `3f2a1c9`: +25 \\~50 -25, 5,000 unchanged\n"
    )
    assert re.search(r"\*\*\d+ resources are not shown:\*\* 25 to create, 50 to change, \d+ to delete\.", comment)


@given(PLANS)
def test_shown_and_missing_are_all(plan: Plan) -> None:
    comment = render(plan, 4_000)
    missing = re.search(r"^\*\*([\d,]+) resources? (?:is|are) not shown", comment, re.MULTILINE)
    body = comment.partition("<details><summary><b>what collectors run")[0].partition("<details")[2]
    shown = len(re.findall(r"^- `", "".join(re.split(r"(?ms)^(`{3,})diff$.*?^\1$", body)[::2]), re.MULTILINE))
    assert shown + (int(missing[1].replace(",", "")) if missing else 0) == len(list(plan.all))


def test_riskiest_first_and_kept_longest() -> None:
    folds = re.findall(r"<summary><b>(\W .*)</b></summary>", render(samples.every()))
    assert folds == [
        "! 2 invalid",
        "! 1 error",
        "! 1 forbidden",
        "- 1 to delete",
        "= 1 in-use",
        "? 1 not-found",
        "# 1 deprecated",
        "~ 2 to change",
        "+ 2 to create",
    ]
    assert re.findall(r"<summary><b>(\W .*)</b></summary>", render(samples.every(), 1_200)) == folds[:2]


@pytest.mark.parametrize(("stopped", "started", "folded"), [(1, 9, 0), (1, 10, 1), (12, 3, 3), (11, 0, 0)], ids=str)
def test_flows_are_open_if_they_are_few_or_end(stopped: int, started: int, folded: int) -> None:
    comment = render(samples.flows(stopped, started))
    shown, _, more = comment.partition("<details><summary>")
    assert (shown.count(" to siem"), more.count(" to siem")) == (stopped + started - folded, folded)
    assert shown.count("- web-") == stopped
    assert bool(folded) == more.startswith(f"{folded} more flow")


def test_a_section_that_is_folded_opens_as_a_list_of_names() -> None:
    assert render(samples.folding(10)).count("<summary>6 lines</summary>") == 0
    assert render(samples.folding(11)).count("<summary>6 lines</summary>") == 1
    assert "<summary>5 lines</summary>" not in render(samples.folding(11))


def test_what_resources_of_one_cause_hold_is_folded() -> None:
    fields = tuple(samples.field(f"spec.f{number}", PlanDifference.ADDED, new=number) for number in range(6))
    many = [samples.one("invalid", "Fleet", f"edge-{n}", reason="a.yaml:1:1: no", fields=fields) for n in range(3)]
    assert render(samples.plan(samples.entry(*many))).count("<summary>6 lines</summary>") == 3
    assert "6 lines" not in render(samples.plan(samples.entry(*many[:2])))


def test_what_changes_for_collectors_is_folded_and_what_they_refuse_is_not() -> None:
    comment = render(samples.rendered())
    above, _, folded = comment.partition("<details><summary><b>what collectors run</b></summary>")
    assert "**2 unfit for collectors:**" in above
    assert "! Configuration refused\n! teams/gateway.yaml:7:5: the Collector says: 'exporters' error" in above
    assert "-     start_at: end\n+     start_at: beginning\n" in folded
    assert "- `Configuration web` in `teams/orders/all.yaml:12`\n" in folded
    assert "`Configuration text`" not in folded  # its fields show it
    assert "what collectors run: 3 more Configurations not compared" in folded


def test_what_changes_for_collectors_leaves_room_for_everything_else() -> None:
    comment = render(samples.rendered(), 1_800)
    assert "`Destination gateway`" in comment
    assert re.search(r"^what collectors run: \d changes not shown; 3 more Configurations", comment, re.MULTILINE)


def test_one_resource_takes_no_more_than_its_share() -> None:
    lines = "\n".join(f"line {number}" for number in range(500))
    greedy = samples.one("invalid", "Fleet", "greedy", reason=lines)
    many = tuple(samples.one("invalid", "Fleet", f"other-{number}", reason=f"no {number}") for number in range(3))
    comment = render(samples.plan(samples.entry(greedy, *many)), 2_000)
    assert "`Fleet other-2`" in comment
    assert re.search(r"^# and \d+ more lines$", comment, re.MULTILINE)


def test_of_several_entries_a_note_says_whose_it_is() -> None:
    one = samples.entry(name="a", notes=("x",))
    assert "\n- `x`\n" in render(samples.plan(one))
    assert "\n- entry `a`: `x`\n- entry `b`: `y`\n" in render(samples.plan(one, samples.entry(name="b", notes=("y",))))


def test_another_comment_cannot_be_forged() -> None:
    comment = render(samples.hostile())
    assert comment.index("<!--") == 0
    assert "reconciler-plan: other" in comment


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("prod", "<!-- reconciler-plan: prod -->"),
        ("shop/eu-west.1", "<!-- reconciler-plan: shop/eu-west.1 -->"),
        ("a--> b", "<!-- reconciler-plan: a-b-513f25b2 -->"),
        ("", "<!-- reconciler-plan: -e3b0c442 -->"),
    ],
)
def test_hidden_mark_holds_the_key(key: str, line: str) -> None:
    assert render(samples.empty(), marker=key).splitlines()[0] == line


@given(st.text(), st.text())
def test_two_keys_have_two_marks(one: str, other: str) -> None:
    marks = {render(samples.empty(), marker=key).splitlines()[0] for key in (one, other)}
    assert len(marks) == len({one, other})
    assert all(re.fullmatch(r"<!-- reconciler-plan: (?:(?!--)[\w./-])+ -->", mark, re.ASCII) for mark in marks)


@pytest.mark.parametrize("url", ["", "javascript:alert(1)", "//evil.example", "http://", "https://x/" + "y" * 3_000])
def test_no_link_leads_elsewhere_than_to_the_web(url: str) -> None:
    comment = markdown.render_markdown(samples.linked(samples.moved(), url), marker="x")
    assert "- `Fleet edge` in `teams/orders/all.yaml:3`\n" in comment


def test_links_are_written_so_that_nothing_ends_them() -> None:
    plan = samples.linked(samples.moved(), 'https://x/a b)<>"`|\n&copy;#L3')
    comment = markdown.render_markdown(plan, marker="x")
    assert "(https://x/a%20b%29%3C%3E%22%60%7C%0A&amp;copy;#L3)" in comment


@pytest.mark.parametrize("status", ["deleted", "in-use"])
def test_what_goes_is_linked_where_its_file_still_is(status: str) -> None:
    made = samples.plan(samples.entry(samples.one(status, "Fleet", "edge"), samples.one("created", "Fleet", "core")))
    comment = render(made)
    assert f"`Fleet edge` in [`teams/orders/all.yaml:3`](https://forge.example/{made.base.commit}/" in comment
    assert f"`Fleet core` in [`teams/orders/all.yaml:3`](https://forge.example/{made.head.commit}/" in comment
