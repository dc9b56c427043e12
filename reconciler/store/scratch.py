"""A store for one plan without a server: filled from a commit, planned against, and thrown away."""

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

from reconciler.store import commit as commits
from reconciler.store import database
from reconciler.store.contract import PlanningView
from reconciler.store.planning_view import SqlitePlanningView
from reconciler.store.records import Changes, Record


class ScratchStore:
    """Its writes are synchronous, and lost with the process."""

    def __init__(self, path: Path) -> None:
        """Make the file. Raises StoreFault."""
        self.address = str(path)
        self._writer = database.open_writer(path)
        self._writer.execute("pragma synchronous = off")
        database.migrate(self._writer, steps=database.migrations())
        (key,) = self._writer.execute(database.load_queries()["hmac_key"]).fetchone()
        self.hmac_key = bytes(key)
        self.view: PlanningView = SqlitePlanningView.open(path)

    def create_project(self, name: str, *, at: str) -> None:
        """Make sure that a project exists."""
        self._writer.execute(database.load_queries()["put_project"], (name, at))

    def commit(self, parts: Iterable[Changes], *, record: Record) -> None:
        """As `Store.commit`."""
        commits.commit(self._writer, parts, record=record)

    def close(self) -> None:
        """Close its connections."""
        self.view.close()
        self._writer.close()


@contextlib.contextmanager
def open_scratch() -> Iterator[ScratchStore]:
    """Make a store in a temporary folder, which only its owner may read, since commits hold secrets too."""
    with (
        tempfile.TemporaryDirectory(prefix="reconciler-plan-") as folder,
        closing(ScratchStore(Path(folder) / "store.db")) as opened,
    ):
        yield opened
