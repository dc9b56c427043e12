"""How often pages that cost something may be asked for from one address, by whoever is unknown.

Belongs here: which page has which pace. Does not: counting (`reconciler.auth.rate_limits`), passwords, whose failures are
counted by name as well (`reconciler.auth.passwords`).
"""

import asyncio
from collections.abc import Mapping

from api import errors
from api.calls import Call
from api.pages import paths
from reconciler.auth.rate_limits import RateLimit

PACES: Mapping[str, RateLimit] = {
    paths.PROVIDER: RateLimit(burst=60, seconds=1.0),  # an office that comes to work behind one address
    paths.CALLBACK: RateLimit(burst=60, seconds=1.0),  # each asks the provider for a token
    paths.INVITATION: RateLimit(burst=20, seconds=10.0),
    paths.SIGN_IN: RateLimit(burst=60, seconds=1.0),  # of passwords that are wrong, far fewer
}


def check_pace(call: Call, what: str) -> None:
    """Count a request of this page. Raises `TooMany`."""
    now = asyncio.get_running_loop().time()
    seconds = call.services.paces.take(what, call.address, pace=PACES[what], now=now)
    if seconds > 0:
        raise errors.TooMany("Too many people sign in from this address at once; wait a little.", after=seconds)
