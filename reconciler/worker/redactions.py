"""The redaction of a text: it rewrites the former versions of a resource.

The present version of a resource is never redacted, because the next commit would bring the text back; if it has the
text as a secret, that is correct. A dry run searches only what readers see.
"""

from collections.abc import Iterator
from itertools import chain

import msgspec
from msgspec import structs

from reconciler.model import rendering
from reconciler.model.names import Key
from reconciler.planner import delivery
from reconciler.planner.changes import ChangeParts
from reconciler.planner.delivery import Past
from reconciler.store import records
from reconciler.store.contract import PlanningView
from reconciler.store.records import Changes
from reconciler.worker.messages import Emit, RedactJob, RedactPlanned


class _Obstacle(Exception):
    """Nothing may be rewritten; the message says why."""


def plan_redaction(job: RedactJob, view: PlanningView, *, emit: Emit) -> RedactPlanned:
    """Find the versions with the text and send the rows that rewrite them, with an audit event. A dry run sends none.
    Raises StoreFault.
    """
    search = _Redaction(job, view)
    with view.snapshot():
        if not view.last_versions(search.project, [search.key]):
            return RedactPlanned(exists=False)
        try:
            for part in search.parts():
                if not job.dry_run:
                    emit(part)
        except _Obstacle as obstacle:
            return RedactPlanned(exists=True, obstacle=str(obstacle))
    versions = tuple(sorted(search.versions))
    return RedactPlanned(exists=True, versions=versions, places=search.places)


class _Redaction:
    """A search for a text. Each step adds rows that replace it, and yields their size in bytes."""

    def __init__(self, job: RedactJob, view: PlanningView) -> None:
        self.project, self.key = job.context.project, Key(job.kind, job.name)
        self.versions: list[int] = []  # versions in which a reader sees the text
        self.places = 0  # strings with the text
        self._rewritten: set[int] = set()  # versions, also those that have it as a secret
        self._job = job
        self._view = view
        self._parts = ChangeParts()

    def parts(self) -> Iterator[Changes]:
        """Search, and yield the rows. Raises _Obstacle."""
        steps = (self._redact_versions(), self._redact_status(), self._redact_quotes(), self._end_routes())
        yield from self._parts.parts(chain(*steps, self._audit_event()))

    def _redact_versions(self) -> Iterator[int]:
        """Rewrite every version that has the text. Raises _Obstacle."""
        present = self._view.stored(self.project, [self.key]).get(self.key)
        for version in self._view.versions(self.project, self.key):
            left = self._redacted(version, is_present=present is not None and present.version == version.version)
            if left is None:
                continue
            self._rewritten.add(version.version)
            self.places += left.places
            if left.places:
                self.versions.append(version.version)
            self._parts.rows.rewritten.append(version._replace(body=left.body, secrets=left.secrets))
            yield len(left.body) + len(left.secrets or b"")

    def _redacted(self, version: records.VersionRow, *, is_present: bool) -> rendering.RedactedVersion | None:
        """Return a version without the text; None if it does not have it. Raises _Obstacle."""
        text, context = self._job.text, self._job.context
        secrets = None if self._job.dry_run or is_present else version.secrets
        which = f"{version.key.kind} {version.key.name}"
        try:
            if rendering.is_known_by(version.body, text):
                raise _Obstacle(f"The text is a part of the name or the id of {which}, which stay; give a longer text.")
            left = rendering.redacted_version(
                version.body, secrets, text, project=self.project, hmac_key=context.hmac_key
            )
        except (LookupError, ValueError):
            told = f"Version {version.version} of {which} is damaged in the store and cannot be read; restore a backup."
            raise _Obstacle(told) from None
        if is_present and left is not None:
            told = f"The present version of {which} still holds the text; change it first, in Git or by apply."
            raise _Obstacle(told)
        return left

    def _redact_status(self) -> Iterator[int]:
        """Redact the status: its list of what is missing may quote an earlier version or a type."""
        stored = self._view.documents(self.project, [self.key]).get(self.key)
        if stored is None:
            return
        lines = rendering.incomplete(stored.status)
        left = [rendering.redaction_sentence(line, self._job.text) for line in lines]
        places = sum(one != other for one, other in zip(lines, left, strict=True))
        if places:
            self.places += places
            status = rendering.with_standing(self.key.kind, stored.status, incomplete=left)
            self._parts.rows.head_statuses.append(records.HeadStatusRow(self.project, *self.key, 1, status))
            yield len(status)

    def _redact_quotes(self) -> Iterator[int]:
        """Redact the sentences of runs and of the audit that quote the text."""
        for quote in self._view.quotes(self.project, rendering.spellings(self._job.text)):
            text = rendering.redaction_sentence(quote.text, self._job.text)
            self.places += 1
            self._parts.rows.quotes.append(quote._replace(text=text))
            yield len(text)

    def _end_routes(self) -> Iterator[int]:
        """End the last good routes that use a rewritten version. The statuses of their Configurations follow when the
        routes are compiled again.
        """
        for name, encoded in self._view.past_routes(self.project).items():
            before = past = msgspec.json.decode(encoded, type=Past)
            for use, number in before.uses:
                if self.key.kind == "Configuration":
                    ends = self.key.name == name and before.version in self._rewritten
                else:
                    ends = self.key == Key("Destination", use) and number in self._rewritten
                past = delivery.route_without(past, use) if ends else past
            if past != before:
                past = structs.replace(past, at=self._job.context.at)
                row = records.PastRouteRow(self.project, name, int(bool(past.uses)), msgspec.json.encode(past))
                self._parts.rows.past_routes.append(row)
                yield 0

    def _audit_event(self) -> Iterator[int]:
        job, detail = self._job, f"versions rewritten: {len(self.versions)}; places: {self.places}"
        event = (job.context.at, self.project, job.actor, "redacted", *self.key)
        self._parts.rows.audit.append(records.AuditRow(*event, request=job.request, detail=detail))
        yield 0
