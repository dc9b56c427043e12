"""Taking traces of what was rewritten out of the store's files, for as long as there are any.

Belongs here: when to try. Does not: how (`store.erasing`).
"""

import asyncio
import logging
from dataclasses import dataclass

from reconciler.store.contract import Store, StoreFault, Traces

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ErasePace:
    """Seconds between two tries: as a rule, and after the disk would not take them."""

    seconds: float = 5.0
    after_fault: float = 600.0


async def erase_loop(store: Store, pace: ErasePace) -> None:
    """Try for ever; say when traces have to wait, and when they are gone then."""
    waiting = False
    while True:
        seconds = pace.seconds
        try:
            traces = await store.erase_traces()
        except StoreFault as fault:
            log.warning("Traces of what was rewritten are still in the store's files. %s", fault.message)
            waiting, seconds = True, pace.after_fault
        else:
            if traces is Traces.KEPT and not waiting:
                log.info("Traces of what was rewritten stay in the store's files while an older revision is read.")
            if traces is Traces.ERASED or (traces is Traces.NONE and waiting):
                log.info("The store's files hold no trace of what was rewritten any more.")
            waiting = traces is Traces.KEPT
        await asyncio.sleep(seconds)
