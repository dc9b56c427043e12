"""Every promise of `reconciler.store.contract`, as tests that each engine runs.

An engine's test module holds `class Test<Engine>(StoreContract)` with a fixture `engine` (see `engines.Engine`). What
only SQLite does is not here.
"""

from tests.store.contract_commits import CommitPromises
from tests.store.contract_processes import ProcessPromises
from tests.store.contract_reads import ReadPromises


class StoreContract(CommitPromises, ReadPromises, ProcessPromises):
    """All of them."""
