"""Whole small worlds in one process: bare repositories, a store file, real plans and the real writer; no daemon.

    with worlds.world(["a", "b"]) as world:
        world.push("a", {"one.yaml": text})
        world.settle()

Belongs here: doing what the daemon does, one thing at a time: looking at a repository when something says so, planning
requests, storing plans. Does not: what must hold afterwards, nor which documents to try.
"""

import contextlib
import hashlib
import itertools
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pygit2

from reconciler.git.faults import RepositoryState
from reconciler.git.refs import RefHead
from reconciler.git.snapshots import Snapshot
from reconciler.model import desired, values
from reconciler.model.clock import rfc3339
from reconciler.model.plan import PlanEntry
from reconciler.model.principals import Actor, Role
from reconciler.model.repository_rules import RepositoryRules
from reconciler.model.routes import Routes
from reconciler.model.secret_references import AvailableSecrets
from reconciler.reconcile import runs
from reconciler.reconcile.runs import Run, Trigger
from reconciler.store import commit, damage
from reconciler.store.records import Changes, Record
from reconciler.store.repository_records import RepositoryRow
from reconciler.worker import commits, projections, requests, reviews
from reconciler.worker.messages import (
    ApplyOptions,
    CommitJob,
    CommitPlanned,
    Context,
    ProjectRepository,
    RenderJob,
    RequestJob,
    RequestPlanned,
    ReviewJob,
    RoutesJob,
    Verb,
)
from reconciler.worker.trees import Allowance
from tests import entries
from tests.commit_jobs import finished
from tests.kept import Kept, kept

PROJECT = "default"
HMAC_KEY = b"k" * 32
API_VERSIONS = frozenset({"service/v1"})
BEGIN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECRETS = AvailableSecrets(env=frozenset({"DESTINATION_DEFAULT__TOKEN"}))  # what resources may refer to
UNBOUNDED = 10**9  # deletions: the budget has tests of its own
ROUNDS = 30  # looks until a world is settled; the longest chain of references is shorter by far
SIGNATURE = "Ada Lovelace", "ada@example.com"


@dataclass(frozen=True, slots=True)
class Following:
    """How a repository is followed."""

    accept_invalid: bool = False
    atomic: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Options:
    """The query parameters of a request, and who asks."""

    accept_invalid: bool = False
    atomic: bool = False
    dry_run: bool = False
    role: str = "admin"


ASKED = Options()


class Told(NamedTuple):
    """One status of a run that is not `unchanged`."""

    kind: str | None
    name: str | None
    status: str
    reason: str | None
    path: str | None
    line: int | None
    notes: str | None = None


@dataclass(frozen=True, slots=True)
class Ran:
    """A planned commit with its parts."""

    planned: CommitPlanned
    parts: tuple[Changes, ...] = field(repr=False)

    @property
    def told(self) -> list[Told]:
        """Return what the run tells, in one order: that of files is not the same when other files are read."""
        rows = (row for part in self.parts for row in part.statuses)
        return sorted((Told(*row[2:]) for row in rows), key=repr)

    @property
    def changes(self) -> list[tuple[Any, ...]]:
        """The rows that change resources."""
        found = (
            (*part.versions, *part.references, *part.heads, *part.head_statuses, *part.removed) for part in self.parts
        )
        return [row for rows in found for row in rows]


@dataclass(frozen=True, slots=True)
class Answered:
    """A planned request with its parts and its answer."""

    planned: RequestPlanned
    parts: tuple[Changes, ...] = field(repr=False)

    @property
    def body(self) -> Any:
        """The answer's JSON."""
        return json.loads(self.planned.answer)

    @property
    def statuses(self) -> list[str]:
        """The status of each item, in order; none when the request was refused as a whole."""
        return [update["status"] for update in self.body.get("updates", ())]


