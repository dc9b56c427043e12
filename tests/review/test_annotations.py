"""The plan as commands of GitHub's workflows."""

import re

import pytest
from hypothesis import given

from reconciler.model.plan import Plan, PlanDifference
from reconciler.review import annotations
from tests import hostile_text
from tests.review import samples
from tests.review.strategies import PLANS

# As the runner takes a line apart (ActionCommand.TryParseV2): up to the second `::`, properties at commas.
COMMAND = re.compile(r"::(error|warning|notice) ((?:file=[^,:]+,line=\d+,col=\d+,)?title=[^,:]*)::(.+)")


def render(plan: Plan) -> list[str]:
    return "".join(annotations.render_annotations(plan)).splitlines()


@given(PLANS)
def test_every_line_of_any_plan_is_one_command(plan: Plan) -> None:
    shown = "".join(annotations.render_annotations(plan))
    assert hostile_text.unseen(shown) == []
    lines = shown.split("\n")
    assert lines.pop() == ""
    assert all(COMMAND.fullmatch(line) for line in lines)
    levels = [line.split(" ")[0] for line in lines]
    assert levels[0] == "::notice"
    assert levels[1:] == sorted(levels[1:], key=["::error", "::warning", "::notice"].index)
    assert max(levels.count(level) for level in levels) <= annotations.SHOWN


@given(PLANS)
def test_what_was_so_before_is_not_marked(plan: Plan) -> None:
    told = any(entry.notes or entry.refused or entry.renderings for entry in plan.entries)
    if all(status.existing for _, status in plan.all) and not told:
        assert len(render(plan)) == 1


def test_what_is_unfit_for_collectors_is_an_error_at_the_component() -> None:
    held, refused, plain = (line for line in render(samples.rendered()) if line.startswith("::error"))
    title = "title=Configuration refused unfit for collectors"
    assert refused.startswith(f"::error file=teams/gateway.yaml,line=7,col=5,{title}::teams/gateway.yaml:7:5: the ")
    assert held.startswith("::error file=teams/gateway.yaml,line=1,col=1,title=Configuration held unfit")
    assert plain == f"::error file=teams/orders/all.yaml,line=12,col=1,{title}::and so on"


def test_the_last_of_a_level_counts_the_rest() -> None:
    broken = [samples.one("invalid", "Fleet", f"edge-{number:02}", reason=f"no {number}") for number in range(12)]
    lines = render(samples.plan(samples.entry(*broken)))
    assert len(lines) == 11
    assert lines[-1].endswith("title=Fleet edge-09 invalid::no 9%0A2 more errors: see the whole plan.")


def test_ten_are_ten() -> None:
    broken = [samples.one("invalid", "Fleet", f"edge-{number}", reason=f"no {number}") for number in range(10)]
    assert render(samples.plan(samples.entry(*broken)))[-1].endswith("title=Fleet edge-9 invalid::no 9")


def test_notes_stand_between_errors_and_other_warnings_and_leave_these_room() -> None:
    statuses = [samples.one(word, "Fleet", f"{word}-{at}") for at in range(12) for word in ("invalid", "deleted")]
    plan = samples.plan(samples.entry(*statuses, notes=tuple(f"note {at}" for at in range(7)), refused=True))
    warnings = render(plan)[11:]
    assert warnings[0] == (
        "::warning title=Reconciler plan::Nothing of this entry would be stored: it is atomic, and something in it is "
        "refused."
    )
    assert warnings[1:5] == [f"::warning title=Reconciler plan::note {at}" for at in range(4)]
    assert [line.partition("title=")[2].split(" ")[1][:8] for line in warnings[5:]] == ["deleted-"] * 5
    assert warnings[-1].endswith("%0A10 more warnings: see the whole plan.")


def test_of_several_entries_a_note_says_whose_it_is() -> None:
    plan = samples.plan(samples.entry(name="a", notes=("x",)), samples.entry(name="b"))
    assert render(plan)[1:] == ["::warning title=Reconciler plan (entry a)::x"]


@pytest.mark.parametrize("status", ["deleted", "in-use"])
def test_what_goes_is_marked_at_the_first_line_of_its_file(status: str) -> None:
    gone = samples.one(status, "Fleet", "edge", "teams/fleets.yaml", 44)
    assert "file=teams/fleets.yaml,line=1,col=1," in render(samples.plan(samples.entry(gone)))[-1]


@pytest.mark.parametrize(
    ("reason", "place"),
    [
        ("a.yaml:20:14: /spec/x: is greater than 9\na.yaml:30:2: /spec/y: is no text", "line=20,col=14"),
        ("its type says more:\na.yaml:20:14: /spec/x: is greater than 9", "line=20,col=14"),
        ("b.yaml:20:14: has it too", "line=3,col=1"),
        ("aayaml:20:14: has it too", "line=3,col=1"),
        ("a.yaml:20: is no place", "line=3,col=1"),
        ("a.yaml:0:1: is no line", "line=3,col=1"),
        ("a.yaml:99999999999999999999:1: is no line of a file", "line=3,col=1"),
        ("is wrong", "line=3,col=1"),
    ],
)
def test_what_is_wrong_is_marked_where_its_reason_says(reason: str, place: str) -> None:
    wrong = samples.one("invalid", "Fleet", "edge", "a.yaml", reason=reason)
    assert f"::error file=a.yaml,{place}," in render(samples.plan(samples.entry(wrong)))[-1]


def test_what_changes_is_marked_where_it_first_does() -> None:
    changed = [
        samples.field("spec.gone", PlanDifference.REMOVED, old=1),
        *(samples.field(f"spec.x{number}", PlanDifference.CHANGED, 8 + number, old=1, new=2) for number in range(6)),
    ]
    status = samples.one("configured", "Fleet", "edge", fields=tuple(changed), fields_left_out=2)
    assert render(samples.plan(samples.entry(status)))[-1] == (
        "::notice file=teams/orders/all.yaml,line=8,col=9,title=Fleet edge configured::- spec.gone: 1%0A"
        "~ spec.x0: 1 -> 2 (line 8)%0A~ spec.x1: 1 -> 2 (line 9)%0A~ spec.x2: 1 -> 2 (line 10)%0A"
        "~ spec.x3: 1 -> 2 (line 11)%0Aand 4 more fields"
    )


def test_notices_are_ten_with_the_verdict() -> None:
    changed = [samples.one("configured", "Fleet", f"edge-{number:02}") for number in range(10)]
    lines = render(samples.plan(samples.entry(*changed)))
    assert len(lines) == 10
    assert lines[-1].endswith(
        "title=Fleet edge-08 configured::Merging changes it.%0A1 more notice: see the whole plan."
    )


def test_percent_colon_and_comma_are_escaped() -> None:
    odd = samples.one("invalid", "Fleet", "a:b,c%0A", "x:y,z%.yaml", reason="100%\r\nno: really, no")
    assert render(samples.plan(samples.entry(odd)))[-1] == (
        "::error file=x%3Ay%2Cz%25.yaml,line=3,col=1,title=Fleet a%3Ab%2Cc%250A invalid::100%25\\r%0Ano: really, no"
    )


def test_a_long_list_stays_on_one_line() -> None:
    steps = [{"name": f"step number {number}"} for number in range(9)]
    field = samples.field("spec.steps", PlanDifference.ADDED, 5, new=steps)
    _, line = render(samples.plan(samples.entry(samples.one("configured", "Fleet", "edge", fields=(field,)))))
    assert '"step number 8"}] (line 5)' in line
