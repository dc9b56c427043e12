"""Footprints: the same facts are the same everywhere, others hardly ever, and looking for a few among many is cheap."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.planning import footprints
from reconciler.planning.footprints import EVERYTHING
from reconciler.resources.keys import Key

ONE, OTHER = Key("Destination", "one"), Key("Destination", "other")
KEYS = st.lists(st.builds(Key, st.sampled_from(["Source", "Destination"]), st.text(max_size=3)), max_size=8)
PROGRAM = """
from reconciler.planning import footprints
from reconciler.resources.keys import Key
print(footprints.of("p", [Key("Destination", "ö")], ids=["id"], targets=[Key("Source", "s")], owners=["r"]).hex())
"""


@given(st.sampled_from(["p", "q"]), KEYS, KEYS)
def test_two_footprints_meet_when_they_have_a_key_in_common(project: str, one: list[Key], other: list[Key]) -> None:
    mine, yours = footprints.of("p", one), footprints.of(project, other)
    is_shared = project == "p" and not set(one).isdisjoint(other)
    expected = is_shared or not one or not other  # of nothing it is of everything
    assert footprints.meets(mine, yours) is expected
    assert footprints.meets(yours, mine) is expected


FACTS = {
    "a key": footprints.of("p", [ONE]),
    "another key": footprints.of("p", [OTHER]),
    "a key of another kind": footprints.of("p", [Key("Source", "one")]),
    "a key of another project": footprints.of("q", [ONE]),
    "what refers to a key": footprints.of("p", [], targets=[ONE]),
    "what refers to another": footprints.of("p", [], targets=[OTHER]),
    "an id": footprints.of("p", [], ids=["one"]),
    "another id": footprints.of("p", [], ids=["other"]),
    "what a repository owns": footprints.of("p", [], owners=["one"]),
    "what another owns": footprints.of("p", [], owners=["other"]),
    "what is remembered of a repository": footprints.of("p", [], repositories=["one"]),
    "what is remembered of another": footprints.of("p", [], repositories=["other"]),
    "a plan of a project": footprints.of("p", [], whole=footprints.OF_PLAN),
    "a commit to a project": footprints.of("p", [], whole=footprints.OF_COMMIT),
    "a plan of another project": footprints.of("q", [], whole=footprints.OF_PLAN),
    "a commit to another project": footprints.of("q", [], whole=footprints.OF_COMMIT),
}


@pytest.mark.parametrize("one", FACTS)
@pytest.mark.parametrize("other", FACTS)
def test_facts_of_other_sorts_do_not_meet(one: str, other: str) -> None:
    assert footprints.meets(FACTS[one], FACTS[other]) is (one == other)


def test_what_a_repository_owns_is_the_same_fact_in_every_project() -> None:
    assert footprints.of("p", [], owners=["r"]) == footprints.of("q", [], owners=["r"])
    assert footprints.of("p", [], repositories=["r"]) == footprints.of("q", [], repositories=["r"])


def test_all_of_a_project_meets_every_plan_and_every_commit_there_and_no_other() -> None:
    found = {name: footprints.meets(footprints.of_all("p"), facts) for name, facts in FACTS.items()}
    assert [name for name, is_met in found.items() if is_met] == ["a plan of a project", "a commit to a project"]


@pytest.mark.parametrize("other", [EVERYTHING, footprints.of("p", [ONE])])
def test_everything_meets_whatever_there_is(other: bytes) -> None:
    assert footprints.meets(EVERYTHING, other)
    assert footprints.meets(other, EVERYTHING)


def test_nothing_at_all_is_everything() -> None:
    assert footprints.of("p", []) == EVERYTHING


def test_order_does_not_matter() -> None:
    assert footprints.of("p", [ONE, OTHER]) == footprints.of("p", [OTHER, ONE])


def test_a_name_that_is_no_text_has_a_footprint_too() -> None:
    """A document's name may hold half a character, as JSON can write it; it is refused elsewhere."""
    assert footprints.meets(
        footprints.of("p", [Key("Source", "\ud800")]), footprints.of("p", [Key("Source", "\ud800")])
    )


def test_two_processes_agree() -> None:
    """Though each has a seed of its own for the hashes of text."""
    told = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env={"PYTHONHASHSEED": seed}, check=True, capture_output=True, text=True
        ).stdout
        for seed in ("1", "2")
    }
    mine = footprints.of("p", [Key("Destination", "ö")], ids=["id"], targets=[Key("Source", "s")], owners=["r"])
    assert told == {f"{mine.hex()}\n"}


def test_the_first_and_the_last_of_many_are_found() -> None:
    keys = [Key("Destination", f"d-{number}") for number in range(1_000)]
    many = footprints.of("p", keys)
    assert all(footprints.meets(many, footprints.of("p", [key])) for key in keys)
    assert not any(footprints.meets(many, footprints.of("q", [key])) for key in keys)