class Mirror:
    """A bare repository as a fetch leaves it: every object in a pack."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._repository = pygit2.init_repository(str(path), bare=True)
        self._seconds = itertools.count(1_700_000_000, 60)

    def commit(self, files: Mapping[str, str]) -> str:
        """A commit of exactly these files upon the one before; its id."""
        parents = [] if self._repository.is_empty else [str(self._repository.references["refs/heads/main"].target)]
        return self._commit("refs/heads/main", files, parents)

    def propose(self, files: Mapping[str, str], *, onto: str) -> str:
        """A commit of exactly these files upon this one, which no branch holds; its id."""
        return self._commit(None, files, [onto])

    def _commit(self, ref: str | None, files: Mapping[str, str], parents: list[str]) -> str:
        pack = pygit2.PackBuilder(self._repository)
        pack.set_threads(1)
        tree = self._folder(_nested(files), pack)
        signature = pygit2.Signature(*SIGNATURE, next(self._seconds))
        made = self._repository.create_commit(
            ref, signature, signature, "Change", tree, [pygit2.Oid(hex=parent) for parent in parents]
        )
        pack.add(made)
        pack.write(str(self.path / "objects" / "pack"))
        return str(made)

    def _folder(self, entries: Mapping[str, Any], pack: pygit2.PackBuilder) -> pygit2.Oid:
        builder = self._repository.TreeBuilder()
        for name, entry in entries.items():
            if isinstance(entry, str):
                made = self._repository.create_blob(entry.encode())
                pack.add(made)
                builder.insert(name, made, pygit2.enums.FileMode.BLOB)
            else:
                builder.insert(name, self._folder(entry, pack), pygit2.enums.FileMode.TREE)
        made = builder.write()
        pack.add(made)
        return made


class World:
    """Repositories that fill one project, and the store."""

    def __init__(self, store: Kept, following: Mapping[str, Following], *, mirrors: Mapping[str, Mirror]) -> None:
        self.following = dict(following)
        self.mirrors = dict(mirrors)
        self.heads: dict[str, str] = {}  # the newest commit of each
        self.rows: dict[str, RepositoryRow] = {}  # what a reconciler remembers
        self.waiting: set[str] = set()  # those that look again whenever the store changes
        self.due: set[str] = set()  # those that something says to look at
        self.secrets = SECRETS
        self.now = BEGIN
        self.number = 0
        self.masked = 0  # versions that commits of this world rewrote
        self.kept = store
        self.view, self.address = store.view, store.address
        store.writer.run("put_project", PROJECT, rfc3339(BEGIN))

    @contextlib.contextmanager
    def fork(self) -> "Iterator[World]":
        """The same world once more, of which nothing comes back; the repositories are shared."""
        with self.kept.fork() as store:
            other = World(store, self.following, mirrors=self.mirrors)
            other.heads, other.rows = dict(self.heads), dict(self.rows)
            other.waiting, other.due = set(self.waiting), set(self.due)
            other.secrets = self.secrets
            other.now, other.number = self.now, self.number
            yield other

    # What happens outside

    def push(self, repository: str, files: Mapping[str, str]) -> str:
        """A new head that holds exactly these files; nobody has looked yet."""
        self.heads[repository] = self.mirrors[repository].commit(files)
        self.due.add(repository)
        return self.heads[repository]

    def follow(self, repository: str, following: Following) -> None:
        """Other settings: what they shape is read again, whole, at the next look."""
        self.following[repository] = following
        self.due.add(repository)

    def apply(self, resources: Sequence[Any], options: Options = ASKED) -> Answered:
        """POST /apply."""
        return self._request(Verb.APPLY, {"resources": list(resources)}, options)

    def delete(self, resources: Sequence[Any], options: Options = ASKED) -> Answered:
        """POST /delete."""
        return self._request(Verb.DELETE, list(resources), options)

    def age(self, document: Mapping[str, Any]) -> None:
        """Make the stored resource what an earlier version, whose rules were others, would have stored of this."""
        kind, name = document["kind"], document["metadata"]["name"]
        [row] = self.all("select version, body, secrets from resource join version using (project, kind, name, version)"
                         " where kind = ? and name = ?", kind, name)  # fmt: skip
        body = json.loads(row["body"])
        owned = {key: document[key] for key in ("apiVersion", "kind", "metadata", "spec")}
        kept = {key: body["metadata"][key] for key in ("id", "version", "dateModified")}
        spec_hash = hashlib.sha256(values.canonical_json(owned["spec"])).hexdigest()
        body |= {**owned, "metadata": {**owned["metadata"], **kept, "hash": spec_hash}}
        text = values.canonical_json(body)
        checksum = damage.checksum_of(text, row["secrets"])
        which = (kind, name, row["version"])
        self.all("update version set body = ?, checksum = ? where kind = ? and name = ? and version = ?",
                 text, checksum, *which)  # fmt: skip
        digest = desired.digest(owned, hmac_key=HMAC_KEY)
        self.all("update resource set digest = ? where kind = ? and name = ?", digest, kind, name)

    # What the daemon does

    def look(self, repository: str) -> Ran | None:
        """The look that is due, if one is."""
        if repository not in self.due:
            return None
        self.due.remove(repository)
        self._pass_time()
        row = self.rows.get(repository)
        ran = self.plan(repository, full=row is None or self._is_followed_anew(repository))
        self.record(repository, ran)
        return ran

    def settle(self) -> None:
        """Look as long as looks are due. Fails when there is no end of it."""
        for _ in range(ROUNDS):
            if not self.due:
                return
            for repository in sorted(self.due):
                self.look(repository)
        raise AssertionError(f"still due after {ROUNDS} rounds: {self.due}")

    def read_all(self, repository: str) -> Ran:
        """`fullInterval` is over: read everything."""
        self.due.discard(repository)
        self._pass_time()
        ran = self.plan(repository, full=True)
        self.record(repository, ran)
        return ran

    def restart(self) -> None:
        """A new process knows what is stored, and looks where it cannot be sure."""
        reader = self.kept.writer
        self.due.clear()
        for name in self.heads:
            found = reader.first("repository", name)
            row = None if found is None else RepositoryRow(*found)
            assert row == self.rows.get(name)
            if row is None or row.head != self.heads[name] or self._is_followed_anew(name):
                self.due.add(name)
            was_refused = row is not None and row.head is not None and row.tree is None
            if was_refused or reader.value("waits_for_store", name):
                self.waiting.add(name)
                self.due.add(name)
            else:
                self.waiting.discard(name)

    def plan(self, repository: str, *, full: bool) -> Ran:
        """A plan of the newest head, not stored."""
        with self.read(repository, full=full) as finish:
            return finish()

    @contextlib.contextmanager
    def read(self, repository: str, *, full: bool) -> Iterator[Callable[[], Ran]]:
        """The newest head as it is read; what is yielded plans it, not stored."""
        job, allowance, parts = self.commit_job(repository, full=full), Allowance(), list[Changes]()
        with Snapshot.open(Path(job.mirror), job.commit) as snapshot:
            steps = commits.plan_commit(job, snapshot, self.view, emit=parts.append, allowance=allowance)
            next(steps)
            yield lambda: Ran(finished(steps), tuple(parts))

    def review(self, repository: str, head: str, *, base: str | None = None) -> PlanEntry:
        """Return what merging a commit into the newest head would do; or into `base`, which nobody follows."""
        planned = reviews.plan_review(self.review_job(repository, head, base=base), self.view, allowance=Allowance())
        assert not planned.conflicts
        return msgspec.msgpack.decode(planned.entry, type=PlanEntry)

    def request(self, verb: Verb, body: Any, options: Options) -> Answered:
        """A planned request, not stored."""
        return self.request_text(verb, json.dumps(body).encode(), options)

    def request_text(self, verb: Verb, body: bytes, options: Options = ASKED) -> Answered:
        """A planned request whose body may be anything, not stored."""
        parts: list[Changes] = []
        job = RequestJob(
            context=self._context(),
            verb=verb,
            actor=Actor(f"key:{options.role}", Role(options.role)),
            request=f"request-{self.number}",
            body=body,
            max_resources=10_000,
            options=ApplyOptions(atomic=options.atomic, dry_run=options.dry_run, accept_invalid=options.accept_invalid),
        )
        planned = finished(requests.plan_request(job, self.view, emit=parts.append))
        return Answered(planned, tuple(parts))

    def routes(self, *left: str) -> tuple[Routes, tuple[Changes, ...]]:
        """Return what the project routes, and the statuses that say otherwise, which are not stored."""
        parts: list[Changes] = []
        job = RoutesJob(self._context(), left)
        ended = projections.find_routes(job, self.view, emit=parts.append)
        assert ended.restated == sum(len(part.head_statuses) for part in parts)
        return msgspec.msgpack.decode(ended.routes, type=Routes), tuple(parts)

    def render(self) -> list[str]:
        """Render what is due, and store it; the names of it. On a busy machine one job does not do all."""
        names, is_all = list[str](), False
        while not is_all:
            parts: list[Changes] = []
            is_all = projections.render_project(RenderJob(self._context()), self.view, emit=parts.append).is_all
            self.store(*parts)
            names += [row.configuration for part in parts for row in part.renderings]
        return names

    def store(self, *parts: Changes) -> None:
        """Write what was planned."""
        commit.commit(self.kept.writer, parts, record=Record())

    def turn_back(self) -> None:
        """The next request comes at the time and with the randomness of the last one."""
        self.number -= 1
        self.now -= timedelta(seconds=1)

    # What is there

    def all(self, statement: str, *arguments: object) -> list[dict[str, Any]]:
        """Return what a statement finds, rows as dictionaries."""
        return self.kept.all(statement, *arguments)

    @property
    def revision(self) -> int:
        """How often what is stored has changed."""
        with self.view.snapshot() as revision:
            return revision

    def stored(self) -> list[dict[str, Any]]:
        """Every resource with its version, by kind and name."""
        return self.all(
            "select r.*, v.body, v.secrets, o.head, o.tail from resource r"
            " join version v using (project, kind, name, version) join origin o on o.id = coalesce(r.origin, v.origin)"
            " order by r.kind, r.name"
        )

    def _request(self, verb: Verb, body: Any, options: Options) -> Answered:
        self._pass_time()
        answered = self.request(verb, body, options)
        if answered.planned.changed:
            commit.commit(self.kept.writer, answered.parts, record=Record())
            self.masked += sum(len(part.rewritten) for part in answered.parts)
            self._tell(None, answered.planned.touched)
        return answered

    def _is_followed_anew(self, repository: str) -> bool:
        """Return True when the settings are others than those that it was read by."""
        return self.rows[repository].fingerprint != repr(self.following[repository])

    def _pass_time(self) -> None:
        self.number += 1
        self.now += timedelta(seconds=1)

    def _context(self) -> Context:
        return Context(
            store=self.address,
            project=PROJECT,
            hmac_key=HMAC_KEY,
            api_versions=API_VERSIONS,
            at=rfc3339(self.now),
            milliseconds=int(self.now.timestamp() * 1000),
            seed=self.number.to_bytes(16, "big"),
            secrets=self.secrets,
        )

    def review_job(self, repository: str, head: str, *, base: str | None = None) -> ReviewJob:
        """The review of `review`."""
        newest = self.commit_job(repository, full=False)
        into = msgspec.structs.replace(newest, commit=base or newest.commit)
        return ReviewJob(commit=into, head=head, followed=base is None)

    def commit_job(self, repository: str, *, full: bool) -> CommitJob:
        """The plan of `plan`."""
        files = self._files(repository)
        return CommitJob(
            context=self._context(),
            rules=files.rules,
            mirror=str(self.mirrors[repository].path),
            commit=self.heads[repository],
            branch=files.branch,
            run=f"run-{self.number}",
            full=full,
            origin="",
            neighbours=tuple(self._files(name) for name in sorted(self.heads) if name != repository),
        )

    def _files(self, repository: str) -> ProjectRepository:
        following = self.following[repository]
        rules = RepositoryRules(
            name=repository,
            prune_min_count=UNBOUNDED,
            prune_max_percent=100,
            atomic=following.atomic,
            accept_invalid=following.accept_invalid,
            include=following.include,
            exclude=following.exclude,
        )
        return ProjectRepository(rules=rules, branch="main")

    def record(self, repository: str, ran: Ran) -> None:
        """As the reconciler's exit: a second look that finds what the last one told is not stored."""
        planned, before = ran.planned, self.rows.get(repository)
        row = self._row(repository, planned, before)
        told = before is not None and (before.head, before.state, before.message) == (row.head, row.state, row.message)
        stored = planned.changed or planned.held_changed or planned.index_changed
        if not (told and not stored and not planned.full):
            is_free = planned.hold is None and not planned.refused
            record = Record(
                repository=row,
                forget_files_of=repository if planned.full and not planned.refused else None,
                forget_held_of=repository if planned.held_changed else None,
                forget_approval_of=repository if is_free else None,
            )
            commit.commit(self.kept.writer, ran.parts, record=record)
            self.rows[repository] = row
            self.masked += sum(len(part.rewritten) for part in ran.parts)
            self._tell(repository, planned.touched, changed=planned.changed)
        (self.waiting.add if planned.waits_for_store else self.waiting.discard)(repository)

    def _row(self, repository: str, planned: CommitPlanned, before: RepositoryRow | None) -> RepositoryRow:
        run = Run("run", repository, PROJECT, Trigger.POLL, "system", started=self.now, planned=planned)
        run.fingerprint, run.head = repr(self.following[repository]), RefHead("refs/heads/main", self.heads[repository])
        unread = runs.unread_row(entries.watched(repository, ""))
        return runs.judge_run(run, before or unread, origin="").row

    def _tell(self, origin: str | None, touched: Sequence[str], *, changed: bool = True) -> None:
        """A change wakes the repositories that wait for one, and whatever is stored those that it concerns."""
        for name in self.heads:
            if name != origin and ((changed and name in self.waiting) or name in touched):
                self.due.add(name)


@contextlib.contextmanager
def world(following: Mapping[str, Following]) -> Iterator[World]:
    """A world with an empty store and repositories without a commit."""
    with tempfile.TemporaryDirectory() as folder:
        made = make(Path(folder), following)
        try:
            yield made
        finally:
            made.kept.close()


def make(folder: Path, following: Mapping[str, Following]) -> World:
    """The same in a folder of the caller's, who closes its store."""
    mirrors = {name: Mirror(folder / f"{name}.git") for name in sorted(following)}
    return World(kept(folder), following, mirrors=mirrors)


def is_held(world: World) -> bool:
    """Return True when a guard stops deletions somewhere."""
    return any(row.state != RepositoryState.READY for row in world.rows.values())


def _nested(files: Mapping[str, str]) -> dict[str, Any]:
    root: dict[str, Any] = {}
    for path, text in files.items():
        *folders, name = path.split("/")
        at = root
        for folder in folders:
            at = at.setdefault(folder, {})
        at[name] = text
    return root
