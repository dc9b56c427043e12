"""Repositories: runs, approvals, suspensions, and hooks of forges."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path

import msgspec
from starlette.responses import Response

from api import access, auth, errors, replicas, requests, responses
from api.calls import Call, Services, Subject
from api.responses import Empty, Json, json_answer
from api.routing import Routes
from reconciler.git import hooks
from reconciler.git.hooks import SignatureCheck, SignatureVerdict
from reconciler.git.remotes.credentials import UnusableFile
from reconciler.model import forges
from reconciler.model.error_codes import ErrorCode
from reconciler.model.principals import Permission
from reconciler.ops.events import Topic
from reconciler.reconcile.reconciler import Reconciler
from reconciler.review import kept_plans
from reconciler.store.contract import StoreFault
from reconciler.store.repository_records import Held

routes = Routes()

HELD_SHOWN = 100  # resources whose deletion is held

# Watched repositories: their state, and requests for runs.


@routes.add("GET /v1/repositories", Subject.REACH, Permission.READ)
async def list_all(call: Call) -> Response:
    """List the repositories within reach by name. A request of another replica gets only those that this one
    follows.
    """
    repositories, projects = call.services.repositories, access.reach(call)
    every = repositories.reconcilers() if call.passed_on is None else repositories.followed()
    found = [one for one in every if access.is_within(projects, one.watched.project)]
    elsewhere = await _followed_elsewhere(call, [one.watched.name for one in found])
    shown = [elsewhere.get(one.watched.name) or await shown_repository(one, call.services) for one in found]
    return Json(responses.json_array(b"repositories", shown))


class _Shown(msgspec.Struct):
    repositories: list[msgspec.Raw]


class _Name(msgspec.Struct):
    name: str


async def _followed_elsewhere(call: Call, names: Sequence[str]) -> dict[str, bytes]:
    """Return the repositories that other replicas follow, as those replicas show them."""
    repositories = call.services.repositories
    holders = {repositories.holder(name) or "" for name in names if not repositories.follows(name)}
    if not holders:
        return {}
    answers = await replicas.ask_others(call, "/v1/repositories", among=holders)
    every = [bytes(one) for body in answers.values() for one in msgspec.json.decode(body, type=_Shown).repositories]
    return {msgspec.json.decode(one, type=_Name).name: one for one in every}


@routes.add("GET /v1/repositories/{name}", Subject.REPOSITORY, Permission.READ)
@replicas.at_holder
async def get(call: Call) -> Response:
    """Show one repository. With `wait`, answer when it differs from what the caller has, or changed since the
    request.
    """
    seconds = requests.wait_seconds(call)
    work = _changed(call, seconds=seconds)
    return await (responses.unless_gone(call.receive, work) if seconds else work)


async def _changed(call: Call, *, seconds: float) -> Response:
    events, clock, name = call.services.events, asyncio.get_running_loop().time, call.parameters["name"]
    until, first = clock() + seconds, None
    with events.followed_by(call.principal.name):
        while True:
            number = events.last  # taken before the repository is read, so that no change is missed
            body = await _repository(call)
            etag = responses.etag_header(body)
            held, first = requests.not_modified(call, etag), first or etag
            is_new = first != etag if b"if-none-match" not in call.named else held is None
            if is_new or clock() >= until or events.is_closed:
                return held or Json(body, headers=(etag,))
            await events.concern(Topic.REPOSITORY, name, after=number, seconds=until - clock())
            auth.again(call)


@routes.add("POST /v1/repositories/{name}/reconcile", Subject.REPOSITORY, Permission.RECONCILE)
@replicas.at_holder
async def reconcile(call: Call) -> Response:
    """Request a run."""
    requests.none_known(call.query)
    return _run(call.services.repositories.reconcile(call.parameters["name"], actor=call.actor))


def missing() -> errors.NotFound:
    """Return the error for an unknown repository."""
    return errors.NotFound(access.NO_REPOSITORY, code=ErrorCode.REPOSITORY_NOT_FOUND)


async def _repository(call: Call) -> bytes:
    found = call.services.repositories.reconciler(call.parameters["name"])
    if found is None:
        raise missing()
    return responses.json_member(b"repository", await shown_repository(found, call.services))


async def shown_repository(reconciler: Reconciler, services: Services) -> bytes:
    """Return the repository as a JSON object; with several replicas, with the one that follows it. Raises StoreFault.

    Stored facts are read from the store, so a caller who saw the end of a run there also sees its effect on the
    repository. If the last run's findings could not be written, for example on a full disk, they come from memory. So
    does everything on a replica without contact, except the number of drifted resources.
    """
    one, memory, following = reconciler.watched, reconciler.memory, reconciler.following
    store, repositories = services.store, services.repositories
    holder = {"holder": repositories.holder(one.name)} if repositories.is_shared else {}
    follows = reconciler.source.follows
    drift = None
    try:
        found, suspension, last_run, held = memory.remembered = await store.remembered(one.name, held=HELD_SHOWN)
        if suspension is not None:
            drift = await store.drift(one.name, project=one.project)
    except StoreFault:
        if services.contact is None or services.contact.stale_seconds is None:
            raise
        found, suspension, last_run, held = memory.row, memory.suspension, memory.last_run, Held(0, [])
        if found.approvable is not None:
            # Held resources are in memory only if they were shown since the last run.
            if memory.remembered is None or memory.remembered.row != found:
                raise
            held = memory.remembered.held
    row = found or memory.row
    state = memory.unwritten or row
    # Maybe only a file must be corrected, and nothing is held.
    holds = row.approvable is not None and (row.approvable != 0 or held.total != 0)
    head = memory.seen or row.head
    shown = suspension and {name: value for name, value in suspension._asdict().items() if name != "repository"}
    resources = [{"kind": key.kind, "name": key.name} for key in held.first]
    released = {
        "commit": row.head,
        "count": held.total,
        "approvable": bool(row.approvable),
        "resources": resources,
    }
    return msgspec.json.encode(
        {
            "name": one.name,
            "project": one.project,
            "url": one.url,
            "branch": one.branch,
            "follows": {"kind": follows.kind, "name": follows.name},
            "path": one.path,
            "state": state.state,
            "message": state.message,
            "since": state.since or None,
            "commit": row.commit,
            "head": head,
            "applied": following.facts(row.commit),
            "seen": None if head == row.commit else following.facts(head),
            "link": forges.line_pattern(one.url, one.web_url) or None,
            "commitLink": forges.commit_pattern(one.url, one.web_url) or None,
            "lastRun": last_run,
            "suspension": shown,
            "drift": drift,
            "held": released if holds else None,
            **holder,
        }
    )


def _run(run: str | None) -> Response:
    if run is None:
        raise missing()
    return json_answer({"run": run}, status=202)


# Approvals: the permission, and the commit. `planner.pruning` decides what an approval releases.

COMMIT = re.compile(r"[0-9a-f]{40}")


@routes.add("POST /v1/repositories/{name}/approve", Subject.REPOSITORY, Permission.APPROVE)
@replicas.at_holder
async def approve_repository(call: Call) -> Response:
    """Release the deletions that are held at a commit."""
    body = await requests.read_object(call, known=("commit",))
    commit = body.text("commit", required=True) or ""
    if commit and not COMMIT.fullmatch(commit):
        body.mistake("commit", "must be a commit's full id, 40 hexadecimal digits")
    body.check()
    name, services = call.parameters["name"], call.services
    return _run(await services.repositories.approve(name, commit=commit, actor=call.actor, request=call.request))


# Suspensions: the permission and the body. `reconcile.interventions` has the effects.

LONGEST_REASON = 500  # characters
# One line that begins with a visible character: no control characters, no separators of lines or paragraphs.
REASON = re.compile(r"[^\x00-\x20\x7f-\xa0\u2028\u2029][^\x00-\x1f\x7f-\x9f\u2028\u2029]*")


@routes.add("POST /v1/repositories/{name}/suspend", Subject.REPOSITORY, Permission.SUSPEND)
@replicas.at_holder
async def suspend(call: Call) -> Response:
    """Suspend a repository."""
    body = await requests.read_object(call, known=("reason", "expiry"))
    reason, until = body.text("reason", required=True), requests.expiry(body, now=call.services.clock())
    if reason is not None and (len(reason) > LONGEST_REASON or not REASON.fullmatch(reason)):
        body.mistake("reason", f"must be one line of 1 to {LONGEST_REASON} characters that begins with no space")
    body.check()
    await call.services.repositories.suspend(
        call.parameters["name"], reason=reason or "", until=until, actor=call.actor, request=call.request
    )
    return Json(await _repository(call))


@routes.add("POST /v1/repositories/{name}/resume", Subject.REPOSITORY, Permission.SUSPEND)
@replicas.at_holder
async def resume(call: Call) -> Response:
    """Resume a repository."""
    (await requests.read_object(call, known=())).check()
    name, services = call.parameters["name"], call.services
    return _run(await services.repositories.resume(name, actor=call.actor, request=call.request))


# Runs of repositories.

LIST_PARAMETERS = frozenset({"repository", "limit"})
LARGEST_PAGE = 10_000  # runs
PAGE = 100  # runs, when no limit is given: all of them would be too many with time
CHANGES_PARAMETERS = frozenset({"limit"})
MOST_CHANGES = 500  # resources of which one answer shows the fields
LOOK_SECONDS = 1.0  # between two reads of a run while the caller waits
MISSING = "There is no such run; GET /v1/runs lists those that were recorded."


@routes.add("GET /v1/runs", Subject.REACH, Permission.READ)
async def list_runs(call: Call) -> Response:
    """List the recorded runs within reach, the newest first."""
    query = requests.Query(call.query, known=LIST_PARAMETERS, strict=False)
    limit = query.integer("limit", lowest=1, highest=LARGEST_PAGE, default=PAGE)
    query.check()
    projects = access.reach(call)
    pages = call.services.store.runs_pages(repository=query.text("repository"), projects=projects, limit=limit)
    return responses.Streamed(responses.stream_array(b"runs", pages))


@routes.add("GET /v1/runs/{id}", Subject.REACH, Permission.READ)
async def get_run(call: Call) -> Response:
    """Show one run with its statuses. With `wait`, answer when it is finished."""
    return responses.Streamed(_one(call, call.parameters["id"], seconds=requests.wait_seconds(call)))


async def _one(call: Call, run: str, *, seconds: float) -> AsyncGenerator[bytes, None]:
    """Yield the answer. Raises `NotFound` before the first piece."""
    events, clock = call.services.events, asyncio.get_running_loop().time
    until, absences = clock() + seconds, 0
    # A run leaves memory a moment after it is stored. The store is read first, so that a finished run stays finished.
    # It is read again last, for a run that ended between the first two reads.
    while absences < 2:
        number, projects = events.last, access.reach(call)
        async with aclosing(call.services.store.run_pages(run)) as pages:
            # Another replica reads the store itself.
            if call.passed_on is None and (first := await anext(pages, None)) is not None:
                [head] = first
                _check(call, projects, head)
                before = b'{"run":%b,"statuses":[' % head.removesuffix(b"}")  # the statuses become its last member
                async with aclosing(responses.join_parts(before, pages, b"]}}")) as texts:
                    async for text in texts:
                        yield text
                return
        pending = await _pending(call, run)
        if pending is None:
            absences += 1
        else:
            _check(call, projects, pending)
            if clock() >= until or events.is_closed:
                yield responses.json_member(b"run", pending)  # it has no statuses yet
                return
            # A run without a record makes no event.
            await events.concern(Topic.RUN, run, after=number, seconds=min(until - clock(), LOOK_SECONDS))
            auth.again(call)
    raise errors.NotFound(MISSING)


async def _pending(call: Call, run: str) -> bytes | None:
    """Return a run that is queued or in progress, here or on another replica."""
    found = call.services.repositories.run(run)
    if found is None and replicas.ULID.fullmatch(run):
        answers = await replicas.ask_others(call, f"/v1/runs/{run}")
        found = next((bytes(msgspec.json.decode(body, type=_OneRun).run) for body in answers.values()), None)
    return found


class _OneRun(msgspec.Struct):
    run: msgspec.Raw


@routes.add("GET /v1/runs/{id}/changes", Subject.REACH, Permission.READ)
async def list_run_changes(call: Call) -> Response:
    """List the fields that a run changed, resource by resource."""
    query = requests.Query(call.query, known=CHANGES_PARAMETERS, strict=False)
    most = query.integer("limit", lowest=1, highest=MOST_CHANGES, default=MOST_CHANGES)
    query.check()
    run, services, projects = call.parameters["id"], call.services, access.reach(call)
    head = await _pending(call, run)  # a run leaves memory once it is stored
    if head is None:
        async with aclosing(services.store.run_pages(run)) as pages:
            [head] = await anext(pages, [None])
    if head is None:
        raise errors.NotFound(MISSING)
    project = _check(call, projects, head)
    pairs = await services.store.run_changes(run, limit=most + 1)
    found = await services.applier.compare(project, pairs[:most]) if pairs else ()
    if not access.permits(call, Permission.READ_RAW, project=project):
        found = tuple(map(kept_plans.without_raw, found))
    return Json(msgspec.json.encode({"changes": found, "more": len(found) < len(pairs)}))


def _check(call: Call, projects: frozenset[str] | None, run: bytes) -> str:
    """Return the project of a run. Raises `NotFound` when it is not among these."""
    project = _RUN.decode(run).project
    if not access.is_within(projects, project):
        raise access.missing(call, MISSING, project=project)
    return project


class _Run(msgspec.Struct, frozen=True):
    project: str


_RUN = msgspec.json.Decoder(_Run)


# Deliveries of forges: each reports a push, so the repository is polled now.
#
# A delivery has no credential; it is signed with the secret of its repository. A stranger learns nothing: an unknown
# repository, one without a hook, a wrong signature and a missing one get the same answer after the same work. Only the
# log tells them apart. It is written after the answer, so that the time of an answer does not show it either.
#
# Only the arrival of a delivery matters. Its body is digested and not parsed: git says which branch was pushed.

logger = logging.getLogger(__name__)

MAX_BYTES = 1024 * 1024  # of a body
LONGEST_NAME = 63  # characters of a name that the log repeats; no repository has a longer one
NO_KEY = bytes(32)  # compared if there is no secret; even a right signature with it is refused
READ_SECONDS = 5.0  # for the file of a secret, whose disk may hang
# Threads of their own: otherwise anybody who posts could make all other work wait for a disk that hangs.
THREADS = ThreadPoolExecutor(4, thread_name_prefix="hook-secret")
DECOY = Path(hooks.__file__)  # read if there is no file with a secret, so that the time of an answer does not show it

REFUSED = "There is no such hook, or this delivery is not signed with its secret; the service's log says which."
UNSET = "`hook.secretFile` of this repository is not set"
WHY = {
    SignatureVerdict.NONE: "it has no signature; give the webhook the secret in `hook.secretFile`",
    SignatureVerdict.WRONG: "its signature is not made with the secret in `hook.secretFile`; give both sides the "
    "same one",
    SignatureVerdict.RIGHT: "",  # with a key that is none
    SignatureVerdict.LATE: f"it was signed more than {hooks.SECONDS // 60} minutes from now; set the clocks right",
}


@routes.add("POST /hooks/{repository}", Subject.PUBLIC)
async def deliver_hook(call: Call) -> Response:
    """Poll a repository now, because its forge reports a push."""
    requests.none_known(call.query)
    name, headers = call.parameters["repository"], hooks.single_header(call.headers)
    found = call.services.repositories.reconciler(name)
    file = None if found is None else found.watched.hook.secret_file
    key, fault = await _key(file)
    checking = SignatureCheck(headers, secret=key or NO_KEY)
    await requests.pass_on(call, checking.update, limit=MAX_BYTES)
    verdict = checking.verdict(now=call.services.clock().timestamp())
    if key is None or verdict is not SignatureVerdict.RIGHT:
        # `call_soon`: after this request's answer is written.
        asyncio.get_running_loop().call_soon(_log_refusal, call, name, fault or WHY[verdict])
        raise errors.Hidden(REFUSED, project=call.services.repositories.project_of(name) or "")
    if not hooks.is_ping(headers):
        marks = hooks.delivery_id(headers), checking.mark()
        if call.services.hooks.deliveries.is_new(name, *marks, now=asyncio.get_running_loop().time()):
            await call.services.repositories.hint(name)
    return Empty(status=202, headers=((b"content-length", b"0"),))


async def _key(file: Path | None) -> tuple[bytes | None, str]:
    """Return the secret; None with the reason if it cannot be used."""
    try:
        async with asyncio.timeout(READ_SECONDS):
            found = await asyncio.get_running_loop().run_in_executor(THREADS, hooks.read_secret, file or DECOY)
    except UnusableFile as unusable:
        return None, UNSET if file is None else f"{file} {unusable}; write the webhook's secret into it"
    except TimeoutError:
        slow = f"{file} was not read within {READ_SECONDS:g} seconds; look whether its disk hangs"
        return None, UNSET if file is None else slow
    return (None, UNSET) if file is None else (found, "")


def _log_refusal(call: Call, name: str, why: str) -> None:
    """Log a refusal, at most once a minute for each repository, and for all unknown ones together."""
    is_known = call.services.repositories.project_of(name) is not None
    now = asyncio.get_running_loop().time()
    quiet = call.services.hooks.refusals.due(name if is_known else "", now=now)
    if quiet is None:
        return
    more = f" ({quiet} more were refused since the last line.)" if quiet else ""
    logger.warning(
        "A delivery from %s to /hooks/%s was refused: %s.%s",
        auth.address(call),
        name[:LONGEST_NAME],
        why if is_known else "no repository of this name is watched",
        more,
        extra={"fields": {"repository": name[:LONGEST_NAME], "request": call.request}},
    )
