"""Stale routes: the last good route of a Configuration that cannot deliver now. Pure.

The route stays in use while the present version wants records but cannot deliver them, since something in it is wrong
or not supported. A webhook that the present version removes or disables is removed from the route. A webhook to which a
later version gives another endpoint or other headers is held: nothing is sent to it any more, and its records wait
until a version delivers. It stays held, whatever later versions say.
"""

from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec
from msgspec import structs

from reconciler.model.rendering import Delivery, Stale
from reconciler.model.routes import RouteVerdict, Use

HELD = (
    "Its last good route is not used either, since a later version names another endpoint or other headers: records "
    "wait in the queue until a version can deliver."
)

WANTED_SECONDS = 600  # after its last change, for which senders keep what only such a Configuration wants


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """The last route of a Configuration that delivered, kept as long as its present version does not.

    `id` is the resource's: one that is deleted and made anew did not deliver before. `version` is the last that
    delivered, `since` when the present one could not, `at` its last change that concerns delivery; both are RFC 3339.
    `uses` are the webhooks of the route with the version of each Destination that is in force, 0 for one in place,
    whose version is the Configuration's; none when the route has ended. `held` are those of them that nothing is sent
    to.
    """

    id: str
    version: int
    since: str
    at: str
    uses: tuple[tuple[str, int], ...] = ()
    held: tuple[str, ...] = ()

    @property
    def sends(self) -> bool:
        """True if it still sends to one of its webhooks."""
        return any(name not in self.held for name, _ in self.uses)


def wanted_until(past: Past) -> int:
    """Until when senders keep what only this Configuration wants, in Unix milliseconds."""
    return int(datetime.fromisoformat(past.at).timestamp() * 1000) + WANTED_SECONDS * 1000


def told(verdict: RouteVerdict, past: Past | None = None) -> Delivery:
    """Return the status of a Configuration, by the verdict on its present version and its last good route."""
    reason, _, runs_on, left_out = verdict
    said = Delivery(reason, None, runs_on, left_out)
    if not reason or past is None or not past.uses:
        return said
    if past.sends:
        return said._replace(reason="", stale=Stale(past.version, past.since, reason))
    return said._replace(reason=f"{reason} {HELD}")


def after(past: Past, wanted: Iterable[Use], *, leads_elsewhere: Callable[[str, Use], bool]) -> Past:
    """Return what a change leaves of a route, for a Configuration that now wants records at these webhooks.

    `leads_elsewhere` compares a webhook of the route, by its name, with its present form.
    """
    left, held = [], []
    for name, version in past.uses:
        now = _same(name, wanted)
        if now:
            left.append((name, version))
            if name in past.held or all(leads_elsewhere(name, use) for use in now):
                held.append(name)
    return structs.replace(past, uses=tuple(left), held=tuple(held))


def without(past: Past, name: str) -> Past:
    """The same without one of its webhooks."""
    uses = tuple(use for use in past.uses if use[0] != name)
    return structs.replace(past, uses=uses, held=tuple(one for one in past.held if one != name))


def _same(name: str, wanted: Iterable[Use]) -> list[Use]:
    """Find the present form of a webhook of the route. One in place may have lost its `id`, which is an error and no
    decision.
    """
    configuration, colon, _ = name.partition(":")
    known = [use for use in wanted if use.name == name]
    return known or [use for use in wanted if colon and use.name == f"{configuration}:"]
