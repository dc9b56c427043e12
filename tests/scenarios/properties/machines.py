"""A machine that does at random what people do to repositories and to the API, and lets the daemon look now and then.

Belongs here: what may happen, in any order. Does not: what must hold; each property says that in a subclass.
"""

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests import worlds
from tests.scenarios.properties import documents
from tests.scenarios.properties.documents import Content, Document
from tests.worlds import Answered, Following, Options

NAMES = st.sampled_from(["a", "b"])
FOLLOWING = st.builds(Following, accept_invalid=st.booleans(), atomic=st.sampled_from([False, False, False, True]))
GLOBS = st.lists(st.sampled_from(["a.yaml", "/a.yaml", "*.yml", "d/", "d/**", "d/*", "**/e", "[ab].yaml"]), max_size=2)


class Planning(RuleBasedStateMachine):
    """Two repositories and the API feed one project."""

    def __init__(self) -> None:
        super().__init__()
        self._closing = contextlib.ExitStack()
        self.trees: dict[str, dict[str, Content]] = {"a": {}, "b": {}}

    @initialize(a=FOLLOWING, b=FOLLOWING, first=documents.FIRST)
    def begin(self, a: Following, b: Following, first: Mapping[str, Mapping[str, Content]]) -> None:
        folder = self._closing.enter_context(tempfile.TemporaryDirectory())
        self.world = worlds.make(Path(folder), {"a": a, "b": b})
        self._closing.callback(self.world.kept.close)
        for name, tree in first.items():
            if name == documents.API:
                self.world.apply([one for content in tree.values() for one in content])
                continue
            self.trees[name] = {
                path: content if isinstance(content, str) else list(content) for path, content in tree.items()
            }
            self._push(name)
        self.world.settle()

    @rule(
        name=NAMES,
        found=st.lists(documents.DOCUMENTS, min_size=1, max_size=3),
        path=st.sampled_from(documents.FILES),
        looks=st.booleans(),
    )
    def write(self, name: str, found: Sequence[Document], path: str, *, looks: bool) -> None:
        """A commit that changes documents where they stand, or adds them to a file."""
        for one in found:
            self._write(name, one, path)
        self._push(name)
        if looks:
            self.world.look(name)
            self.stored()

    @rule(name=NAMES, one=documents.DOCUMENTS)
    def remove(self, name: str, one: Document) -> None:
        """A commit that takes a document away."""
        for path, content in self.trees[name].items():
            if not isinstance(content, str):
                self.trees[name][path] = [each for each in content if _key(each) != _key(one)]
        self.trees[name] = {path: content for path, content in self.trees[name].items() if content}
        self._push(name)

    @rule(one=documents.DOCUMENTS)
    def hand_over(self, one: Document) -> None:
        """A document that stands in one repository moves to the other; who looks first is open."""
        for name, other in (("a", "b"), ("b", "a")):
            for content in self.trees[name].values():
                found = [] if isinstance(content, str) else [each for each in content if _key(each) == _key(one)]
                if found:
                    self._write(other, found[0], "b.yaml")
                    self._push(other)
                    self.remove(name, one)
                    return

    @rule(name=NAMES, edit=documents.EDITS)
    def push(self, name: str, edit: dict[str, Content | None]) -> None:
        """A commit that writes and removes files."""
        tree = self.trees[name]
        for path, content in edit.items():
            if content is None:
                tree.pop(path, None)
            else:
                tree[path] = content if isinstance(content, str) else list(content)
        self._push(name)

    @rule(
        name=NAMES,
        old=st.sampled_from(documents.FILES),
        new=st.sampled_from(documents.FILES),
        what=st.sampled_from(["rename", "copy", "move one", "swap"]),
    )
    def move(self, name: str, old: str, new: str, what: str) -> None:
        """A commit that renames a file over another one, or brings its first document to another file as well or
        instead, or lets two files trade places.
        """
        tree = self.trees[name]
        there, other = tree.get(old), tree.get(new, [])
        if there is None or old == new:
            return
        if what == "rename":
            tree[new] = tree.pop(old)
        elif what == "swap":
            tree[new], tree[old] = there, other
        elif not isinstance(there, str) and not isinstance(other, str):
            tree[new] = [*other, *there[:1]]
            tree[old] = there if what == "copy" else there[1:]
        self._push(name)

    @rule(sent=st.lists(documents.SENT, min_size=1, max_size=5), options=documents.OPTIONS)
    def apply(self, sent: Sequence[Document], options: Options) -> None:
        self.applied(sent, options)

    @rule(keys=st.lists(documents.KEYS, min_size=1, max_size=4), options=documents.OPTIONS)
    def delete(self, keys: Sequence[Document], options: Options) -> None:
        self.deleted(keys, options)

    @rule(name=NAMES, include=st.just([]) | GLOBS, exclude=GLOBS, looks=st.booleans())
    def choose(self, name: str, include: list[str], exclude: list[str], *, looks: bool) -> None:
        """Other files count from the next look on."""
        if name in self.world.heads:
            before = self.world.following[name]
            self.world.follow(name, replace(before, include=tuple(include), exclude=tuple(exclude)))
        if looks:
            self.world.look(name)
            self.stored()

    @rule(name=NAMES, happens=st.sampled_from(["look", "look", "read all", "restart"]))
    def go_on(self, name: str, happens: str) -> None:
        """The daemon looks at a repository if that is due, or reads it whole, or is started anew."""
        if happens == "restart":
            self.world.restart()
        elif happens == "look":
            self.world.look(name)
        elif name in self.world.heads:
            self.world.read_all(name)
        self.stored()

    @rule()
    def settle(self) -> None:
        """The daemon has time for everything."""
        self.world.settle()
        self.stored()
        self.settled()

    def teardown(self) -> None:
        with self._closing:
            if hasattr(self, "world"):
                self.settle()

    def _write(self, name: str, one: Document, path: str) -> None:
        tree = self.trees[name]
        for content in tree.values():
            for position, each in enumerate([] if isinstance(content, str) else content):
                if _key(each) == _key(one):
                    assert isinstance(content, list)
                    content[position] = one
                    return
        content = tree.get(path, [])
        tree[path] = [one] if isinstance(content, str) else [*content, one]

    def _push(self, name: str) -> None:
        self.world.push(name, {path: documents.text(content) for path, content in self.trees[name].items()})

    # What a property adds

    def applied(self, sent: Sequence[Document], options: Options) -> None:
        """Somebody applies these."""
        self.answered(self.world.apply(sent, options))
        self.stored()

    def deleted(self, keys: Sequence[Document], options: Options) -> None:
        """Somebody deletes these."""
        self.answered(self.world.delete(keys, options))
        self.stored()

    def answered(self, answered: Answered) -> None:
        """A request was answered."""

    def stored(self) -> None:
        """Something may have been stored."""

    def settled(self) -> None:
        """Nothing is due."""


def _key(one: Document) -> tuple[str, str | None]:
    return one["kind"], one["metadata"].get("name")
