"""All metrics, in their one order, and where their values come from.

Belongs here: which sources there are. Does not: what each tells (a module each), how it is written (`exposition`).

A source is a function that yields steps (`families.Step`), and its FAMILIES. Another one takes a line in FAMILIES and
an entry in `sources.Measured.more`; docs/metrics.md names each family.
"""

from collections.abc import Iterator

from reconciler.metrics import delivery, git, notifications, process, requests, runs, store
from reconciler.metrics.families import MetricFamily, Step
from reconciler.metrics.sources import MetricSources
from reconciler.model.errors import ReconcilerError

ALL_FAMILIES: tuple[MetricFamily, ...] = (
    *runs.FAMILIES,
    *git.GIT_FAMILIES,
    *store.FAMILIES,
    *requests.FAMILIES,
    *delivery.FAMILIES,
    *notifications.FAMILIES,
    *process.FAMILIES,
)


async def all_steps(sources: MetricSources) -> Iterator[Step]:
    """All of them, as far as the sources are there. They are looked at while the steps are taken."""
    try:
        revision = await sources.store.revision()
    except ReconcilerError:
        revision = None  # all else is told all the more
    return _steps(sources, revision)


def _steps(sources: MetricSources, revision: int | None) -> Iterator[Step]:
    measured = sources.measured
    if measured.repositories is not None:
        yield from runs.run_steps(measured.repositories)
        yield from git.git_steps(measured.repositories.asked)
    yield from store.store_steps(sources.store.figures(), revision)
    yield from requests.request_steps(measured.traffic, sources.in_flight)
    if measured.deliveries is not None:
        yield from delivery.delivery_steps(measured.deliveries(), now=sources.now)
    yield from notifications.notification_steps(sources.open, () if measured.alerts is None else measured.alerts())
    for more in measured.more:
        yield from more()
    yield from process.process_steps()
