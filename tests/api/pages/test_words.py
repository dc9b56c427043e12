"""Words, pictures and charts of the console: pure functions of what the API answers."""

from datetime import UTC, datetime
from typing import Any

import pytest

from api.pages import deliveries, flow_picture, states, words
from reconciler.delivery.reporting import ExporterState
from reconciler.git.faults import RepositoryState
from reconciler.model.conditions import State
from reconciler.model.notification_types import Severity
from reconciler.model.outcomes import UpdateStatus
from reconciler.reconcile.runs import RunOutcome

STATES = (ExporterState, RepositoryState, RunOutcome, Severity, State, UpdateStatus)
CALM = {"closed", "configured", "deleted", "idle", "info", "not-found", "unchanged"}
NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("instant", "told"),
    [
        (None, ""),
        ("2026-11-28T12:00:00.000Z", "now"),
        ("2026-11-28T11:59:01.000Z", "59 s ago"),
        ("2026-11-28T11:58:30.000Z", "1 min ago"),
        ("2026-11-28T09:00:00.000Z", "3 h ago"),
        ("2026-11-20T09:00:00.000Z", "8 d ago"),
        ("2024-11-20T09:00:00.000Z", "2 y ago"),
        ("2026-11-28T14:00:00.000Z", "in 2 h"),
    ],
)
def test_an_age_has_one_unit(instant: str | None, told: str) -> None:
    assert words.age(instant, NOW) == told


def test_figures_are_short() -> None:
    assert [words.size(count) for count in (0, 1023, 1536, 5 << 20, 3 << 30)] == [
        "0 B",
        "1023 B",
        "1.5 KiB",
        "5.0 MiB",
        "3.0 GiB",
    ]
    assert words.number(1234567.4) == "1\u202f234\u202f567"


def test_a_value_is_text_or_json_and_never_hides() -> None:
    assert words.value("a\u202eb") == "a\\u202eb"
    assert words.value(["x", 1, None]) == '["x", 1, null]'
    assert words.value({"begins": '"abc', "bytes": 9000}) == '"abc... (9000 bytes)'


def test_a_difference_has_some_lines_around_each_change() -> None:
    old = "\n".join(f"line {number}" for number in range(40))
    new = old.replace("line 5\n", "line five\n").replace("line 30\n", "")
    found = words.line_changes(old, new)
    assert ("removed", "line 5") in found
    assert ("added", "line five") in found
    assert ("removed", "line 30") in found
    assert [kind for kind, _ in found].count("gap") == 1
    assert ("same", "line 15") not in found
    assert words.line_changes(old, old) == []


def test_a_difference_on_a_page_is_bounded_and_counts_all() -> None:
    old, new = ("\n".join(f"{side} {number}" for number in range(1_000)) for side in ("old", "new"))
    found = words.difference(old, new)
    assert (len(found["lines"]), found["counts"], found["more"]) == (600, {"added": 1_000, "removed": 1_000}, True)
    assert words.difference(old, old) == {"lines": [], "counts": {}, "more": False}


def test_every_state_of_the_contract_has_a_known_colour() -> None:
    assert {words.tone(state) for state in words.TONES} == {"good", "bad", "warn"}
    tones = {str(state): words.tone(state) for enum in STATES for state in enum}
    assert {state for state, tone in tones.items() if tone == "calm"} == CALM
    assert words.tone("orphaned") == "warn"
    assert words.tone("dead letters") == "bad"


def delivery(state: str) -> dict[str, Any]:
    return {"state": state}


def test_a_configuration_says_which_of_its_destinations_fail() -> None:
    fine = [delivery(state) for state in ("idle", "sending", "closed")]
    assert states.of_delivering(fine) == states.State("delivers")
    failing = [*fine, delivery("down"), delivery("waiting"), delivery("waiting")]
    told = "1 destination is down; 2 destinations are waiting."
    assert states.of_delivering(failing) == states.State("delivers", told, "warn")


@pytest.mark.parametrize(
    ("held", "word"), [({"count": 25}, "prune-held"), ({"count": 0}, "deletions blocked"), (None, "deletions blocked")]
)
def test_deletions_that_wait_for_a_correction_are_blocked(held: dict[str, int] | None, word: str) -> None:
    repository = {"state": "prune-held", "message": "bad.yaml:1: is not YAML", "held": held}
    assert states.of_repository(repository) == states.State(word, "bad.yaml:1: is not YAML")
    assert words.tone(word) == "warn"


