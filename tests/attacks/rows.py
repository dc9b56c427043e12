"""The attack table: every row, from the modules that are named after what the attacker holds or aims at."""

from tests.attacks import endpoints, in_files, on_the_network, pushing, secret_references, with_a_key, with_roles
from tests.attacks.table import Attack

ATTACKS: tuple[Attack, ...] = (
    *with_a_key.ATTACKS,
    *with_roles.ATTACKS,
    *secret_references.ATTACKS,
    *endpoints.ATTACKS,
    *pushing.ATTACKS,
    *on_the_network.ATTACKS,
    *in_files.ATTACKS,
)
