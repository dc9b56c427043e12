"""Checks of a store on PostgreSQL: files of passwords, the server and the database, and the role of the worker."""

import os
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from reconciler.model.errors import ReconcilerError
from reconciler.ops.checks.files import FOR_OTHERS, FULL_SECONDS, damaged_versions
from reconciler.ops.databases import ProgressWatch
from reconciler.ops.doctor import DoctorFinding, error, ok, warning
from reconciler.store import engines
from reconciler.store.replica_records import RoleReport, ServerReport

NAME = "postgresql"
FEW_CONNECTIONS = 20  # about what one more replica opens, and some for people


def check_postgresql(url: str, worker_url: str, *, is_full: bool) -> list[DoctorFinding]:
    """Check the database of `store.url`, and the role of `store.workerUrl`. `is_full`: with each version's checksum."""
    found: list[DoctorFinding] = []
    try:
        found += _passfiles({"store.url": url, "store.workerUrl": worker_url})
        report = engines.server_report(url)
        found += _server(report)
        if is_full and report.migration == report.latest:
            watch = ProgressWatch(time.monotonic, FULL_SECONDS, lambda _: None)
            if damaged := engines.damaged_versions(url, watch=watch):
                found.append(damaged_versions(NAME, "", damaged))
    except ReconcilerError as problem:
        return [*found, error(NAME, problem.message.rstrip("."), "")]
    try:
        return [*found, *_role(engines.role_report(worker_url, service_url=url))]
    except ReconcilerError as problem:
        return [*found, error(NAME, f"the worker's role: {problem.message.rstrip('.')}", "")]


def _passfiles(urls: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Check the files with passwords that URLs name, by setting: libpq passes over those that it cannot use."""
    named: dict[Path, list[str]] = {}
    for setting, url in urls.items():
        if path := engines.passfile(url, setting):
            named.setdefault(path, []).append(f"`{setting}`")
    for path, settings in named.items():
        told = f"{path}, the `passfile` of {' and '.join(settings)},"
        try:
            mode = path.stat().st_mode
        except OSError as problem:
            told = f"{told} cannot be read ({os.strerror(problem.errno or 0)})"
            yield error(NAME, told, "mend that, or name another")
            continue
        if not stat.S_ISREG(mode) or not os.access(path, os.R_OK):
            yield error(NAME, f"{told} is not a file that can be read", "mend that, or name another")
        elif mode & FOR_OTHERS:
            told = f"{told} is ignored: others than its owner may use it (mode {stat.S_IMODE(mode):04o})"
            yield error(NAME, told, f"`chmod go-rwx {path}`")


def _server(report: ServerReport) -> Iterator[DoctorFinding]:
    oldest, latest = report.oldest, report.latest
    told = f"PostgreSQL {report.version}"
    if report.version < oldest:
        yield error(NAME, f"{told} is older than {oldest}, the oldest that is tested", "install a later one")
    else:
        yield ok(NAME, f"{told} can be reached")
    if report.is_standby:
        yield error(NAME, "this is a standby, which takes no writes", "name the primary in `store.url`")
    if report.encoding != "UTF8":
        yield error(NAME, f"the database's encoding is {report.encoding}", "make one with `encoding 'UTF8'`")
    for one in report.unsafe:
        yield error(NAME, f"{one}: a crash may lose what was acknowledged", "set it to `on`")
    if report.migration is None:
        yield warning(NAME, "the database is empty", "the first start makes the store in it")
    elif report.migration > latest:
        message = f"the store is of version {report.migration}, and this program knows versions up to {latest}"
        yield error(NAME, message, "a later version of the program wrote it; install that one")
    elif report.migration < latest:
        yield ok(NAME, f"the store is of version {report.migration}; the next start brings it to version {latest}")
    else:
        yield ok(NAME, f"the store is of version {latest}")
    if report.connections_left < FEW_CONNECTIONS:
        yield warning(NAME, f"{report.connections_left} connections are left", "raise `max_connections`")


def _role(report: RoleReport) -> Iterator[DoctorFinding]:
    if report.is_elsewhere:
        message = "`store.workerUrl` leads to another database than `store.url`"
        yield error(NAME, message, "name the same database in both")
        return
    if report.more:
        message = f"the worker's role {report.name} {', and '.join(report.more)}"
        yield error(NAME, message, "give the worker a role of its own that may only read")
    if report.unread:
        message = f"the worker's role {report.name} may not read {', '.join(report.unread)}"
        yield error(NAME, message, "start the service again, which grants it")
    if not report.more and not report.unread:
        yield ok(NAME, f"the worker's role {report.name} may only read")
