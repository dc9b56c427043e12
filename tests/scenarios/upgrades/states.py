"""State directories of earlier versions: how one is kept, laid out anew, started, and asked for all that it says.

Belongs here: what the script that makes one and the test that starts one have in common. Does not: what stands in one
(`make_state`), nor what may differ (`test_upgrades`).

An archive holds the state directory without what the service makes again (mirrors, logs of the databases), the Git
repositories that it follows, and what the version that made it answered. It names no place: repositories are found in
the folder that a test gives, and endpoints behind a proxy, which is the test's own.
"""

import base64
import hashlib
import io
import json
import lzma
import sqlite3
import struct
import tarfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests import daemons
from tests.daemons import Daemon
from tests.repositories import Repository
from tests.servers.sinks import Sink

FOLDER = Path(__file__).parent
ENVIRONMENT = {"DESTINATION_DEFAULT__TOKEN": "canary-of-the-environment", "DESTINATION_SHOP__TOKEN": "canary-of-shop"}
# Of each: what is there besides its name, path and project.
REPOSITORIES: Mapping[str, Mapping[str, object]] = {
    "telemetry": {"project": "default"},
    "lenient": {"project": "shop", "acceptInvalid": True},
    "fleets": {"project": "edge"},
    "paused": {"project": "edge"},
    "broken": {"project": "edge"},
    "gone": {"project": "edge"},
    "spent": {"project": "edge"},
    "dropped": {"project": "edge"},
}
MISSING = frozenset({"gone"})  # which cannot be reached
DROPPED = frozenset({"dropped"})  # which the settings name no more
ALERTS = "alerts.example.com"  # an endpoint for alerts
PROJECTS = ("default", "edge", "shop")
KINDS = (
    "AgentVersion",
    "Configuration",
    "Connector",
    "ConnectorType",
    "Destination",
    "DestinationType",
    "Extension",
    "ExtensionType",
    "Fleet",
    "Processor",
    "ProcessorType",
    "Source",
    "SourceType",
)
# Of the machine that looks, or of the seconds since the start; how full a queue is, is counted in another way since.
PASSING = frozenset({"DiskLow", "LogsUnrouted", "StoreDegraded", "DeliveryFailing", "QueueNearlyFull"})
FRAME = struct.Struct("<4sBBHIIQQII")  # docs/queue-format.md
SEGMENT_HEAD_BYTES = 64


def daemon(folder: Path, *, proxy: str) -> Daemon:
    """The service on a state directory in `folder/state`, with repositories in `folder/repositories`."""
    return Daemon(
        folder,
        repositories=followed(folder, *(name for name in REPOSITORIES if name not in DROPPED)),
        settings={
            "alerts": [{"name": "operators", "url": f"http://{ALERTS}:8080/"}],
            "api": {"apiVersions": ["telemetry.example/v1"]},
            "outbound": {"proxy": proxy},
            "notifications": {"interval": "250ms", "retention": "8784h"},
            "audit": {"retention": "8784h"},
            "delivery": {"deadLetters": {"maxAge": "8784h"}, "drainTimeout": "250ms"},
            "auth": {"session": {"idle": "8784h", "lifetime": "8784h"}},
        },
        environment=ENVIRONMENT,
    )


def followed(folder: Path, *names: str) -> list[dict[str, object]]:
    """Repositories in a folder, for the settings."""
    return [daemons.watched(name, folder / "repositories" / name, **REPOSITORIES[name]) for name in names]


# The archive


