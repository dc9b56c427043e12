"""Alerts on their way: kept in `ops.db` until their target took them, at least once.

Belongs here: a queue for each target, trying again, giving up. Does not: which alerts there are
(`reconciler.notifications.telling`), what one says (`alerts`), which addresses may be reached (`reconciler.egress`).

Each target has a task of its own, so that one that fails keeps nobody waiting, and gets its alerts one after another in
their order. What one does not take is tried again for an hour, then it is given up. Of that the log tells, and no
notification: one about alerts that fail would itself be an alert that fails.
"""

import asyncio
import logging
import random
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from reconciler import errors, regular_files
from reconciler.clock import Clock, rfc3339
from reconciler.counting import counted
from reconciler.egress.client import Client
from reconciler.egress.exchange import Limits, Request, Target
from reconciler.hooks import secret as secrets
from reconciler.notifications import alerts, telling
from reconciler.notifications.models import Notification, State
from reconciler.notifications.rendering import Place
from reconciler.notifications.telling import Filter
from reconciler.operations.contract import AlertRow, Operations
from reconciler.sending import verdicts

log = logging.getLogger(__name__)

MOST = 1_000  # alerts that wait for one target; the oldest go first
PATIENCE = timedelta(hours=1)  # from when an alert was made
FIRST_RETRY = 1.0  # seconds; doubled at each failure
LONGEST_RETRY = 60.0
LONGEST_ASKED = 300.0  # of a `Retry-After`
SPREAD = 0.1
DOUBLINGS = 10
LIMITS = Limits(connect=5.0, total=10.0, answer_bytes=1024)
MOST_BYTES = 64 * 1024  # of a file with a URL

Wait = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Recipient:
    """A target of the settings. One of `url` and `url_file` is given; neither is shown, since chats take a URL for a
    password.
    """

    name: str
    wanted: Filter = field(default_factory=Filter)
    url: str = field(default="", repr=False)
    url_file: Path | None = None
    secret_file: Path | None = None


class Unprepared(errors.Transient):
    """A file that an alert needs cannot be used."""


class Outbox:
    """All targets. Used from one event loop."""

    def __init__(
        self,
        recipients: Sequence[Recipient],
        operations: Operations,
        *,
        place: Place,
        clock: Clock,
        wait: Wait = asyncio.sleep,
        most: int = MOST,
    ) -> None:
        """`most` alerts wait for each target."""
        self._operations = operations
        self._place = place
        self._clock = clock
        self._wait = wait
        self._most = most
        self._lanes = {one.name: _Lane(one) for one in recipients}

    async def load(self) -> None:
        """The alerts that an earlier start did not send; of targets that are gone, they are forgotten. Raises
        StoreFault.
        """
        rows = await self._operations.alerts()
        self.add(rows)
        gone = [row.id for row in rows if row.target not in self._lanes]
        if gone:
            await self._operations.remove_alerts(gone)

    def alerts(self, one: Notification, state: State, *, at: datetime, new_id: Callable[[], str]) -> list[AlertRow]:
        """What goes to whom about a change of state; to be kept, and then given to `add`."""
        made = []
        for lane in self._lanes.values():
            if telling.wants(lane.to.wanted, one, state):
                identifier = new_id()
                body = alerts.body(one, state, identifier=identifier, at=at, place=self._place)
                made.append(AlertRow(identifier, lane.to.name, body, rfc3339(at)))
        return made

    def add(self, rows: Iterable[AlertRow]) -> None:
        """Send these, which are kept."""
        for row in rows:
            lane = self._lanes.get(row.target)
            if lane is not None:
                lane.waiting.append(row)
                lane.woken.set()

    async def keep(self, client: Client, *, authorities: Path | None = None) -> None:
        """Send for ever. `authorities` is a PEM file that is trusted instead of the system's."""
        tls = _Trust(authorities)
        async with asyncio.TaskGroup() as group:
            for name, lane in self._lanes.items():
                group.create_task(self._serve(lane, client, tls), name=f"alerts-{name}")

    async def _serve(self, lane: "_Lane", client: Client, tls: "_Trust") -> None:
        failures = 0
        while True:
            await self._shed(lane)
            if not lane.waiting:
                lane.woken.clear()
                await lane.woken.wait()
                continue
            row = lane.waiting[0]
            asked = await self._try(lane, row, client, tls, is_first=failures == 0)
            if asked is None:
                failures = 0
                await self._done(lane, row)
            elif self._clock() - datetime.fromisoformat(row.made_at) >= PATIENCE:
                log.warning("An alert to %s of %s was given up.", lane.to.name, row.made_at)
                await self._done(lane, row)
            else:
                failures += 1
                await self._wait(max(_backoff(failures), min(asked, LONGEST_ASKED)))

    async def _try(
        self, lane: "_Lane", row: AlertRow, client: Client, tls: "_Trust", *, is_first: bool
    ) -> float | None:
        """Send once. None when it was taken, else for how many seconds the target asks to be left."""
        try:
            request = await self._request(lane.to, row)
            answer = await client.send(request, limits=LIMITS, tls=await tls.context())
        except errors.ReconcilerError as problem:
            why, asked = problem.message, 0.0
        except Exception:
            log.exception("An alert to %s met a fault of the program.", lane.to.name)
            why, asked = "it met a fault of the program", 0.0
        else:
            if 200 <= answer.status < 300:
                if not is_first:
                    log.info("The alert target %s takes alerts again.", lane.to.name)
                return None
            why = f"it answered {answer.status}"
            asked = verdicts.retry_after(answer, now_ms=int(self._clock().timestamp() * 1000))
        if is_first:  # once, and not at each attempt
            log.warning("The alert target %s takes nothing and is tried again for an hour: %s", lane.to.name, why)
        return asked

    async def _request(self, to: Recipient, row: AlertRow) -> Request:
        """Files are read at each attempt, so that a new secret counts at once. Raises Unprepared."""
        url, secret = await asyncio.to_thread(_read, to)
        seconds = int(self._clock().timestamp())
        named = alerts.headers(row.body, identifier=row.id, seconds=seconds, secret=secret)
        return Request(_target(url, to), "POST", named, row.body)

    async def _shed(self, lane: "_Lane") -> None:
        surplus = [lane.waiting.popleft() for _ in range(len(lane.waiting) - self._most)]
        if surplus:
            log.warning(
                "Too many alerts wait for %s; the oldest %s given up.", lane.to.name, counted(len(surplus), "is", "are")
            )
            await self._forget(surplus)

    async def _done(self, lane: "_Lane", row: AlertRow) -> None:
        lane.waiting.popleft()
        await self._forget([row])

    async def _forget(self, rows: Sequence[AlertRow]) -> None:
        try:
            await self._operations.remove_alerts([row.id for row in rows])
        except errors.ReconcilerError as fault:
            log.warning("Alerts that were sent are sent again after a restart: %s", fault.message)


