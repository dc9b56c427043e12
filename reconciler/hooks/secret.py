"""The file with the secret that a forge signs its deliveries with: read for each delivery, so that a new one counts at
once.

Belongs here: what makes a secret. Does not: opening the file safely (`regular_files`), signatures (`signatures`).
"""

from pathlib import Path

from reconciler.hooks.signatures import STANDARD_PREFIX
from reconciler.settings import bounded_io
from reconciler.settings.bounded_io import FileTooLarge, NotAFile

MOST_BYTES = 64 * 1024
FEWEST_CHARACTERS = 16  # whoever sees one delivery can try out shorter ones at home


class UnusableSecret(Exception):
    """There is no secret in the file; why, in words that follow the file's name, and hold nothing of what is in it."""


def read_secret(path: Path) -> bytes:
    """What the file holds, without one line end behind it. Raises Unusable."""
    try:
        return _checked(bounded_io.read_file(path, limit=MOST_BYTES))
    except OSError as error:
        raise UnusableSecret(f"cannot be read ({error.strerror})") from None
    except NotAFile:
        raise UnusableSecret("is not a file") from None
    except FileTooLarge:
        raise UnusableSecret(f"is larger than {MOST_BYTES // 1024} KiB") from None


def _checked(data: bytes) -> bytes:
    secret = data.removesuffix(b"\n").removesuffix(b"\r") if data.endswith(b"\n") else data
    if len(secret.removeprefix(STANDARD_PREFIX)) < FEWEST_CHARACTERS:
        raise UnusableSecret(f"holds fewer than {FEWEST_CHARACTERS} characters")
    if b"\n" in secret:
        raise UnusableSecret("holds more than one line")
    return secret