def pack(archive: Path, folder: Path, *, answers: object = None) -> None:
    """Keep a folder of a service that was stopped: the same bytes for the same content."""
    for name in ("store.db", "ops.db"):
        with closing(sqlite3.connect(folder / "state" / name)) as connection:
            connection.execute("pragma wal_checkpoint(truncate)")
            connection.execute("vacuum")
    told = io.BytesIO()
    with tarfile.open(fileobj=told, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in _kept(folder):
            _add(tar, str(path.relative_to(folder)), path.read_bytes())
        if answers is not None:
            _add(tar, "answers.json", json.dumps(answers, indent=1, sort_keys=True).encode())
    archive.write_bytes(lzma.compress(told.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def unpack(archive: Path, folder: Path) -> Any:
    """Lay out what an archive holds; what the version that made it answered."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "r:xz") as tar:
        tar.extractall(folder, filter="data")
    for path in (folder / "state").rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    (folder / "state").chmod(0o700)
    for name in REPOSITORIES:
        git = folder / "repositories" / name / ".git"
        if git.exists():
            for needed in ("objects", "refs"):  # empty folders are not in an archive, and git asks for these
                (git / needed).mkdir(exist_ok=True)
    _follow_here(folder)
    answers = folder / "answers.json"
    return json.loads(answers.read_text()) if answers.exists() else None


def grow_young(folder: Path, *, since: datetime) -> None:
    """Move what ends with time by as much as passed since an archive was made, so that it is as old as it was then.

    These are sessions, alerts, ends of keys, what was pruned within 24 hours, and dead letters. No test waits for
    years, and no test patches the clock of a daemon.
    """
    passed = datetime.now(UTC) - since
    state = folder / "state"
    with closing(sqlite3.connect(state / "ops.db")) as operations, operations:
        _move(operations, "session", ("created_at", "seen_at"), passed)
        _move(operations, "alert", ("made_at",), passed)
    with closing(sqlite3.connect(state / "store.db")) as store, store:
        _move(store, "api_key", ("expires_at",), passed)
        milliseconds = int(passed.total_seconds() * 1000)
        store.execute("update prune_ledger set at = at + ?", (milliseconds,))
    for segment in sorted(state.glob("queues/*/*/dead/*.seg")):
        mark = json.loads((segment.parents[1] / "queue.json").read_text())["mark"]
        segment.write_bytes(_younger(segment.read_bytes(), mark=mark, passed=passed))


def _kept(folder: Path) -> Iterator[Path]:
    """The files that an archive has."""
    left_out = ("mirrors", "git")
    for path in sorted((folder / "state").rglob("*")):
        parts = path.relative_to(folder / "state").parts
        made_again = parts[0] in left_out or path.name.endswith(("-wal", "-shm", "lock"))
        if path.is_file() and not path.is_symlink() and not made_again:
            yield path
    for name in sorted(REPOSITORIES):
        git = folder / "repositories" / name / ".git"
        if name not in MISSING | DROPPED:
            yield git / "HEAD"
            yield git / "config"
            yield git / "packed-refs"
            yield from sorted((git / "objects" / "pack").glob("*"))


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mode = 0o600
    tar.addfile(entry, io.BytesIO(content))


def _follow_here(folder: Path) -> None:
    """Let the store know the repositories in this folder as those that it followed.

    It keeps a digest of each URL and of what was followed there; another one would be another repository.
    """
    with closing(sqlite3.connect(folder / "state/store.db")) as store, store:
        for name in REPOSITORIES:
            url = str(folder / "repositories" / name)
            followed = json.dumps([url, ["main", None, None, None]], separators=(",", ":"), ensure_ascii=False)
            digest = hashlib.sha256(followed.encode()).hexdigest()
            store.execute("update repository set origin = ? where name = ? and origin is not null", (digest, name))


def _move(connection: sqlite3.Connection, table: str, columns: Sequence[str], passed: timedelta) -> None:
    for column in columns:
        rows = connection.execute(f"select distinct {column} from {table} where {column} is not null").fetchall()  # noqa: S608
        for (old,) in rows:
            moved = (datetime.fromisoformat(old) + passed).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
            connection.execute(f"update {table} set {column} = ? where {column} = ?", (moved, old))  # noqa: S608


def _younger(segment: bytes, *, mark: int, passed: timedelta) -> bytes:
    """A segment of dead letters that died later by what passed."""
    moved, moved_by = bytearray(segment), int(passed.total_seconds() * 1000)
    at = SEGMENT_HEAD_BYTES
    while at + FRAME.size <= len(segment):
        head = FRAME.unpack_from(segment, at)
        size, when = head[4], head[7]
        payload = segment[at + FRAME.size : at + FRAME.size + size]
        [length] = struct.unpack_from("<I", payload)
        story = payload[4 : 4 + length]
        told = json.loads(story)
        for member in ("at", "takenAt"):
            story = story.replace(
                f'"{member}":{told[member]}'.encode(), f'"{member}":{told[member] + moved_by}'.encode()
            )
        assert len(story) == length
        payload = payload[:4] + story + payload[4 + length :]
        when += moved_by
        begun = FRAME.pack(*head[:7], when, zlib.crc32(payload), 0)[:-4]
        moved[at : at + FRAME.size] = begun + struct.pack("<I", zlib.crc32(begun, mark))
        moved[at + FRAME.size : at + FRAME.size + size] = payload
        at += FRAME.size + size
    return bytes(moved)


# What a service says


def settle(running: Daemon) -> None:
    """Wait until each repository was read, and delivery knows its routes."""

    def read() -> bool:
        shown = running.get("/v1/repositories").body["repositories"]
        states = {one["name"]: one["state"] for one in shown}
        return all(state != "never-read" for state in states.values())

    daemons.until(read, "each repository was read")
    for name in REPOSITORIES:
        if name in running.repositories and name not in MISSING and running.repository(name)["state"] != "suspended":
            running.reconcile(name)
    for project in PROJECTS:
        daemons.until(
            lambda project=project: running.get("/v1/deliveries", project=project).status == 200,  # type: ignore[misc]
            f"the routes of {project} are read",
        )


def answers(running: Daemon, *, keys: Mapping[str, str], people: Mapping[str, str], cookie: str) -> dict[str, Any]:
    """All that a service says which an upgrade must not change. Keys are by name, people have their passwords."""
    return {
        "resources": {project: _resources(running, project) for project in PROJECTS},
        "deliveries": {project: _deliveries(running, project) for project in PROJECTS},
        "repositories": _repositories(running),
        "runs": _last_runs(running),
        "projects": running.get("/v1/projects").body["projects"],
        "members": {name: running.get(f"/v1/projects/{name}/members").body["members"] for name in PROJECTS},
        "users": running.get("/v1/users").body["users"],
        "keys": _keys(running),
        "works": {name: works(running, key) for name, key in sorted(keys.items())},
        "me": {name: me(running, {"Authorization": f"Bearer {key}"}) for name, key in sorted(keys.items())},
        "people": {name: me(running, basic(name, password)) for name, password in sorted(people.items())},
        "session": me(running, {"Cookie": cookie}),
        "notifications": notifications(running, people),
    }


def basic(name: str, password: str) -> dict[str, str]:
    """The header of somebody who has a password."""
    return {"Authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


def alerts(sink: Sink, titles: Mapping[str, str] | None = None) -> list[list[str]]:
    """The alerts that arrived about what lasts: the event, the type and the title, each once. Of notifications that
    had these titles by their ids, the title then: an alert has the present one.
    """
    found = set()
    for one in [taken.json for taken in list(sink.accepted) if f"//{ALERTS}:" in taken.path]:
        metadata, kind = one["notification"]["metadata"], one["notification"]["spec"]["notificationType"]
        if kind not in PASSING:
            found.add((one["event"], kind, (titles or {}).get(metadata["id"], metadata["displayName"])))
    return sorted(map(list, found))


def me(running: Daemon, headers: Mapping[str, str]) -> list[Any]:
    """The status and what /v1/me says of the caller."""
    answer = running.ask("GET", "/v1/me", None, headers)
    return [answer.status, answer.body]


def works(running: Daemon, key: str) -> list[int]:
    """Return what becomes of a request of each kind with a key."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    asked: tuple[tuple[str, str, bytes | None], ...] = (
        ("GET", "/v1/resources/Fleet", None),
        ("GET", "/v1/resources/Configuration/raw/raw", None),
        ("POST", "/v1/apply?dryRun=true", b'{"resources": []}'),
        ("GET", "/v1/api-keys", None),
        ("POST", "/v1/logs", b"{}"),
    )
    return [running.status(method, path, body, headers) for method, path, body in asked]


def notifications(running: Daemon, people: Mapping[str, str]) -> dict[str, Any]:
    """Those that are open, by type and description, with the status that each person gave them."""
    seen: dict[str, Any] = {}
    for person, password in sorted(people.items()):
        found = running.ask("GET", "/v1/api/notifications", None, basic(person, password)).body["notifications"]
        for one in found:
            if one["metadata"]["labels"]["service/state"] == "open" and one["spec"]["notificationType"] not in PASSING:
                shown = seen.setdefault(
                    one["metadata"]["id"],
                    {
                        "type": one["spec"]["notificationType"],
                        "account": one["spec"].get("account", ""),
                        "severity": one["spec"]["severity"],
                        "title": one["metadata"]["displayName"],
                        "occurrences": one["metadata"]["labels"]["service/occurrences"],
                        "status": {},
                    },
                )
                shown["status"][person] = one["status"]["userStatus"]
    return seen


def _resources(running: Daemon, project: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind in KINDS:
        for one in running.resources(kind, project=project):
            name = one["metadata"]["name"]
            if one["status"]["source"]["type"] == "builtin":
                continue
            alone = running.resource(kind, name, project=project)
            history = running.history(kind, quote(name), project=project)
            found[f"{kind}/{name}"] = {"listed": one, "history": history}
            assert alone == one, (kind, name)
    return found


def _deliveries(running: Daemon, project: str) -> dict[str, Any]:
    """Return what waits and what died: not what was tried since the start."""
    found = running.get("/v1/deliveries", project=project).body["deliveries"]
    return {
        one["destination"]: {
            "configurations": one["configurations"],
            "queue": {name: one["queue"][name] for name in ("kind", "batches", "records", "bytes")},
            "dead": {name: one["deadLetters"][name] for name in ("batches", "records", "bytes")},
        }
        for one in found
    }


def _repositories(running: Daemon) -> dict[str, Any]:
    members = ("project", "branch", "state", "commit", "head", "held", "drift")
    found = running.get("/v1/repositories").body["repositories"]
    return {one["name"]: {name: one[name] for name in members if name in one} for one in found}


def _last_runs(running: Daemon) -> dict[str, Any]:
    """Return what the last reading of each repository came to."""
    told = {}
    for name in sorted(running.repositories):
        finished = [run for run in running.runs(name, limit=5) if run["phase"] == "finished"]
        if finished:
            whole = running.run(finished[0]["id"])
            told[name] = {
                "commit": whole["commit"],
                "outcome": whole["outcome"],
                "statuses": [[one["status"], one["kind"], one["name"]] for one in whole["statuses"]],
            }
    return told


def _keys(running: Daemon) -> list[Any]:
    """All keys, whether each has an end instead of when, and not when it was used last."""
    found = running.get("/v1/api-keys").body["apiKeys"]
    return [{**one, "expiresAt": one["expiresAt"] is not None, "lastUsedAt": None} for one in found]


def repository(folder: Path, name: str) -> Repository:
    """A repository of the state, to be written."""
    return Repository.init(folder / "repositories" / name)


def store_version(state: Path) -> int:
    """The version of the store's form."""
    with closing(sqlite3.connect(state / "store.db")) as store:
        return int(store.execute("pragma user_version").fetchone()[0])
