"""The observer of certificates that end soon.

Files are read on a thread, every five minutes and at once after a reload.
"""

import asyncio
import ssl
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from reconciler.delivery import tls
from reconciler.delivery.lanes import Lane
from reconciler.delivery.secrets import SecretSources
from reconciler.delivery.status import DeliveryFigures
from reconciler.model.clock import Clock
from reconciler.model.notification_types import NotificationType, Severity
from reconciler.model.text import visible
from reconciler.notifications.models import Cause, Domain, Finding, Observation
from reconciler.reconcile.reconciler import Reconciler
from reconciler.settings import bounded_io
from reconciler.settings.repositories import Repository

SOON = timedelta(days=14)
EVERY = timedelta(minutes=5)
MOST_BYTES = 1 << 20  # of a file


class ExpiringFile(NamedTuple):
    """A file with certificates: its cause, its name in a sentence, and its end. `until` is None for a file that cannot
    be read, which is reported where it is used.
    """

    cause: Cause
    what: str
    until: datetime | None


class CertificateObserver:
    """Checks the certificates of the settings, of repositories and of destinations regularly."""

    def __init__(
        self,
        reconcilers: Callable[[], list[Reconciler]],
        figures: Callable[[], DeliveryFigures],
        followed: Callable[[], Collection[str]],
        *,
        secrets: SecretSources,
        clock: Clock,
        certificate: Path | None = None,
        authorities: Path | None = None,
    ) -> None:
        """`certificate` and `authorities` are files of the settings."""
        self._reconcilers = reconcilers
        self._figures = figures
        self._followed = followed
        self._secrets = secrets
        self._clock = clock
        self._certificate = certificate
        self._authorities = authorities
        self._last: tuple[datetime, Observation] | None = None

    def again(self, *, certificate: Path | None) -> None:
        """Make the next check read all files. The listener's certificate may be new; None keeps the former one."""
        self._certificate = certificate or self._certificate
        self._last = None

    async def observe(self) -> Observation:
        """Return the last findings, or check again if it is time."""
        now = self._clock()
        if self._last is None or not timedelta() <= now - self._last[0] < EVERY:
            projects = frozenset({"", *self._followed()})
            repositories = [one.watched for one in self._reconcilers()]
            lanes = [lane for lane in self._figures().lanes if lane.project in projects]
            findings = await asyncio.to_thread(self._read, repositories, lanes, now)
            self._last = now, Observation(Domain.CERTIFICATES, findings, projects)
        return self._last[1]

    def _read(self, repositories: Sequence[Repository], lanes: Sequence[Lane], now: datetime) -> tuple[Finding, ...]:
        files = [*self._of_settings(), *_of_repositories(repositories), *self._of_destinations(lanes)]
        return tuple(found for file in files if (found := _finding(file, now)) is not None)

    def _of_settings(self) -> Iterator[ExpiringFile]:
        for path, what, ends in (
            (self._certificate, "The listener's certificate", _leaf),
            (self._authorities, "The last authority of `outbound.caFile`", last_authority),
        ):
            if path is not None:
                yield ExpiringFile(_of_file(path), what, ends(_text(path)))

    def _of_destinations(self, lanes: Sequence[Lane]) -> Iterator[ExpiringFile]:
        endpoints = {
            (lane.project, lane.name): lane.destination.endpoint for lane in lanes if lane.destination is not None
        }
        for (project, name), endpoint in sorted(endpoints.items()):
            try:
                files = tls.read_tls_file(endpoint, sources=self._secrets, project=project, authorities=None)
                certificate, authority = files.certificate, files.authority
            except tls.UnusableFile:  # nothing can be sent, which is reported elsewhere; the end is unknown
                certificate = authority = "unusable"
            if certificate:
                cause = Cause(NotificationType.CERTIFICATE_EXPIRING, f"{name} cert_file", project)
                yield ExpiringFile(cause, f"The client certificate of the destination {name}", _leaf(certificate))
            if authority:
                cause = Cause(NotificationType.CERTIFICATE_EXPIRING, f"{name} ca_file", project)
                yield ExpiringFile(cause, f"The last authority of the destination {name}", last_authority(authority))


def _of_repositories(repositories: Sequence[Repository]) -> Iterator[ExpiringFile]:
    """Yield the files that repositories trust. They are in the settings, so they are the organization's."""
    for one in repositories:
        if (file := one.credentials.ca_file) is not None:
            what = f"The last authority in `credentials.caFile` of the repository {one.name}"
            yield ExpiringFile(_of_file(file), what, last_authority(_text(file)))


def _of_file(path: Path) -> Cause:
    return Cause(NotificationType.CERTIFICATE_EXPIRING, visible(str(path)))


def _finding(file: ExpiringFile, now: datetime) -> Finding | None:
    if file.until is None:  # keep the earlier finding
        return Finding(file.cause, fading=True)
    if file.until - now > SOON:
        return None
    severity, verb = (Severity.ERROR, "expired") if file.until <= now else (Severity.WARNING, "expires")
    title = f"{file.what} {verb} on {file.until:%Y-%m-%d}"
    return Finding(file.cause, severity, title, f"It is {file.cause.subject}.")


def _text(path: Path) -> str:
    """Return the text of a file, empty when it cannot be read."""
    try:
        return bounded_io.read_file(path, limit=MOST_BYTES).decode("ascii", "replace")
    except (OSError, bounded_io.NotAFile, bounded_io.FileTooLarge):
        return ""


def _leaf(pem: str) -> datetime | None:
    span = tls.certificate_span(pem)
    return None if span is None else span.until


def last_authority(pem: str) -> datetime | None:
    """Return when the last of several authorities ends: until then, certificates of it are trusted. None if none can be
    read.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError):
        return None
    ends = [ssl.cert_time_to_seconds(str(one["notAfter"])) for one in context.get_ca_certs()]
    return datetime.fromtimestamp(max(ends), UTC) if ends else None
