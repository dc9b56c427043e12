"""Entries of one repository: the plan without a server, those with one and the run after the merge say the same."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from hypothesis import event, given, settings
from hypothesis import strategies as st
from msgspec import structs

from reconciler.git import merging
from reconciler.git.snapshots import Snapshot
from reconciler.model.flows import Flow
from reconciler.model.plan import PlanEntry
from reconciler.model.secret_references import DEFAULT_PATTERNS, own_patterns
from reconciler.review import static
from reconciler.store.records import Changes
from reconciler.worker import commits
from reconciler.worker.trees import Allowance
from tests import worlds
from tests.commit_jobs import finished
from tests.scenarios.properties import documents
from tests.scenarios.properties.documents import Document, document
from tests.scenarios.properties.profiles import profiles
from tests.scenarios.properties.test_static_entries import ENTRIES, FOLLOWING, NAMES, documents_of_git
from tests.scenarios.properties.test_static_plans import NOW, WHOLE
from tests.worlds import API_VERSIONS, World

Tree: TypeAlias = dict[str, list[Document]]
Told: TypeAlias = tuple[str | None, str | None, str, str | None]
FILES = {name: [f"{name}/one.yaml", f"{name}/two.yaml"] for name in NAMES}
KEPT: Tree = {f"{name}/kept.yaml": [document("Fleet", name, {})] for name in NAMES}  # no tree is empty
SECRETS = replace(worlds.SECRETS, patterns=own_patterns(DEFAULT_PATTERNS, "default"))  # as a service has them
FEWEST = 40  # examples; the flows of one in eight change


class Said(NamedTuple):
    """The statuses and flows that a plan or a run reports for an entry, without `unchanged`."""

    statuses: list[Told]
    flows: list[Flow]


class Edit(NamedTuple):
    """A document is written where it stands, or into this file; or it is `added` once more, or `removed`."""

    path: str
    document: Document
    how: str


def _webhook(name: str, host: str = "siem.example.com", **more: Any) -> Document:
    spec = {"type": "webhook", "parameters": [{"name": "hostname", "value": host}], **more}
    return document("Destination", name, spec)


def _delivering(*destinations: str, **more: Any) -> Document:
    named = [{"name": one} for one in destinations]
    return document("Configuration", "c1", {"sources": [{"type": "otlp"}], "destinations": named, **more})


DELIVERY = [
    _webhook("d1"),
    _webhook("d1", "other.example.com"),
    _webhook("d1", disabled=True),
    _webhook("d2"),
    _webhook("d2", processors=[{"name": "p1"}]),
    document("Processor", "p1", {"type": "custom"}),
    document("Processor", "p1", {"type": "custom", "disabled": True}),
    _delivering("d1"),
    _delivering("d1", "d2"),
    _delivering("d2", processors=[{"name": "p1"}]),
    _delivering("d1", selector={"matchLabels": {"team": "a"}}),
]
FIRST: list[Tree] = [
    {},
    {"a/one.yaml": [_webhook("d1")], "b/one.yaml": [_delivering("d1")]},
    {"a/one.yaml": [_delivering("d1", "d2")], "b/one.yaml": [_webhook("d1")], "b/two.yaml": [_webhook("d2")]},
]
"""The first documents of a base. A Configuration and its destinations are in different entries."""


@st.composite
def proposals(draw: st.DrawFn) -> tuple[Tree, Tree]:
    """A base, and a head that changes one folder or both."""
    before = _shared_out(_edited(draw(st.sampled_from(FIRST)), draw(edits(NAMES, least=0))))
    changing = draw(st.sampled_from([NAMES[:1], NAMES[1:], NAMES]))
    after = _edited(before, draw(edits(changing, least=3)))
    return _filled(before), _filled(after)


def edits(folders: Sequence[str], *, least: int) -> st.SearchStrategy[list[Edit]]:
    """So many edits of these folders, or some more."""
    paths = [path for name in folders for path in FILES[name]]
    written = st.sampled_from(DELIVERY) | documents_of_git()
    how = st.sampled_from(["written", "written", "written", "removed", "removed", "added"])
    return st.lists(st.builds(Edit, st.sampled_from(paths), written, how), min_size=least, max_size=6)


def _edited(tree: Tree, edits: Iterable[Edit]) -> Tree:
    edited = {path: list(content) for path, content in tree.items()}
    for edit in edits:
        folder = edit.path[:2]
        stands = [
            path
            for path, content in edited.items()
            if path.startswith(folder) and any(_key(one) == _key(edit.document) for one in content)
        ]
        if edit.how != "added":
            for path in stands:
                edited[path] = [one for one in edited[path] if _key(one) != _key(edit.document)]
        if edit.how != "removed":
            path = edit.path if edit.how == "added" or not stands else stands[0]
            edited.setdefault(path, []).append(edit.document)
    return edited


def _shared_out(tree: Tree) -> Tree:
    """No resource is in both folders: whose it is would depend on the order in which they were read at first."""
    held = {_key(one) for path, content in tree.items() if path.startswith("a/") for one in content}
    return {
        path: [one for one in content if path.startswith("a/") or _key(one) not in held]
        for path, content in tree.items()
    }


def _filled(tree: Tree) -> Tree:
    """No tree is empty, and no file."""
    return {**KEPT, **{path: content for path, content in tree.items() if content}}


def _key(one: Document) -> tuple[str, str | None]:
    return one["kind"], one["metadata"].get("name")


@profiles
def test_all_three_say_the_same(profile: settings) -> None:
    settings(profile, max_examples=max(FEWEST, profile.max_examples))(planned_and_run)()


@given(proposal=proposals())
def planned_and_run(proposal: tuple[Tree, Tree]) -> None:
    before, after = proposal
    with worlds.world(FOLLOWING) as world:
        world.secrets = SECRETS
        base = _push(world, before)
        world.settle()
        head = world.mirrors["a"].propose(_texts(after), onto=base)
        planned = _planned(world, base, head)
        alone = {name: _of_plan(world.review(name, head)) for name in NAMES}
        standing = _run(world, full=True)
        _push(world, after)
        ran = _run(world, full=False)
        assert _statuses(planned) == _statuses(ran)
        assert _flows(planned) == _flows(ran)
        others = {name for name in NAMES if _folder(before, name) == _folder(after, name)}
        # A server plans each entry by itself: what it does to one that another changes as well, it cannot say.
        if others and all(standing[name].statuses == ran[name].statuses for name in others):
            event("with a server")
            assert _statuses(alone) == _statuses(ran)
            assert _flows(alone) == _flows(ran)
        event("flows" if _flows(ran) else "no flows")


def _push(world: World, tree: Tree) -> str:
    """One commit of the repository that both entries follow."""
    world.mirrors["b"] = world.mirrors["a"]
    world.heads["b"] = world.push("a", _texts(tree))
    world.due.add("b")
    return world.heads["b"]


def _texts(tree: Tree) -> dict[str, str]:
    return {path: documents.text(content) for path, content in tree.items()}


def _folder(tree: Tree, name: str) -> Tree:
    return {path: content for path, content in tree.items() if path.startswith(f"{name}/")}


def _planned(world: World, base: str, head: str) -> dict[str, Said]:
    with merging.open_mirrors(world.mirrors["a"].path, None) as repository:
        merged = merging.merge(repository, base, head)
        planned = static.plan_static(merged, ENTRIES, api_versions=API_VERSIONS, now=NOW, options=WHOLE)
        return {one.name: _of_plan(one) for one in planned}


def _of_plan(entry: PlanEntry) -> Said:
    # A run does not list what it holds back.
    told = [(one.kind, one.name, one.status.value, one.reason) for one in entry.statuses if not one.held]
    return Said(sorted(told, key=repr), list(entry.flows))


def _run(world: World, *, full: bool) -> dict[str, Said]:
    """Have a service plan the newest commit for both entries as one change, and store nothing. Return its report."""
    jobs = [structs.replace(world.commit_job(name, full=full), run=name, neighbours=()) for name in NAMES]
    job = structs.replace(jobs[0], beside=tuple(jobs[1:]))
    parts: list[Changes] = []
    with Snapshot.open(world.mirrors["a"].path, job.commit) as snapshot:
        steps = commits.plan_commit(job, snapshot, world.view, emit=parts.append, allowance=Allowance())
        first = finished(steps)
    found: dict[str, Said] = {}
    for name, planned in zip(NAMES, (first, *first.beside), strict=True):
        rows = [row for part in parts for row in part.statuses if row.run == name]
        told = [(row.kind, row.name, row.status, row.reason) for row in rows]
        found[name] = Said(sorted(told, key=repr), list(planned.flows))
    return found


def _statuses(said: Mapping[str, Said]) -> dict[str, list[Told]]:
    return {name: one.statuses for name, one in said.items()}


def _flows(said: Mapping[str, Said]) -> list[Flow]:
    """Return those of all entries: a run tells a flow with the entry that changes it, a plan with the one that holds
    the Configuration.
    """
    return sorted((flow for one in said.values() for flow in one.flows), key=repr)
