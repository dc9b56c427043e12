"""Footprints: the same facts are the same everywhere, others hardly ever, and looking for a few among many is cheap."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import outcomes
from reconciler.model.names import Key
from reconciler.model.outcomes import EVERYTHING

ONE, OTHER = Key("Destination", "one"), Key("Destination", "other")
KEYS = st.lists(st.builds(Key, st.sampled_from(["Source", "Destination"]), st.text(max_size=3)), max_size=8)
PROGRAM = """
from reconciler.model.names import Key
from reconciler.model.outcomes import footprint_of
print(footprint_of("p", [Key("Destination", "ö")], ids=["id"], targets=[Key("Source", "s")], owners=["r"]).hex())
"""


@given(st.sampled_from(["p", "q"]), KEYS, KEYS)
def test_two_footprints_meet_when_they_have_a_key_in_common(project: str, one: list[Key], other: list[Key]) -> None:
    mine, yours = outcomes.footprint_of("p", one), outcomes.footprint_of(project, other)
    is_shared = project == "p" and not set(one).isdisjoint(other)
    expected = is_shared or not one or not other  # of nothing it is of everything
    assert outcomes.footprints_meet(mine, yours) is expected
    assert outcomes.footprints_meet(yours, mine) is expected


FACTS = {
    "a key": outcomes.footprint_of("p", [ONE]),
    "another key": outcomes.footprint_of("p", [OTHER]),
    "a key of another kind": outcomes.footprint_of("p", [Key("Source", "one")]),
    "a key of another project": outcomes.footprint_of("q", [ONE]),
    "what refers to a key": outcomes.footprint_of("p", [], targets=[ONE]),
    "what refers to another": outcomes.footprint_of("p", [], targets=[OTHER]),
    "an id": outcomes.footprint_of("p", [], ids=["one"]),
    "another id": outcomes.footprint_of("p", [], ids=["other"]),
    "what a repository owns": outcomes.footprint_of("p", [], owners=["one"]),
    "what another owns": outcomes.footprint_of("p", [], owners=["other"]),
    "what is remembered of a repository": outcomes.footprint_of("p", [], repositories=["one"]),
    "what is remembered of another": outcomes.footprint_of("p", [], repositories=["other"]),
    "a plan of a project": outcomes.footprint_of("p", [], whole=outcomes.OF_PLAN),
    "a commit to a project": outcomes.footprint_of("p", [], whole=outcomes.OF_COMMIT),
    "a plan of another project": outcomes.footprint_of("q", [], whole=outcomes.OF_PLAN),
    "a commit to another project": outcomes.footprint_of("q", [], whole=outcomes.OF_COMMIT),
}


@pytest.mark.parametrize("one", FACTS)
@pytest.mark.parametrize("other", FACTS)
def test_facts_of_other_sorts_do_not_meet(one: str, other: str) -> None:
    assert outcomes.footprints_meet(FACTS[one], FACTS[other]) is (one == other)


def test_what_a_repository_owns_is_the_same_fact_in_every_project() -> None:
    assert outcomes.footprint_of("p", [], owners=["r"]) == outcomes.footprint_of("q", [], owners=["r"])
    assert outcomes.footprint_of("p", [], repositories=["r"]) == outcomes.footprint_of("q", [], repositories=["r"])


def test_all_of_a_project_meets_every_plan_and_every_commit_there_and_no_other() -> None:
    found = {name: outcomes.footprints_meet(outcomes.footprint_of_all("p"), facts) for name, facts in FACTS.items()}
    assert [name for name, is_met in found.items() if is_met] == ["a plan of a project", "a commit to a project"]


@pytest.mark.parametrize("other", [EVERYTHING, outcomes.footprint_of("p", [ONE])])
def test_everything_meets_whatever_there_is(other: bytes) -> None:
    assert outcomes.footprints_meet(EVERYTHING, other)
    assert outcomes.footprints_meet(other, EVERYTHING)


def test_nothing_at_all_is_everything() -> None:
    assert outcomes.footprint_of("p", []) == EVERYTHING


def test_order_does_not_matter() -> None:
    assert outcomes.footprint_of("p", [ONE, OTHER]) == outcomes.footprint_of("p", [OTHER, ONE])


def test_a_name_that_is_no_text_has_a_footprint_too() -> None:
    """A document's name may hold half a character, as JSON can write it; it is refused elsewhere."""
    assert outcomes.footprints_meet(
        outcomes.footprint_of("p", [Key("Source", "\ud800")]), outcomes.footprint_of("p", [Key("Source", "\ud800")])
    )


def test_two_processes_agree() -> None:
    """Though each has a seed of its own for the hashes of text."""
    told = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env={"PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        ).stdout
        for seed in ("1", "2")
    }
    mine = outcomes.footprint_of("p", [Key("Destination", "ö")], ids=["id"], targets=[Key("Source", "s")], owners=["r"])
    assert told == {f"{mine.hex()}\n"}


def test_the_first_and_the_last_of_many_are_found() -> None:
    keys = [Key("Destination", f"d-{number}") for number in range(1_000)]
    many = outcomes.footprint_of("p", keys)
    assert all(outcomes.footprints_meet(many, outcomes.footprint_of("p", [key])) for key in keys)
    assert not any(outcomes.footprints_meet(many, outcomes.footprint_of("q", [key])) for key in keys)
