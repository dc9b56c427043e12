"""The observer of certificates that end soon.

Files are read on a thread, every five minutes, so that a renewed one is seen soon, and at once after a reload.
"""

import asyncio
import ssl
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path

from reconciler.delivery import tls
from reconciler.delivery.secrets import SecretSources
from reconciler.model.clock import Clock
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.model.routes import Endpoint
from reconciler.notifications.models import Cause, Domain, Facts, Finding, Look
from reconciler.notifications.observers import ObservedDeliveries, ObservedRepositories
from reconciler.settings import bounded_io

SOON = timedelta(days=14)
EVERY = 300.0  # seconds
MOST_BYTES = 1 << 20  # of a file
RENEW = "Renew it and put the new one into the file; it is taken over by `systemctl reload reconciler`."
REPLACE = "Put the present authorities into the file."
RENEW_CLIENT = "Renew it and put the new one into the project's folder of secrets; it is used at the next request."
REPLACE_REPOSITORY = "Put the present authorities into the file; they are used at the next look."
REPLACE_CLIENT = "Put the present authority into the project's folder of secrets; it is used at the next request."


@dataclass(frozen=True, slots=True)
class OwnCertificates:
    """The files of the settings; None for those that are not named. `repositories` have some of theirs."""

    repositories: ObservedRepositories
    certificate: Path | None = None
    authorities: Path | None = None


class CertificateObserver:
    """Looks at files now and then."""

    def __init__(
        self,
        own: OwnCertificates,
        deliveries: ObservedDeliveries,
        *,
        secrets: SecretSources,
        clock: Clock,
        monotonic: Callable[[], float],
        every: float = EVERY,
    ) -> None:
        """`every` so many seconds the files of a project, or of the settings, are read."""
        self._own = own
        self._deliveries = deliveries
        self._secrets = secrets
        self._clock = clock
        self._monotonic = monotonic
        self._every = every
        self._looked_at: dict[str, float] = {}

    def again(self, *, certificate: Path | None) -> None:
        """Have the next look read all files. The listener's may be another; without one it shows the one it had."""
        self._own = replace(self._own, certificate=certificate or self._own.certificate)
        self._looked_at = {}

    async def look(self) -> list[Look]:
        """The settings' files (part ""), and those of each project, as far as it is time."""
        now, looked_at = self._monotonic(), self._looked_at
        due = [
            part
            for part in ("", *sorted(self._deliveries.followed()))
            if now - looked_at.get(part, now - self._every) >= self._every
        ]
        if not due:
            return []
        endpoints: dict[str, dict[str, Endpoint]] = {}
        for lane in self._deliveries.figures().lanes:
            if lane.destination is not None:
                endpoints.setdefault(lane.project, {}).setdefault(lane.name, lane.destination.endpoint)
        trusted = {
            str(one.watched.credentials.ca_file): one.watched.name
            for one in reversed(self._own.repositories.reconcilers())
            if one.watched.credentials.ca_file is not None
        }
        looks = await asyncio.to_thread(self._read, due, endpoints, trusted)
        looked_at.update(dict.fromkeys(due, now))  # `again` may have been called meanwhile
        return looks

    def _read(
        self, due: Collection[str], endpoints: dict[str, dict[str, Endpoint]], trusted: dict[str, str]
    ) -> list[Look]:
        now = self._clock()
        found = {part: self._of_project(part, endpoints.get(part, {}), now) for part in due if part}
        if "" in due:
            found[""] = _each_once(chain(self._of_settings(now), _of_repositories(trusted, now)))
        return [Look(Domain.CERTIFICATES, tuple(found[part]), part=part) for part in due]

    def _of_settings(self, now: datetime) -> Iterator[Finding]:
        if self._own.certificate is not None:
            until = _leaf(_text(self._own.certificate))
            what = "The listener's certificate"
            yield from _finding(
                Cause(NotificationType.CERTIFICATE_EXPIRING, str(self._own.certificate)), what, until, RENEW, now
            )
        if self._own.authorities is not None:
            until = _authorities(_text(self._own.authorities))
            what = "The last authority of `outbound.caFile`"
            yield from _finding(
                Cause(NotificationType.CERTIFICATE_EXPIRING, str(self._own.authorities)), what, until, REPLACE, now
            )

    def _of_project(self, project: str, endpoints: dict[str, Endpoint], now: datetime) -> Iterator[Finding]:
        for name, endpoint in sorted(endpoints.items()):
            if endpoint.scheme != "https" or not (endpoint.ca_file or endpoint.mutual_tls):
                continue
            try:
                files = tls.read_tls_file(endpoint, sources=self._secrets, project=project, authorities=None)
            except tls.UnusableFile:  # nothing can be sent, which is told elsewhere, and nothing is known of the end
                for file in ("cert_file", "ca_file"):
                    cause = Cause(NotificationType.CERTIFICATE_EXPIRING, f"{name} {file}", project)
                    yield Finding(cause, Severity.WARNING, {}, fading=True)
                continue
            if files.certificate:
                cause = Cause(NotificationType.CERTIFICATE_EXPIRING, f"{name} cert_file", project)
                what = f"The client certificate of the destination {name}"
                yield from _finding(cause, what, _leaf(files.certificate), RENEW_CLIENT, now)
            if files.authority:
                cause = Cause(NotificationType.CERTIFICATE_EXPIRING, f"{name} ca_file", project)
                what = f"The last authority of the destination {name}"
                yield from _finding(cause, what, _authorities(files.authority), REPLACE_CLIENT, now)


def _of_repositories(trusted: dict[str, str], now: datetime) -> Iterator[Finding]:
    """Of each file that repositories trust, once, with the name of the first of them. It stands in the settings, so it
    is the organization's.
    """
    for file, name in sorted(trusted.items()):
        what = f"The last authority in `credentials.caFile` of the repository {name}"
        until = _authorities(_text(Path(file)))
        yield from _finding(Cause(NotificationType.CERTIFICATE_EXPIRING, file), what, until, REPLACE_REPOSITORY, now)


def _each_once(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Of a file that the settings name in several places, the worst that is known of it; else the first."""
    found: dict[Cause, Finding] = {}
    for one in findings:
        known = found.get(one.cause)
        if known is None or _weight(one) > _weight(known):
            found[one.cause] = one
    yield from found.values()


def _weight(one: Finding) -> int:
    return -1 if one.fading else one.severity.weight


def _finding(cause: Cause, what: str, until: datetime | None, todo: str, now: datetime) -> Iterator[Finding]:
    if until is None:  # an unreadable file says nothing: what was told of it before stays
        yield Finding(cause, Severity.WARNING, {}, fading=True)
        return
    if until - now > SOON:
        return
    is_over = until <= now
    facts: Facts = {"what": what, "until": f"{until:%Y-%m-%d}", "expired": int(is_over), "todo": todo}
    yield Finding(cause, Severity.ERROR if is_over else Severity.WARNING, facts)


def _text(path: Path) -> str:
    """Empty for a file that cannot be read: whoever needs it says so."""
    try:
        return bounded_io.read_file(path, limit=MOST_BYTES).decode("ascii", "replace")
    except (OSError, bounded_io.NotAFile, bounded_io.FileTooLarge):
        return ""


def _leaf(pem: str) -> datetime | None:
    span = tls.certificate_span(pem)
    return None if span is None else span.until


def _authorities(pem: str) -> datetime | None:
    """When the last of several authorities ends; as long as there is one, what it signed is trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError):
        return None
    ends = [ssl.cert_time_to_seconds(str(one["notAfter"])) for one in context.get_ca_certs()]
    return datetime.fromtimestamp(max(ends), UTC) if ends else None
