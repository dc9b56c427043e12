"""Passwords: argon2id hashes, made and compared. The only module that knows the library.

Belongs here: what takes tens of milliseconds of a processor, so callers run it off the loop. Does not: who signs in
(`signing_in`).

The library is loaded with the first password: a service that keys alone ask never pays for it.
"""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argon2 import PasswordHasher


@cache
def _hasher() -> "PasswordHasher":
    from argon2 import PasswordHasher  # noqa: PLC0415 - see above

    # One of the settings that OWASP names as equal; the least memory among those with one lane, since several people
    # may sign in at once. About 25 ms.
    return PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


@cache
def unknown_person_hash() -> str:
    """Compared where there is no such person, so that it takes as long."""
    return _hasher().hash("nobody has this password", salt=bytes(16))


def encode_password(password: str) -> str:
    """The encoded hash to keep, with salt and cost in it."""
    return _hasher().hash(password)


def is_right_password(password: str, encoded: str) -> bool:
    """Whether this is the password; an encoding that is none is nobody's."""
    from argon2 import exceptions  # noqa: PLC0415 - see above

    try:
        return _hasher().verify(encoded, password)
    except (exceptions.VerificationError, exceptions.InvalidHashError):
        return False
