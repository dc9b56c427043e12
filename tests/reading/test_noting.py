"""What a plan's view notes of what it is asked: everything that a request may change, and no more."""

import contextlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.planning import footprints
from reconciler.planning.footprints import EVERYTHING
from reconciler.reading.noting import NotingView
from reconciler.resources.keys import Key
from reconciler.store import connections, migrating
from reconciler.store.planning_view import PlanningView

NOT_NOTED = frozenset(
    {
        "snapshot",
        "close",
        # The index of a repository's applied head, and what is remembered of it: a commit's record changes them.
        "approval",
        "blobs",
        "given",
        "index",
        "paths_wanting",
        "places_of",
        "pruned_since",
        "repository",
        "stays",
        "vacant_files",
        "wanted_at",
        "wanted_count",
        "wanted_digests",
        "wanted_in",
        # Whose suspension lasts: another record.
        "suspended",
        # Written once, and never changed.
        "origins",
    }
)
"""The methods of a view that read no fact which a request may change."""

ONE, OTHER, BEFORE = Key("Destination", "one"), Key("Destination", "other"), Key("Source", "before")


@pytest.fixture
def view(tmp_path: Path) -> Iterator[PlanningView]:
    path = tmp_path / "store.db"
    with contextlib.closing(connections.open_writer(path)) as writer:
        migrating.migrate(writer, steps=migrating.migrations())
    opened = PlanningView.open(path)
    yield opened
    opened.close()


def facts(footprint: bytes) -> set[bytes]:
    return {footprint[at : at + footprints.WIDTH] for at in range(0, len(footprint), footprints.WIDTH)}


def public(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def noting_reads() -> set[str]:
    return {name for name in vars(NotingView) if not name.startswith("_")} - {"footprint", "close"}


def test_every_read_has_its_place() -> None:
    """Whoever adds a read says here what it looks at."""
    noted = noting_reads()
    assert noted | NOT_NOTED == public(PlanningView)
    assert not noted & NOT_NOTED


KEYS, TARGETS = footprints.of("p", [ONE, OTHER]), footprints.of("p", [], targets=[ONE, OTHER])
IDS, OWNED = footprints.of("p", [], ids=["id", "other"]), footprints.of("p", [], owners=["r"])

READS: dict[str, tuple[Callable[[PlanningView], Any], bytes]] = {
    "stored": (lambda view: view.stored("p", [ONE, OTHER]), KEYS),
    "last_versions": (lambda view: view.last_versions("p", {ONE, OTHER}), KEYS),
    "identities": (lambda view: view.identities("p", (one for one in [ONE, OTHER])), KEYS),
    "bodies": (lambda view: view.bodies("p", [ONE, OTHER]), KEYS),
    "documents": (lambda view: view.documents("p", dict.fromkeys([ONE, OTHER])), KEYS),
    "versions_holding": (lambda view: list(view.versions_holding("p", ONE, [b"1"])), footprints.of("p", [ONE])),
    "versions_of": (lambda view: list(view.versions_of("p", ONE)), footprints.of("p", [ONE])),
    "versions_back": (lambda view: list(view.versions_back("p", ONE, most=1)), footprints.of("p", [ONE])),
    "referrers": (lambda view: view.referrers("p", [ONE, OTHER]), TARGETS),
    "taken_ids": (lambda view: view.taken_ids("p", ["id", "other"]), IDS),
    "owned": (lambda view: view.owned("r", "p"), OWNED),
    "owned_count": (lambda view: view.owned_count("r", "p"), OWNED),
    "owned_unwanted": (lambda view: view.owned_unwanted("r", "p"), OWNED),
    "standing_at": (lambda view: view.standing_at("r", "p", ["a.yaml"]), OWNED),
    "without_lineage": (lambda view: view.without_lineage("r", "p", limit=1), OWNED),
    "unconverged": (lambda view: view.unconverged("r"), OWNED),
    "configurations": (lambda view: list(view.configurations("p")), EVERYTHING),
    "versions_naming": (lambda view: list(view.versions_naming("p", ["Destination"], ["t"])), EVERYTHING),
    "quotes": (lambda view: list(view.quotes("p", ["text"])), EVERYTHING),
    "another project": (lambda view: view.stored("q", [ONE]), EVERYTHING),
}


@pytest.mark.parametrize("read", READS)
def test_a_read_is_noted_with_what_it_looks_at(view: PlanningView, read: str) -> None:
    noted = NotingView(view, "p")
    noted.stored("p", [BEFORE])
    ask, expected = READS[read]
    with noted.snapshot():
        answer = ask(noted)
    with view.snapshot():
        assert answer == ask(view)
    assert facts(noted.footprint()) == (facts(expected) | facts(footprints.of("p", [BEFORE])) if expected else set())


def test_all_reads_are_tried() -> None:
    assert READS.keys() - {"another project"} == noting_reads()


def test_closing_it_leaves_the_view_open(view: PlanningView) -> None:
    NotingView(view, "p").close()
    with view.snapshot():
        assert view.stored("p", [ONE]) == {}
