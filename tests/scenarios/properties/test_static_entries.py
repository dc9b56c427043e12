"""A plan of several entries without a server says what the service has stored once the merge is applied to all."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.git import merging
from reconciler.model.plan import PlanEntry
from reconciler.review import static
from reconciler.review.static import EntrySettings, StaticOptions
from tests import worlds
from tests.scenarios.properties import documents
from tests.scenarios.properties.documents import Content, Document
from tests.scenarios.properties.profiles import profiles
from tests.scenarios.properties.test_static_plans import NOW
from tests.worlds import API_VERSIONS, UNBOUNDED, Following, World

Tree = Mapping[str, Content]
NAMES = ("a", "b")
ENTRIES = [
    EntrySettings(name=name, include=(f"/{name}/",), prune_min_count=UNBOUNDED, prune_max_percent=100) for name in NAMES
]
FOLLOWING = {name: Following(include=(f"/{name}/",)) for name in NAMES}
REFUSED = {"invalid", "error", "forbidden", "in-use"}
FILES = [f"{name}/{path}" for name in NAMES for path in ("one.yaml", "two.yaml")]
ALWAYS: Tree = {f"{name}/kept.yaml": [documents.document("Fleet", name, {})] for name in NAMES}  # no tree is empty


def documents_of_git() -> st.SearchStrategy[Document]:
    """No ids and no protected resources: what becomes of two of them depends on which of two runs comes first."""

    def is_told(one: Document) -> bool:
        metadata = one.get("metadata", {})
        return "id" not in metadata and "service/prune" not in metadata.get("labels", {})

    return documents.DOCUMENTS.filter(is_told)


def trees() -> st.SearchStrategy[Tree]:
    # No file is empty: what that holds depends on which of two runs comes first.
    some = st.dictionaries(st.sampled_from(FILES), st.lists(documents_of_git(), min_size=1, max_size=3), max_size=4)
    return some.map(lambda found: {**ALWAYS, **found})


def _apart(tree: Tree) -> Tree:
    """Leave out of the second entry what the first has too.

    Which of them owns it before the change depends on which run could store it first, and both may drop it: then the
    file that is refused, so that nothing of it is deleted, is that of the owner.
    """
    shared = _keys(tree, "a/")
    left = {
        path: [one for one in content if isinstance(one, dict) and (path.startswith("a/") or _key(one) not in shared)]
        for path, content in tree.items()
    }
    return {path: content for path, content in left.items() if content}


@profiles
def test_entries_together_say_what_is_stored_in_the_end(profile: settings) -> None:
    profile(planned_and_settled)()


@given(before=trees().map(_apart), after=trees())
def planned_and_settled(before: Tree, after: Tree) -> None:
    with worlds.world(FOLLOWING) as world:
        base = _push(world, before)
        stored = _stored(world)
        head = world.mirrors["a"].propose(_texts(after), onto=base)
        planned = _planned(world, base, head)
        _push(world, after)
        told = {(one.kind, one.name, one.status) for name in NAMES for one in world.read_all(name).told}
        both = _keys(after, "a/") & _keys(after, "b/")  # another test says whose these are
        assert _refused(_statuses(planned)) - both == _refused(told) - both
        later = _stored(world)
        changed = {key for key in stored.keys() | later.keys() if stored.get(key) != later.get(key)}
        assert {(kind, name) for kind, name, status in _statuses(planned) if status not in REFUSED} == changed


def _refused(found: Iterable[tuple[str | None, str | None, str]]) -> set[tuple[str | None, str | None]]:
    """Return the resources that are not stored as their files say."""
    return {(kind, name) for kind, name, status in found if status in REFUSED}


def _keys(tree: Tree, folder: str) -> set[tuple[str | None, str | None]]:
    found = [one for path, content in tree.items() if path.startswith(folder) for one in content]
    return {_key(one) for one in found if isinstance(one, dict)}


def _key(one: Document) -> tuple[str | None, str | None]:
    return one["kind"], one["metadata"].get("name")


def _texts(tree: Tree) -> dict[str, str]:
    return {path: documents.text(content) for path, content in tree.items()}


def _push(world: World, tree: Tree) -> str:
    for name in NAMES:
        world.push(name, _texts(tree))
    world.settle()
    return world.heads["a"]


def _stored(world: World) -> dict[tuple[str, str], Any]:
    return {(row["kind"], row["name"]): row["digest"] for row in world.stored()}


def _planned(world: World, base: str, head: str) -> tuple[PlanEntry, ...]:
    options = StaticOptions(strict=True, whole=True)
    with merging.open_mirrors(world.mirrors["a"].path, None) as repository:
        merged = merging.merge(repository, base, head)
        return static.plan_static(merged, ENTRIES, api_versions=API_VERSIONS, now=NOW, options=options)


def _statuses(planned: tuple[PlanEntry, ...]) -> Iterator[tuple[str | None, str | None, str]]:
    for entry in planned:
        for one in entry.statuses:
            if not one.held:
                yield one.kind, one.name, one.status.value
