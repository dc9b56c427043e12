"""A watched repository as people and programs see it.

What was stored is read from the store: whoever saw a run's end there sees what it did to its repository, too. What the
last look told and could not be written, since the disk is full for instance, comes from memory.
"""

import msgspec

from reconciler.git.faults import RepositoryState
from reconciler.reconciling import approving, suspending
from reconciler.reconciling.reconciler import Reconciler
from reconciler.store.contract import Store

HELD_SHOWN = 100  # resources whose deletion is held


async def shown_repository(reconciler: Reconciler, store: Store) -> bytes:
    """The repository as a JSON object. Raises StoreFault."""
    one = reconciler.watched
    remembered = await store.remembered(one.name, held=HELD_SHOWN)
    row = remembered.row
    told = reconciler.unwritten or row
    drift = None if remembered.suspension is None else await store.drift(one.name, project=one.project)
    return msgspec.json.encode(
        {
            "name": one.name,
            "project": one.project,
            "url": one.url,
            "branch": one.branch,
            "follows": {"kind": one.follows.kind, "name": one.follows.name},
            "path": one.path,
            "state": RepositoryState.NEVER_READ if told is None else told.state,
            "message": None if told is None else told.message,
            "since": None if told is None else told.since,
            "commit": None if row is None else row.commit,
            "head": reconciler.seen or (None if row is None else row.head),
            "lastRun": remembered.last_run,
            "suspension": suspending.shown_suspension(remembered.suspension),
            "drift": drift,
            "held": approving.shown_approval(row, remembered.held),
        }
    )
