"""Git and the API write in any order; the daemon looks when something says so."""

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.scenarios.properties import checks, masking
from tests.scenarios.properties.machines import Planning
from tests.scenarios.properties.profiles import profiles
from tests.worlds import Answered, Ran


class Incremental(Planning):
    """Reading what changed ends where reading everything does."""

    def settled(self) -> None:
        for name in sorted(self.world.heads):
            again, full = self.world.plan(name, full=False), self.world.plan(name, full=True)
            assert (again.changes, full.changes) == ([], []), "there is something to change"
            assert again.told == full.told
            assert (again.planned.refused, again.planned.hold) == (full.planned.refused, full.planned.hold)
            if not full.planned.refused:
                self._has_index(name, full)

    def _has_index(self, name: str, full: Ran) -> None:
        """Return what is remembered of the files; why one holds nothing follows from what it held when it was read."""
        files = sorted((row.path, row.blob) for part in full.parts for row in part.files)
        assert self._rows("select path, blob from source_file where repository = ?", name) == files
        wanted = sorted(
            ((row.path, row.position, row.kind, row.name, row.digest) for part in full.parts for row in part.wanted),
            key=repr,
        )
        assert self._rows("select path, position, kind, name, digest from wanted where repository = ?", name) == wanted

    def _rows(self, statement: str, name: str) -> list[tuple[object, ...]]:
        return sorted((tuple(row.values()) for row in self.world.all(statement, name)), key=repr)


class Fresh(Planning):
    """A fresh read of everything, in any order, changes nothing."""

    def settled(self) -> None:
        before = self.world.stored()
        for backwards in (False, True):
            with self.world.fork() as other:
                for name in sorted(other.heads, reverse=backwards):
                    other.read_all(name)
                other.settle()
                assert other.stored() == before


class Consistent(Planning):
    """The store is consistent after every change, and shows no secret."""

    def answered(self, answered: Answered) -> None:
        assert b"canary" not in answered.planned.answer

    def stored(self) -> None:
        checks.consistent(self.world)
        checks.no_canary(self.world)
        masking.masked(self.world)


@profiles
def test_reading_what_changed_ends_where_reading_everything_does(profile: settings) -> None:
    run_state_machine_as_test(Incremental, settings=profile)


@profiles
def test_any_interleaving_ends_where_a_fresh_read_of_everything_does(profile: settings) -> None:
    run_state_machine_as_test(Fresh, settings=profile)


@profiles
def test_what_is_stored_is_consistent_after_every_change(profile: settings) -> None:
    run_state_machine_as_test(Consistent, settings=profile)
