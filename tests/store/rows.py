"""Rows for the store's tests: small, whole, and told apart by name and version. What a store promises is not here."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace

from reconciler.model import values
from reconciler.model.names import Key
from reconciler.model.values import Value
from reconciler.planner.changes import origin_row
from reconciler.store.records import (
    AuditRow,
    Changes,
    HeadRow,
    HeadStatusRow,
    KeyRow,
    OriginRow,
    ReferenceRow,
    VersionRow,
)
from reconciler.store.repository_records import (
    ApprovalRow,
    FileRow,
    HeldRow,
    PruneRow,
    RepositoryRow,
    RunRow,
    StatusRow,
    WantedRow,
)

PROJECT = "default"
KIND = "Destination"
AT = "2026-11-21T06:12:00.000Z"


def key(name: str) -> Key:
    return Key(KIND, name)


def digest(name: str, version: int) -> bytes:
    return hashlib.sha256(f"{name} {version}".encode()).digest()


def body(name: str, version: int, padding: str = "") -> bytes:
    return json.dumps({"metadata": {"name": name, "version": version}, "spec": {"padding": padding}}).encode()


def sound_body(name: str, version: int, padding: str = "") -> bytes:
    """One as the program makes it, for a store in which it has no checksum yet."""
    spec: dict[str, Value] = {"padding": padding}
    spec_hash = hashlib.sha256(values.canonical_json(spec)).hexdigest()
    metadata: dict[str, Value] = {"hash": spec_hash, "name": name, "version": version}
    return values.canonical_json({"kind": KIND, "metadata": metadata, "spec": spec})


def origin(version: int = 1, source: Mapping[str, Value] | None = None) -> OriginRow:
    """Return where the versions of this number come from, or those of a source that has no `path` and `line`."""
    own: dict[str, Value] = {"type": "api", "actor": "key:test", "version": version}
    told = own if source is None else source
    return origin_row(told, actor="key:test", run=None, request="a request", created_at=AT)


def source(version: int) -> dict[str, object]:
    """Return what a reader gets of it."""
    row = origin(version)
    told: dict[str, object] = json.loads(row.head + row.tail)
    return told


STATUS = b'{"latest":true}'


def shown(name: str, version: int, *, latest: bool = True) -> dict[str, object]:
    """Return what a reader gets of a stored resource: of the present version, or of an older one in the history."""
    told = {"source": source(version)}
    resource: dict[str, object] = json.loads(body(name, version))
    return resource | {"status": {"latest": True} | told if latest else told}


def version(name: str, number: int = 1, *, project: str = PROJECT, padding: str = "") -> VersionRow:
    return VersionRow(
        project=project,
        kind=KIND,
        name=name,
        version=number,
        body=body(name, number, padding),
        secrets=None,
        origin=origin(number).id,
        path=None,
        line=None,
    )


def head(
    name: str,
    number: int = 1,
    *,
    project: str = PROJECT,
    owner: str | None = None,
    path: str | None = None,
    line: int | None = None,
) -> HeadRow:
    return HeadRow(
        project=project,
        kind=KIND,
        name=name,
        version=number,
        resource_id=f"id-{name}",
        digest=digest(name, number),
        owner=owner,
        path=path,
        line=line,
        protected=0,
        incomplete=0,
        status=STATUS,
    )


def head_status(name: str, *lines: str, project: str = PROJECT) -> HeadStatusRow:
    """The status of a resource of which this is missing."""
    told = json.dumps({"incomplete": lines, "of": name}).encode()
    return HeadStatusRow(project=project, kind=KIND, name=name, incomplete=int(bool(lines)), status=told)


def referring(name: str, *targets: str, number: int = 1, project: str = PROJECT) -> Changes:
    """A part that stores a version of a resource that refers to these."""
    refer = [ReferenceRow(project, KIND, name, KIND, target) for target in targets]
    return replace(stored(name, number=number, project=project), references=refer)


def audit(name: str, number: int = 1, *, action: str = "created", project: str = PROJECT) -> AuditRow:
    return AuditRow(
        at=AT,
        project=project,
        actor="key:test",
        action=action,
        kind=KIND,
        name=name,
        version_before=number - 1 or None,
        version_after=number,
        run=None,
        request="a request",
    )


def stored(*names: str, number: int = 1, project: str = PROJECT, padding: str = "") -> Changes:
    """A part that stores a version of each of these resources."""
    return Changes(
        origins=[origin(number)],
        versions=[version(name, number, project=project, padding=padding) for name in names],
        heads=[head(name, number, project=project) for name in names],
        audit=[audit(name, number, project=project) for name in names],
    )


def removed(*names: str) -> Changes:
    return Changes(removed=[KeyRow(PROJECT, KIND, name) for name in names])


def file(path: str, *, repository: str = "telemetry", vacant: str | None = None) -> FileRow:
    return FileRow(repository=repository, path=path, blob="b" * 40, vacant=vacant)


def wanted(
    path: str, name: str | None, *, position: int = 0, repository: str = "telemetry", unconverged: str | None = None
) -> WantedRow:
    kind = None if name is None else KIND
    return WantedRow(
        repository=repository,
        path=path,
        position=position,
        kind=kind,
        name=name,
        digest=digest(str(name), 1),
        unconverged=unconverged,
    )


def run(identifier: str, *, repository: str = "telemetry", message: str | None = None) -> RunRow:
    return RunRow(
        id=identifier,
        project=PROJECT,
        repository=repository,
        trigger="watch",
        actor=f"git:{repository}",
        commit="c" * 40,
        outcome="succeeded",
        message=message,
        counts=b'{"created":2}',
        rewound=0,
        started_at=AT,
        finished_at=AT,
        duration_ms=12,
    )


def run_status(
    identifier: str, ordinal: int, *, name: str = "a", reason: str | None = None, notes: str | None = None
) -> StatusRow:
    told = "created" if reason is None else "invalid"
    place = ("a.yaml", ordinal)
    return StatusRow(identifier, ordinal, KIND, name, told, reason, *place, notes)


def pruned(at: int, *, owned: int = 10, deleted: int = 1, repository: str = "telemetry") -> Changes:
    return Changes(pruned=[PruneRow(repository=repository, at=at, owned=owned, deleted=deleted)])


def held(*names: str, why: str = "held", repository: str = "telemetry") -> Changes:
    return Changes(held=[HeldRow(repository=repository, kind=KIND, name=name, why=why) for name in names])


def approval(*, repository: str = "telemetry", commit: str = "c" * 40) -> ApprovalRow:
    return ApprovalRow(repository=repository, commit=commit, actor="key:test", at=AT)


def repository(name: str = "telemetry", *, state: str = "ready", approvable: int | None = None) -> RepositoryRow:
    return RepositoryRow(
        name=name,
        project=PROJECT,
        fingerprint="f" * 64,
        commit="c" * 40,
        tree="e" * 40,
        head="c" * 40,
        state=state,
        message=None,
        since=AT,
        origin="0" * 64,
        approvable=approvable,
    )
