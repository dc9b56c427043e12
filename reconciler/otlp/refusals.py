"""Why a request is not taken, named by what its sender is answered.

Belongs here: the exceptions. Does not: finding what is wrong, the answers themselves (`answers`).
"""

from reconciler.model import errors


class MalformedRequest(errors.Refused):
    """It is not what its headers say: 400."""


class RequestTooLarge(errors.Refused):
    """It is over a limit, and would be in parts of it that are under: 413."""


class UnknownEncoding(errors.Refused):
    """Its Content-Encoding is none that the service reads: 415."""