class _Lane:
    def __init__(self, to: Recipient) -> None:
        self.to = to
        self.waiting: deque[AlertRow] = deque()
        self.woken = asyncio.Event()


def _read(to: Recipient) -> tuple[str, bytes | None]:
    """The URL, and the secret where alerts are signed. Raises Unprepared."""
    url = to.url
    if to.url_file is not None:
        try:
            url = regular_files.read(to.url_file, limit=MOST_BYTES).decode("ascii").strip()
        except (OSError, ValueError, regular_files.NotAFile, regular_files.TooLarge):
            raise Unprepared(f"the file {to.url_file} cannot be read; put the URL into it") from None
    if to.secret_file is None:
        return url, None
    try:
        return url, secrets.read(to.secret_file)
    except secrets.Unusable as problem:
        raise Unprepared(f"the file {to.secret_file} {problem}; put the secret into it") from None


def _target(url: str, to: Recipient) -> Target:
    """Raises Unprepared, which does not show the URL."""
    try:
        parts = urlsplit(url)
        port = parts.port or (80 if parts.scheme == "http" else 443)
    except ValueError:
        parts, port = urlsplit(""), 0
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
        raise Unprepared(f"what is in {to.url_file} is no http or https URL without a user; put one into it")
    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    return Target("http" if parts.scheme == "http" else "https", parts.hostname, port, path)


class _Trust:
    """Whom connections over TLS trust, read when the first alert is sent, and again as long as that fails."""

    def __init__(self, authorities: Path | None) -> None:
        self._authorities = authorities
        self._context: ssl.SSLContext | None = None

    async def context(self) -> ssl.SSLContext | None:
        """None trusts the system's authorities. Raises Unprepared."""
        if self._authorities is not None and self._context is None:
            try:
                self._context = await asyncio.to_thread(ssl.create_default_context, cafile=str(self._authorities))
            except (OSError, ValueError):  # of which what SSL raises is one
                told = f"`outbound.caFile` cannot be read: put a PEM file at {self._authorities}"
                raise Unprepared(told) from None
        return self._context


def _backoff(failures: int) -> float:
    wait = min(FIRST_RETRY * float(2 ** min(failures - 1, DOUBLINGS)), LONGEST_RETRY)
    return wait * random.uniform(1 - SPREAD, 1 + SPREAD)  # noqa: S311 - it spreads waits
