"""What a plan's view notes of what it is asked: everything that a commit may change, and no more."""

import contextlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.model import outcomes
from reconciler.model.names import Key
from reconciler.model.outcomes import EVERYTHING
from reconciler.store import database
from reconciler.store.planning_view import PlanningView
from reconciler.worker.read_set import RecordingView

NOT_NOTED = frozenset(
    {
        "snapshot",
        "close",
        # Whose suspension lasts: another record.
        "suspended",
        # Written once, and never changed.
        "origins",
    }
)
"""The methods of a view that read what only changes together with everything, or never."""

ONE, OTHER, BEFORE = Key("Destination", "one"), Key("Destination", "other"), Key("Source", "before")


@pytest.fixture
def view(tmp_path: Path) -> Iterator[PlanningView]:
    path = tmp_path / "store.db"
    with contextlib.closing(database.open_writer(path)) as writer:
        database.migrate(writer, steps=database.migrations())
    opened = PlanningView.open(path)
    yield opened
    opened.close()


def facts(footprint: bytes) -> set[bytes]:
    return {footprint[at : at + outcomes.WIDTH] for at in range(0, len(footprint), outcomes.WIDTH)}


def public(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def noting_reads() -> set[str]:
    return {name for name in vars(RecordingView) if not name.startswith("_")} - {"footprint", "close"}


def test_every_read_has_its_place() -> None:
    """Whoever adds a read says here what it looks at."""
    noted = noting_reads()
    assert noted | NOT_NOTED == public(PlanningView)
    assert not noted & NOT_NOTED


WHOLE = outcomes.footprint_of_all("p")
KEYS, TARGETS = outcomes.footprint_of("p", [ONE, OTHER]), outcomes.footprint_of("p", [], targets=[ONE, OTHER])
IDS, OWNED = outcomes.footprint_of("p", [], ids=["id", "other"]), outcomes.footprint_of("p", [], owners=["r"])
REMEMBERED = outcomes.footprint_of("p", [], repositories=["r"])

READS: dict[str, tuple[Callable[[PlanningView], Any], bytes]] = {
    "stored": (lambda view: view.stored("p", [ONE, OTHER]), KEYS),
    "compared": (lambda view: view.compared("p", [ONE, OTHER]), KEYS),
    "last_versions": (lambda view: view.last_versions("p", {ONE, OTHER}), KEYS),
    "identities": (lambda view: view.identities("p", (one for one in [ONE, OTHER])), KEYS),
    "bodies": (lambda view: view.bodies("p", [ONE, OTHER]), KEYS),
    "documents": (lambda view: view.documents("p", dict.fromkeys([ONE, OTHER])), KEYS),
    "versions_holding": (lambda view: list(view.versions_holding("p", ONE, [b"1"])), outcomes.footprint_of("p", [ONE])),
    "versions_of": (lambda view: list(view.versions_of("p", ONE)), outcomes.footprint_of("p", [ONE])),
    "versions_back": (lambda view: list(view.versions_back("p", ONE, most=1)), outcomes.footprint_of("p", [ONE])),
    "version": (lambda view: view.version("p", ONE, 1), outcomes.footprint_of("p", [ONE])),
    "past_routes": (lambda view: view.past_routes("p"), outcomes.footprint_of("p", [outcomes.PAST_ROUTES])),
    "referrers": (lambda view: view.referrers("p", [ONE, OTHER]), TARGETS),
    "taken_ids": (lambda view: view.taken_ids("p", ["id", "other"]), IDS),
    "owned": (lambda view: view.owned("r", "p"), OWNED),
    "owned_count": (lambda view: view.owned_count("r", "p"), OWNED),
    "owned_unwanted": (lambda view: view.owned_unwanted("r", "p"), OWNED + REMEMBERED),
    "standing_at": (lambda view: view.standing_at("r", "p", ["a.yaml"]), OWNED),
    "without_lineage": (lambda view: view.without_lineage("r", "p", limit=1), OWNED),
    "unconverged": (
        lambda view: view.unconverged("r"),
        outcomes.footprint_of("p", [], owners=["r"], repositories=["r"]),
    ),
    "approval": (lambda view: view.approval("r"), REMEMBERED),
    "blobs": (lambda view: view.blobs("r", ["a.yaml"]), REMEMBERED),
    "given": (lambda view: view.given("r"), REMEMBERED),
    "index": (lambda view: view.index("r"), REMEMBERED),
    "paths_wanting": (lambda view: view.paths_wanting("r", [ONE]), REMEMBERED),
    "places_of": (lambda view: view.places_of("r", [ONE]), REMEMBERED),
    "pruned_since": (lambda view: view.pruned_since("r", 1), REMEMBERED),
    "repository": (lambda view: view.repository("r"), REMEMBERED),
    "stays": (lambda view: view.stays("r"), REMEMBERED),
    "vacant_files": (lambda view: view.vacant_files("r"), REMEMBERED),
    "wanted_at": (lambda view: view.wanted_at("r", ["a.yaml"]), REMEMBERED),
    "wanted_count": (lambda view: view.wanted_count("r"), REMEMBERED),
    "wanted_digests": (lambda view: view.wanted_digests("r", [ONE]), REMEMBERED),
    "wanted_in": (lambda view: view.wanted_in("r", ["a.yaml"]), REMEMBERED),
    "configurations": (lambda view: list(view.configurations("p")), WHOLE),
    "versions_naming": (lambda view: list(view.versions_naming("p", ["Destination"], ["t"])), WHOLE),
    "quotes": (lambda view: list(view.quotes("p", ["text"])), WHOLE),
    "another project": (lambda view: view.stored("q", [ONE]), EVERYTHING),
    "what is owned in another project": (lambda view: view.owned_count("r", "q"), EVERYTHING),
    "configurations of another project": (lambda view: list(view.configurations("q")), EVERYTHING),
}


@pytest.mark.parametrize("read", READS)
def test_a_read_is_noted_with_what_it_looks_at(view: PlanningView, read: str) -> None:
    noted = RecordingView(view, "p")
    noted.stored("p", [BEFORE])
    ask, expected = READS[read]
    with noted.snapshot():
        answer = ask(noted)
    with view.snapshot():
        assert answer == ask(view)
    beside = outcomes.footprint_of("p", [BEFORE], whole=outcomes.OF_PLAN)
    is_everything = expected == EVERYTHING
    assert facts(noted.footprint()) == (set() if is_everything else facts(expected) | facts(beside))


def test_a_read_of_everything_in_a_project_leaves_noted_what_belongs_to_no_project(view: PlanningView) -> None:
    """A repository may have been another project's."""
    noted = RecordingView(view, "p")
    with noted.snapshot():
        noted.repository("r")
        noted.owned_count("r", "p")
        list(noted.configurations("p"))
    assert facts(noted.footprint()) == facts(WHOLE) | facts(OWNED) | facts(REMEMBERED)


def test_all_reads_are_tried() -> None:
    assert {read for read in READS if " " not in read} == noting_reads()


def test_closing_it_leaves_the_view_open(view: PlanningView) -> None:
    RecordingView(view, "p").close()
    with view.snapshot():
        assert view.stored("p", [ONE]) == {}