def describe(kind: str, component: Any) -> tuple[str, str, str, str]:
    return str(component.get("name", kind)), kind, "", "calm"


def draw(**spec: Any) -> flow_picture.Picture:
    return flow_picture.draw(spec, describe)


def test_a_picture_has_each_component_once_and_joins_them() -> None:
    picture = draw(
        sources=[{"name": "a", "processors": [{"name": "p"}]}, {"name": "b"}],
        processors=[{"name": "common"}],
        destinations=[{"name": "x"}, {"name": "y", "processors": [{"name": "q"}]}, {"name": "z"}],
    )
    assert sorted(box.name for box in picture.boxes) == ["a", "b", "common", "p", "q", "x", "y", "z"]
    assert len({(box.x, box.y) for box in picture.boxes}) == len(picture.boxes)
    for box in picture.boxes:
        assert 0 <= box.x <= picture.width - flow_picture.WIDTH
        assert 0 <= box.y <= picture.height - flow_picture.HEIGHT
    by_name = {box.name: box for box in picture.boxes}
    assert by_name["a"].x < by_name["p"].x < by_name["common"].x < by_name["q"].x < by_name["y"].x
    assert by_name["x"].x == by_name["y"].x == by_name["z"].x
    # One line from each source and to each destination, one within each row, two around the common processor.
    assert len(picture.lines) == 2 + 3 + 2 + 2


@pytest.mark.parametrize("spec", [{}, {"sources": None}, {"sources": "x", "destinations": [1, None]}, {"raw": "x"}])
def test_a_picture_of_nothing_is_empty(spec: dict[str, Any]) -> None:
    assert draw(**spec).boxes == ()


def test_a_picture_is_bounded() -> None:
    many = [{"name": f"component-{number}"} for number in range(1_000)]
    picture = draw(sources=many, destinations=many)
    assert len(picture.boxes) == 2 * flow_picture.MOST
    assert picture.left_out == 2 * (1_000 - flow_picture.MOST)


def test_long_names_are_cut_to_the_box() -> None:
    [box] = draw(sources=[{"name": "n" * 63}]).boxes
    assert (len(box.label), box.label[-1], len(box.name)) == (flow_picture.LETTERS, "…", 63)


def sample(minute: int = 0, **counts: int) -> dict[str, Any]:
    at = f"2026-11-28T12:{minute:02}:00.000Z"
    return {"at": at, "delivered": 0, "queued": 0, "retried": 0, "dead": 0, **counts}


def test_charts_end_at_the_right_with_the_newest_value() -> None:
    samples = [sample(1, delivered=600), sample(2, delivered=60, queued=5)]
    delivered, queued, failed = deliveries.charts(samples, 60)
    assert (delivered.highest, delivered.last, queued.last, failed.last) == ("10", "1", "5", "0")
    assert delivered.path.endswith(f"L{deliveries.WIDTH:.1f} {60 - 2 - 0.1 * 56:.1f}")
    assert (failed.is_bad, deliveries.charts([sample(dead=1)], 60)[2].is_bad) == (False, True)
    empty = deliveries.charts([], 60)[0]
    assert (empty.path, empty.points, empty.last) == ("", [], "0")


def test_each_point_of_a_chart_has_its_time_value_and_unit() -> None:
    now = {"rates": {"delivered": 2.5}, "queue": {"records": 7}}
    delivered, queued, failed = deliveries.charts([sample(1, delivered=600), sample(2, dead=3)], 60, now=now)
    assert [(one.unit, [(point.time, point.value) for point in one.points]) for one in (delivered, queued, failed)] == [
        ("records/s", [("12:01 UTC", "10"), ("12:02 UTC", "0"), ("now", "2.5")]),
        ("records", [("12:01 UTC", "0"), ("12:02 UTC", "0"), ("now", "7")]),
        ("records/min", [("12:01 UTC", "0"), ("12:02 UTC", "3")]),
    ]
    assert [point.x for point in delivered.points] == [290, 295, 300]
    assert [point.x for point in failed.points] == [290, 295]  # the same minute is at the same place in each


def test_a_change_of_the_last_hour_has_a_mark_at_its_time() -> None:
    instants = ("2026-11-28T12:00:01Z", "2026-11-28T11:45:00Z", "2026-11-28T11:00:00Z")
    versions = [{"metadata": {"version": 3 - number, "dateModified": at}} for number, at in enumerate(instants)]
    width = deliveries.WIDTH
    assert deliveries.marks(versions, NOW) == [(width, 3, instants[0]), (width * 0.75, 2, instants[1])]
