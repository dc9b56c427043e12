"""Every promise of `reconciler.store.contract`, as tests that each engine runs.

An engine's test module holds `class Test<Engine>(StoreContract)` with a fixture `engine` (see `engines.Engine`). What
only SQLite does is not here.
"""

from tests.store.contract_access import AccessPromises
from tests.store.contract_attention import AttentionPromises
from tests.store.contract_audit import AuditPromises
from tests.store.contract_commits import CommitPromises
from tests.store.contract_damage import DamagePromises
from tests.store.contract_lineages import LineagePromises
from tests.store.contract_operations import OperationsPromises
from tests.store.contract_processes import ProcessPromises
from tests.store.contract_prunes import PrunePromises
from tests.store.contract_reads import ReadPromises
from tests.store.contract_redactions import RedactionPromises
from tests.store.contract_references import ReferencePromises
from tests.store.contract_renderings import RenderingPromises
from tests.store.contract_statuses import StatusPromises
from tests.store.contract_subscriptions import SubscriptionPromises
from tests.store.contract_suspensions import SuspensionPromises
from tests.store.contract_views import ViewPromises


class StoreContract(
    CommitPromises,
    ReadPromises,
    ReferencePromises,
    AttentionPromises,
    StatusPromises,
    PrunePromises,
    SuspensionPromises,
    LineagePromises,
    AccessPromises,
    AuditPromises,
    RedactionPromises,
    RenderingPromises,
    DamagePromises,
    OperationsPromises,
    SubscriptionPromises,
    ViewPromises,
    ProcessPromises,
):
    """All of them."""
