"""The store follows from the heads: neither how files hold their documents nor what was before matters."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests import worlds
from tests.scenarios.properties import documents
from tests.scenarios.properties.documents import BASE, Document
from tests.scenarios.properties.profiles import profiles
from tests.worlds import Following, World

FILES = [*documents.FILES, "z.yaml"]
LOST = {"source", "drift"}


@st.composite
def spread(draw: st.DrawFn, found: Sequence[Document]) -> dict[str, list[Document]]:
    """These documents in any files, in any order."""
    files: dict[str, list[Document]] = {}
    for one in draw(st.permutations(found)):
        files.setdefault(draw(st.sampled_from(FILES)), []).append(one)
    return files


@st.composite
def twice_spread(draw: st.DrawFn) -> tuple[dict[str, list[Document]], dict[str, list[Document]]]:
    """The same documents in other files."""
    base = [one for content in BASE.values() for one in content]
    found = draw(st.lists(documents.DOCUMENTS, min_size=1, max_size=6)) + draw(
        st.lists(st.sampled_from(base), unique_by=str)
    )
    return draw(spread(found)), draw(spread(found))


@st.composite
def heads(draw: st.DrawFn) -> dict[str, dict[str, list[Document]]]:
    """Return what two repositories hold: no document twice, and none that something keeps."""
    base = [one for content in BASE.values() for one in content]
    changed = draw(st.lists(documents.DOCUMENTS, max_size=6))
    by_key = {str((one["kind"], one["metadata"].get("name"))): one for one in [*base, *changed] if not _keeps(one)}
    found = [by_key[key] for key in sorted(by_key)]
    a = draw(st.lists(st.sampled_from(found), unique_by=str))
    return {"a": draw(spread(a)), "b": draw(spread([one for one in found if one not in a]))}


def _keeps(one: Document) -> bool:
    metadata = one["metadata"]
    return "id" in metadata or "service/prune" in metadata.get("labels", {})


@profiles
def test_how_documents_are_spread_over_files_changes_neither_a_status_nor_what_is_stored(profile: settings) -> None:
    profile(spread_differently)()


@given(before=heads(), spread=twice_spread(), following=st.builds(Following, accept_invalid=st.booleans()))
def spread_differently(before: dict[str, Any], spread: tuple[Any, Any], following: Following) -> None:
    one, other = (_after([before["a"], files], following) for files in spread)
    assume(one is not None and other is not None)
    assert one == other


def _after(trees: Sequence[Mapping[str, list[Document]]], following: Following) -> tuple[Any, Any] | None:
    """Statuses and what is stored; None where a deletion waits for its own file, which depends on what is in which."""
    with worlds.world({"a": following}) as world:
        ran = None
        for tree in trees:
            world.push("a", {path: documents.text(content) for path, content in tree.items()})
            ran = world.look("a")
        assert ran is not None
        if world.all("select * from held where why = 'held'"):
            return None
        return Counter((told.kind, told.name, told.status) for told in ran.told), _stored(world)


@profiles
def test_an_empty_store_and_the_heads_give_what_an_old_store_and_the_heads_give(profile: settings) -> None:
    profile(after_any_history)()


@given(history=st.lists(heads(), min_size=1, max_size=3), last=heads())
def after_any_history(history: list[dict[str, Any]], last: dict[str, Any]) -> None:
    following = {"a": Following(), "b": Following()}
    with worlds.world(following) as fresh, worlds.world(following) as old:
        _push(fresh, last)
        assume(_is_whole(fresh))
        for heads in [*history, last]:
            _push(old, heads)
        assume(not old.all("select * from held"))
        assert _stored(old, owned=True) == _stored(fresh, owned=True)


def _push(world: World, heads: Mapping[str, Mapping[str, list[Document]]]) -> None:
    for name, tree in heads.items():
        world.push(name, {path: documents.text(content) for path, content in tree.items()})
    world.settle()


def _is_whole(world: World) -> bool:
    """Everything that the heads hold is stored, and no head is empty."""
    return not world.all("select * from wanted where unconverged is not null") and not worlds.is_held(world)


def _stored(world: World, *, owned: bool = False) -> list[dict[str, Any]]:
    """Return what is stored, apart from ids, versions and dates; `owned`: and where it stands."""
    found = []
    for row in world.stored():
        status = {key: value for key, value in json.loads(row["status"]).items() if key not in LOST}
        kept = (
            "kind",
            "name",
            "digest",
            "owner",
            "protected",
            "incomplete",
            "drifted",
            *(("path", "line") if owned else ()),
        )
        found.append({**{key: row[key] for key in kept}, "status": status})
    return found
