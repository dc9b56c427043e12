"""All metrics, in their one order, and where their values come from.

Belongs here: which sources there are. Does not: what each tells (a module each), how it is written (`exposition`).

A source is a function that yields steps (`families.Step`), and its FAMILIES. Another one takes a line in FAMILIES and
an entry in `sources.Measured.more`; docs/metrics.md names each family.
"""

from collections.abc import Iterator

from reconciler.errors import ReconcilerError
from reconciler.metrics import delivery, git, notifications, process, requests, runs, store
from reconciler.metrics.families import Family, Step
from reconciler.metrics.sources import Sources

FAMILIES: tuple[Family, ...] = (
    *runs.FAMILIES,
    *git.FAMILIES,
    *store.FAMILIES,
    *requests.FAMILIES,
    *delivery.FAMILIES,
    *notifications.FAMILIES,
    *process.FAMILIES,
)


async def steps(sources: Sources) -> Iterator[Step]:
    """All of them, as far as the sources are there. They are looked at while the steps are taken."""
    try:
        revision = await sources.store.revision()
    except ReconcilerError:
        revision = None  # all else is told all the more
    return _steps(sources, revision)


def _steps(sources: Sources, revision: int | None) -> Iterator[Step]:
    measured = sources.measured
    if measured.repositories is not None:
        yield from runs.steps(measured.repositories)
        yield from git.steps(measured.repositories.asked)
    yield from store.steps(sources.store.figures(), revision)
    yield from requests.steps(measured.traffic, sources.in_flight)
    if measured.deliveries is not None:
        yield from delivery.steps(measured.deliveries(), now=sources.now)
    yield from notifications.steps(sources.open, () if measured.alerts is None else measured.alerts())
    for more in measured.more:
        yield from more()
    yield from process.steps()
