"""The shape of a row of the attack table, and what an attacker may hold."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from tests.scenarios.attacks.scene import Scene


class Holds(StrEnum):
    """The access that the attacker has."""

    KEY = "a key of role user"
    PUSH = "the right to push to one repository"
    PROPOSE = "the right to propose a branch, and a key of role viewer"
    NETWORK = "the network, without a key"
    FILES = "the file system of the secrets, or of the watched repository"
    ENDPOINT = "the receiver of a delivery, or a name server"
    SETTINGS = "words that end up in the settings"


Attempt: TypeAlias = Callable[[Scene], str]


@dataclass(frozen=True, slots=True)
class Attack:
    """One attempt on the scene, and all that the attacker gets to read: in full, or by a pattern of the whole of it."""

    name: str
    holds: Holds
    attempt: Attempt
    answer: str | re.Pattern[str]

    def is_answered_by(self, found: str) -> bool:
        """Return True when this is what the attacker was to get."""
        return found == self.answer if isinstance(self.answer, str) else self.answer.fullmatch(found) is not None
