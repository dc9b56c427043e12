"""What `status.delivery` of Configurations says once a change is made.

Belongs here: finding the Configurations that a change concerns, and what they name. Does not: what delivers
(`routing.compiling`), whether something is incomplete (`dependants`), which asks here afterwards.

A component concerns the Configurations that use it only when that changes of it which decides whether they deliver: its
type, whether it is disabled, its processors. So another password of a destination costs nothing here, however many
name it.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress

from reconciler.deciding import stored_secrets
from reconciler.documents.values import Value
from reconciler.resources import builtins, components, drafts
from reconciler.resources.drafts import Draft
from reconciler.resources.keys import Key
from reconciler.routing import compiling, parts
from reconciler.routing.parts import Part
from reconciler.store.contract import Damaged
from reconciler.store.planning_view import BATCH, PlanningView, StoredDocument


class Delivering:
    """Answers for one change that stores `written`, inside one snapshot of the store."""

    def __init__(self, view: PlanningView, *, project: str, written: Mapping[Key, Draft]) -> None:
        self._view = view
        self._project = project
        self._written = written
        self._parts: dict[Key, Part | None] = {}

    def reason(self, name: str, spec: Value, *, ready: bool) -> str:
        """Why the Configuration of this name does not deliver, '' when it does."""
        return compiling.verdict(name, spec, ready=ready, known=self._part).reason

    def concerned(self) -> Iterator[tuple[Key, StoredDocument]]:
        """The stored Configurations, none of those that are written, that may have another answer than before."""
        changed = self._changed()
        users = self._users(changed)
        # A processor may be named by a component that a Configuration names.
        users |= self._users([key for key in users if key.kind in components.KINDS])
        keys = sorted(key for key in users - self._written.keys() if key.kind == "Configuration")
        for start in range(0, len(keys), BATCH):
            yield from sorted(self._view.documents(self._project, keys[start : start + BATCH]).items())

    def _changed(self) -> list[Key]:
        """The components whose part is another one than before."""
        keys = [key for key in self._written if key.kind in components.KINDS]
        return [
            key
            for start in range(0, len(keys), BATCH)
            for key, stored in self._view.documents(self._project, keys[start : start + BATCH]).items()
            if _stored_part(key, stored) != self._part(key)
        ]

    def _users(self, targets: Collection[Key]) -> set[Key]:
        if not targets:
            return set()
        return {user for found in self._view.referrers(self._project, targets).values() for user in found}

    def _part(self, key: Key) -> Part | None:
        """A component as it will be, read once."""
        if key not in self._parts:
            self._parts[key] = self._found(key)
        return self._parts[key]

    def _found(self, key: Key) -> Part | None:
        if key in self._written:
            return parts.part(drafts.owned(self._written[key])["spec"])
        stored = self._view.documents(self._project, [key]).get(key)
        if stored is not None:
            return _stored_part(key, stored)
        built_in = builtins.built_in().get(key)
        return None if built_in is None else parts.part(built_in["spec"])


def _stored_part(key: Key, stored: StoredDocument) -> Part | None:
    with suppress(Damaged):
        return parts.part(stored_secrets.masked(key, stored)["spec"])
    return None
