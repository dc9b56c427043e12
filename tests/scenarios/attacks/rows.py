"""The attack table: every row, from the modules that are named after what the attacker holds or aims at."""

from tests.scenarios.attacks import (
    endpoints,
    in_files,
    on_the_network,
    proposing,
    pushing,
    secret_references,
    with_a_key,
    with_records,
    with_roles,
)
from tests.scenarios.attacks.table import Attack

ATTACKS: tuple[Attack, ...] = (
    *with_a_key.ATTACKS,
    *with_roles.ATTACKS,
    *with_records.ATTACKS,
    *secret_references.ATTACKS,
    *endpoints.ATTACKS,
    *pushing.ATTACKS,
    *proposing.ATTACKS,
    *on_the_network.ATTACKS,
    *in_files.ATTACKS,
)
