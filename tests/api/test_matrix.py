"""Permissions: every operation of the contract, asked for by every sort of caller about every sort of project.

`TABLE` is what is expected, to be read by a person. Strangers are in no column: whoever has no credential, or a wrong,
an expired or a revoked one, gets 401 wherever the subject is neither `everybody` nor `signature`.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from starlette.types import ASGIApp

import api.app
from api import auth
from api.calls import Subject
from api.pages import routes
from api.repositories import shown_repository
from reconciler.model.directory import Amendment, Audited
from reconciler.model.notification_types import NotificationType
from reconciler.notifications.board import Board
from reconciler.notifications.models import Cause, Domain, Finding, Observation
from reconciler.review import kept_plans
from tests.api import callers, parts
from tests.api.callers import OTHER, OWN, UNKNOWN, Answer, Caller, ask
from tests.api.conftest import Populated, until
from tests.api.contracts import operations
from tests.api.parts import destination
from tests.auth import arrivals, directories
from tests.notifications import boards
from tests.repositories import Repository

pytestmark = pytest.mark.anyio

# The subject says what the caller's role is looked up for: the project that the header chooses (`chosen`), the one that
# the path leads to (`named`), every one within reach or the chosen one (`reach`; `reached`, of one thing in them), the
# organization, the caller (`oneself`), or nothing (`everybody`; `signature`, which nobody's credential stands in for).
# `unnamed` is for no header, where that differs.
# Whoever has no role there is `outside`. `people` may, and keys may not; `absent` is what people do not find and keys
# may not; `every` is for whoever has every scope; `hidden` is what people and the service's own key do not find and
# other keys may not.
TABLE = """
operation           subject       viewer user  admin root  logs  metrics raw   outside
apply               chosen        403    ok    ok    ok    403   403     403   404
delete              chosen        403    ok    ok    ok    403   403     403   404
searchResources     chosen        ok     ok    ok    ok    403   403     403   404
listResources       chosen        ok     ok    ok    ok    403   403     403   404
getResource         chosen        ok     ok    ok    ok    403   403     403   404
listReferences      chosen        ok     ok    ok    ok    403   403     403   404
deleteResource      chosen        403    ok    ok    ok    403   403     403   404
getRaw              chosen        403    ok    ok    ok    403   403     ok    404
getCollectorYaml    chosen        403    ok    ok    ok    403   403     ok    404
getHistory          chosen        ok     ok    ok    ok    403   403     403   404
getResourceVersion  chosen        ok     ok    ok    ok    403   403     403   404
listVersionChanges  chosen        ok     ok    ok    ok    403   403     403   404
redactHistory       chosen        403    403   ok    ok    403   403     403   404
listRepositories    reach         ok     ok    ok    ok    403   403     403   404
listRepositories    unnamed       ok     ok    ok    ok    403   403     403   ok
getRepository       named         ok     ok    ok    ok    403   403     403   404
reconcileRepository named         403    ok    ok    ok    403   403     403   404
approveRepository   named         403    403   ok    ok    403   403     403   404
suspendRepository   named         403    403   ok    ok    403   403     403   404
resumeRepository    named         403    403   ok    ok    403   403     403   404
listRuns            reach         ok     ok    ok    ok    403   403     403   404
listRuns            unnamed       ok     ok    ok    ok    403   403     403   ok
getRun              reached       ok     ok    ok    ok    403   403     403   404
listRunChanges      reached       ok     ok    ok    ok    403   403     403   404
listAuditEvents     reach         403    403   ok    ok    403   403     403   404
listAuditEvents     unnamed       403    403   ok    ok    403   403     403   403
makePlan            reached       ok     ok    ok    ok    403   403     403   404
listPlans           reach         ok     ok    ok    ok    403   403     403   404
listPlans           unnamed       ok     ok    ok    ok    403   403     403   ok
getPlan             reached       ok     ok    ok    ok    403   403     403   404
sendLogs            chosen        403    403   403   every ok    403     403   404
listDeliveries      chosen        ok     ok    ok    ok    403   403     403   404
getDelivery         chosen        ok     ok    ok    ok    403   403     403   404
getDeliveryHistory  chosen        ok     ok    ok    ok    403   403     403   404
listDeadLetters     chosen        403    403   ok    ok    403   403     403   404
replayDelivery      chosen        403    403   ok    ok    403   403     403   404
discardDelivery     chosen        403    403   ok    ok    403   403     403   404
testDelivery        chosen        403    403   ok    ok    403   403     403   404
receiveBatches      chosen        403    403   ok    ok    403   403     403   404
getMe               oneself       ok     ok    ok    ok    ok    ok      ok    ok
changeMyPassword    oneself       people people people people people people people people
listProjects        reach         ok     ok    ok    ok    403   403     403   404
listProjects        unnamed       ok     ok    ok    ok    403   403     403   ok
createProject       organization  403    403   403   ok    403   403     403   403
getProject          named         ok     ok    ok    ok    403   403     403   404
listMembers         named         403    403   ok    ok    403   403     403   404
setMember           named         403    403   ok    ok    403   403     403   404
removeMember        named         403    403   ok    ok    403   403     403   404
listInvitations     named         403    403   ok    ok    403   403     403   404
createInvitation    named         403    403   ok    ok    403   403     403   404
withdrawInvitation  named         403    403   ok    ok    403   403     403   404
listUsers           organization  403    403   403   ok    403   403     403   403
createUser          organization  403    403   403   ok    403   403     403   403
getUser             organization  403    403   403   ok    403   403     403   403
changeUser          organization  403    403   403   ok    403   403     403   403
removeUser          organization  403    403   403   ok    403   403     403   403
listApiKeys         chosen        people people ok    ok    403   403     403   404
listApiKeys         unnamed       people people ok    ok    403   403     403   people
createApiKey        chosen        403    403   people every 403   403     403   hidden
revokeApiKey        named         403    403   ok    ok    403   403     403   404
listNotifications   reach         ok     ok    ok    ok    403   403     403   404
listNotifications   unnamed       ok     ok    ok    ok    403   403     403   ok
getNotification     reached       ok     ok    ok    ok    403   403     403   404
streamEvents        reach         ok     ok    ok    ok    403   403     403   404
streamEvents        unnamed       ok     ok    ok    ok    403   403     403   ok
setNotificationStatus reached     people people people people 403 403   403   absent
testAlerts          organization  403    403   403   ok    403   403     403   403
getVersion          everybody     ok     ok    ok    ok    ok    ok      ok    ok
live                everybody     ok     ok    ok    ok    ok    ok      ok    ok
ready               everybody     ok     ok    ok    ok    ok    ok      ok    ok
readMetrics         organization  403    403   403   every 403   ok      403   403
getContract         everybody     ok     ok    ok    ok    ok    ok      ok    ok
deliverHook         signature     404    404   404   404   404   404     404   404
"""
# Pages look at the cookie alone: a key or a password in a header means nothing to them. A form is sent as JSON here,
# from a page of ours, so that whoever may send it reads 415 and changes nothing.
PAGES = """
path                  method stranger signed-in
/                     GET    303      200
/act                  POST   401      415
/problems             GET    303      200
/resources            GET    303      200
/resources/{of}/{kind}/{name} GET 303 404
/configurations/{of}/{name} GET 303   404
/delivery             GET    303      200
/delivery/{of}/{name} GET    303      404
/delivery/{of}/{name}/test POST 401   415
/delivery/{of}/{name}/test GET 303    303
/runs                 GET    303      200
/runs/{id}            GET    303      404
/plans                GET    303      200
/plans/{id}           GET    303      404
/notifications        GET    303      200
/audit                GET    303      403
/projects             GET    303      200
/projects/{of}        GET    303      404
/projects/{of}/invite POST   401      415
/people               GET    303      403
/keys                 GET    303      200
/account/sessions/end POST 401 415
/assets/htmx.js       GET    200      200
/assets/console.js    GET    200      200
/sign-in              GET    200      200
/sign-in              POST   415      415
/oidc/sign-in         GET    404      404
/oidc/redirect        GET    404      404
/invitation           GET    404      404
/invitation           POST   404      404
/account              GET    303      200
/account/keys         POST   401      415
/account/keys/revoke  POST   401      415
/account/password     POST   401      415
/sign-out             POST   415      415
/signed-out           GET    200      200
/docs                 GET    200      200
/docs/notifications   GET    200      200
/assets/style.css     GET    200      200
/assets/redoc.js      GET    200      200
/assets/icon.svg      GET    200      200
/assets/redoc.js      GET    200      200
/favicon.ico          GET    200      200
"""
PAGE_ROWS = [line.split() for line in PAGES.strip().splitlines()[1:]]
_, *LINES = [line.split() for line in TABLE.strip().splitlines()]
COLUMNS = TABLE.split("\n", 2)[1].split()[2:]
ROWS = {(operation, subject): dict(zip(COLUMNS, row, strict=True)) for operation, subject, *row in LINES}
SUBJECTS = {operation: subject for operation, subject, *_ in LINES if subject != "unnamed"}

STRONGEST = ("root", "admin", "user", "viewer")
EXISTING = (OWN, OTHER, parts.DEFAULT)
NAME = "matrix"
MEMBERS = {OWN: "user", OTHER: "neighbour", UNKNOWN: "user"}
KEYS = {OWN: "KEY-OWN", OTHER: "KEY-OTHER", UNKNOWN: "KEY-NONE"}
INVITATIONS = {OWN: "INVITATION-OWN", OTHER: "INVITATION-OTHER", UNKNOWN: "INVITATION-NONE"}

RESOURCES = {"resources": [destination(NAME)]}
BODIES: Mapping[str, object] = {
    "apply": {"resources": [destination("new")]},
    "delete": RESOURCES,
    "redactHistory": {"value": "logs.example.org"},
    "approveRepository": {"commit": "0" * 40},
    "suspendRepository": {"reason": "an incident"},
    "changeMyPassword": {"password": callers.PASSWORD, "newPassword": "another password"},
    "createProject": {"name": "another"},
    "setMember": {"role": "admin"},
    "createInvitation": {"role": "admin"},
    "createUser": {"name": "mallory", "organizationAdmin": True},
    "changeUser": {"organizationAdmin": True},
    "createApiKey": {"name": "mine", "role": "admin"},
    "sendLogs": {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "a line"}}]}]}]},
    "discardDelivery": {"what": "all"},
    "setNotificationStatus": {"userStatus": "dismissed"},
    "testAlerts": {"target": "operators"},
}
"""Bodies of requests that would change something if they were allowed."""

HARMLESS: Mapping[str, object] = {
    "changeMyPassword": {"password": callers.PASSWORD, "newPassword": "short"},
    "createApiKey": {"name": "", "role": "admin"},
}
"""Bodies that pass every permission and are refused as invalid; other writes get an unknown query parameter."""


NEVER_TWICE = frozenset({"readMetrics"})
"""Of which no two answers are the same; they are about the organization, whatever project is chosen."""


class Asked(NamedTuple):
    """One request: the header that chooses a project, and the project that the path leads to."""

    caller: Caller
    header: str | None
    target: str


class World(NamedTuple):
    """The application, who asks it, and the run and the plan of each project."""

    app: ASGIApp
    parts: parts.Parts
    callers: Mapping[str, Caller]
    runs: Mapping[str, str]
    plans: Mapping[str, str]
    notifications: Mapping[str, str]


@pytest.fixture(scope="module")
async def world(populated: Populated, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    """Each project has a resource, a configuration with a raw text, a repository and its run, and a key."""
    services = populated.parts.services
    app, root = api.app.build(services), populated.callers["root"].headers
    raw = {"apiVersion": "service/v1", "kind": "Configuration", "metadata": {"name": NAME}, "spec": {"raw": "text"}}
    for project in EXISTING:
        body = json.dumps({"resources": [destination(NAME), raw]}).encode()
        await ask(app, "POST", "/v1/apply", headers=[*root, ("X-Service-Project", project)], body=body)
    source = Repository.init(tmp_path_factory.mktemp("source"))
    source.commit()
    watched = [parts.watched(f"of-{project}", source.path, project=project) for project in (OWN, OTHER)]
    await populated.parts.repositories.start(watched)
    services.deliveries.known.add(NAME)  # type: ignore[attr-defined]  # of this test's stand-in
    kept = [directories.key(directories.text(n), identifier=KEYS[p], project=p) for n, p in enumerate((OWN, OTHER))]
    invited = [
        arrivals.invitation(INVITATIONS[p], email="noa@example.com", project=p, created_by="user:root")
        for p in (OWN, OTHER)
    ]
    made = Amendment(Audited("created", "Key", "two"), keys=tuple(kept), invitations=tuple(invited))
    await services.accounts.amend(lambda _: made, actor="user:root", request=None)
    runs = {project: await _run(populated, f"of-{project}") for project in (OWN, OTHER)}
    asked = [kept_plans.PlanRequest(f"of-{one}", head="refs/heads/main", base=None) for one in (OWN, OTHER)]
    plans = {project: (await services.reviewing.plan(one)).id for project, one in zip((OWN, OTHER), asked, strict=True)}
    nothing = {UNKNOWN: "01KAH30ZPT8Q1X2Y3Z4A5B6C7D"}
    notifications = {project: await _notified(services.board, project) for project in (OWN, OTHER)}
    yield World(
        app,
        populated.parts,
        populated.callers,
        runs={**runs, **nothing},
        plans={**plans, **nothing},
        notifications={**notifications, **nothing},
    )
    await populated.parts.repositories.start(())


async def _notified(board: Board, project: str) -> str:
    """A notification of a project; its id."""
    found = Finding(Cause(NotificationType.LOGS_UNROUTED, project=project))
    await board.take(Observation(Domain.DELIVERY, (found,), frozenset({project})))
    newest = (await boards.shown(board, limit=1))[0]
    return str(newest["metadata"]["id"])


async def _run(populated: Populated, repository: str) -> str:
    async def look() -> str | None:
        found = populated.parts.repositories.reconciler(repository)
        return None if found is None else found.memory.last_run

    return await until(look)


def _operations() -> Iterator[Any]:
    for path, method, operation in operations():
        yield pytest.param(path, method.upper(), operation, id=operation["operationId"])


def test_every_operation_has_a_row_and_every_row_an_operation() -> None:
    assert {operation["operationId"] for _, _, operation in operations()} == set(SUBJECTS)
    assert len(LINES) == len(ROWS)


@pytest.mark.parametrize(("path", "method", "operation"), list(_operations()))
def test_every_operation_declares_who_may(path: str, method: str, operation: dict[str, Any]) -> None:
    rule = api.app.ENDPOINTS[path].operations[method]
    assert (rule.subject is Subject.PUBLIC) == (SUBJECTS[operation["operationId"]] in ("everybody", "signature"))
    assert (rule.permission is None) == (rule.subject in (Subject.PUBLIC, Subject.KNOWN))
    if method == "GET":
        assert api.app.ENDPOINTS[path].operations["HEAD"] is rule


def test_every_page_has_a_row_and_every_row_a_page() -> None:
    pages = routes.ENDPOINTS.items()
    served = {(path, method) for path, endpoint in pages for method in endpoint.operations if method != "HEAD"}
    assert {(path, method) for path, method, *_ in PAGE_ROWS} == served
    assert all(endpoint.is_public for endpoint in routes.ENDPOINTS.values())


@pytest.mark.parametrize(("path", "method", "stranger", "signed_in"), PAGE_ROWS)
async def test_a_page_is_for_browsers_and_no_key_opens_it(
    world: World, path: str, method: str, stranger: str, signed_in: str
) -> None:
    before, same = await _everything(world), ("Sec-Fetch-Site", "same-origin")
    answers = {
        name: (await ask(world.app, method, path, headers=[*caller.headers, same])).status
        for name, caller in world.callers.items()
    }
    services = world.parts.services
    token = await services.sessions.begin(
        services.accounts.directory.users["viewer"], since=services.accounts.directory
    )
    cookie = ("Cookie", f"{auth.Cookies(is_secure=False).session}={token}")
    for name, caller in world.callers.items():
        # A key beside it makes neither more nor less of it.
        headers = [*caller.headers, same, cookie]
        assert (await ask(world.app, method, path, headers=headers)).status == int(signed_in), name
    assert answers == dict.fromkeys(world.callers, int(stranger))
    assert await _everything(world) == before


@pytest.mark.parametrize(("path", "method", "operation"), list(_operations()))
async def test_each_caller_may_do_what_the_table_says_and_nothing_more(
    world: World, path: str, method: str, operation: dict[str, Any]
) -> None:
    name = operation["operationId"]
    before = await _everything(world)
    wrong, answers = [], {}
    for asked in _asked(world, targets=SUBJECTS[name] in ("named", "reached", "signature")):
        expected = _expected(name, asked)
        answer = await _ask(world, asked, path=path, method=method, name=name, is_allowed=expected == "ok")
        answers[asked] = answer
        assert str(answer.status) in operation["responses"]
        found = str(answer.status) if answer.status in (401, 403, 404) else "ok"
        if found != expected:
            wrong.append((asked.caller.name, asked.header, asked.target, expected, answer))
    assert wrong == []
    assert await _everything(world) == before
    if name not in NEVER_TWICE:
        assert [asked for asked in answers if _tells_apart(answers, asked)] == []


def _asked(world: World, *, targets: bool) -> Iterator[Asked]:
    for caller in world.callers.values():
        for header in (None, OWN, OTHER, UNKNOWN):
            for target in (OWN, OTHER, UNKNOWN) if targets else (OWN,):
                yield Asked(caller, header, target)


def _expected(operation: str, asked: Asked) -> str:
    subject = SUBJECTS[operation]
    if asked.caller.is_stranger and subject not in ("everybody", "signature"):
        return "401"
    if asked.header is None and (operation, "unnamed") in ROWS:
        subject = "unnamed"
    verdict = ROWS[operation, subject][_column(subject, asked)]
    if verdict == "people":
        return "ok" if asked.caller.is_person else "403"
    if verdict == "absent":
        return "404" if asked.caller.is_person else "403"
    if verdict == "hidden":
        return "404" if asked.caller.is_person or asked.caller.name.startswith("SERVICE_API_KEY") else "403"
    if verdict == "every":
        return "ok" if asked.caller.is_person or asked.caller.name.startswith("SERVICE_API_KEY") else "403"
    return verdict


def _column(subject: str, asked: Asked) -> str:
    """Return where the caller stands with the subject."""
    caller = asked.caller
    if subject in ("organization", "oneself", "everybody", "signature", "unnamed"):
        return caller.scope or _strongest(caller)
    if subject in ("reach", "reached") and caller.scope:
        return caller.scope
    if subject in ("chosen", "reach"):
        project = asked.header or _default(caller)
    else:
        project = asked.target if asked.header in (None, asked.target) else UNKNOWN
    role = _role(caller, project)
    return (caller.scope or role) if role else "outside"


def _role(caller: Caller, project: str) -> str:
    return dict(caller.roles).get(project, caller.everywhere if project in EXISTING else "")


def _default(caller: Caller) -> str:
    if caller.everywhere:
        return parts.DEFAULT
    return caller.roles[0][0] if len(caller.roles) == 1 else UNKNOWN


def _strongest(caller: Caller) -> str:
    held = {caller.everywhere, *dict(caller.roles).values()}
    return next((role for role in STRONGEST if role in held), "outside")


async def _ask(world: World, asked: Asked, *, path: str, method: str, name: str, is_allowed: bool) -> Answer:
    """Return what would do something, unless it is to be let through."""
    headers = [*asked.caller.headers, *([("X-Service-Project", asked.header)] if asked.header else [])]
    body: object = BODIES.get(name)
    if name == "makePlan":  # of which the body says what it is about
        body = {"repository": f"of-{asked.target}", "head": "refs/heads/main"}
    made = world.plans if name == "getPlan" else world.notifications if "Notification" in name else world.runs
    method = "HEAD" if name == "streamEvents" else method  # a stream has no end
    address = _address(path, asked.target, run=made[asked.target], raw=name in ("getRaw", "getCollectorYaml"))
    if is_allowed and method != "GET":
        body = HARMLESS.get(name, body)
        address += "" if name in HARMLESS else "?nonsense=1"
    return await ask(world.app, method, address, headers=headers, body=json.dumps(body).encode() if body else b"")


def _address(path: str, target: str, *, run: str, raw: bool) -> str:
    names = {"repositories": f"of-{target}", "projects": target, "users": "nobodys"}
    kind = "Configuration" if raw else "Destination"
    values = (
        {"{kind}": kind, "{user}": MEMBERS[target], "{name}": names.get(path.split("/")[2:3][0], NAME)}
        if (path.count("/") > 1)
        else {}
    )
    values |= {"{repository}": f"of-{target}", "{version}": "1"}
    made = KEYS if "api-keys" in path else INVITATIONS
    values["{id}"] = made[target] if "api-keys" in path or "invitations" in path else run
    for placeholder, value in values.items():
        path = path.replace(placeholder, value)
    return path


async def _everything(world: World) -> tuple[object, ...]:
    """Return what must not change: what is stored, who may do what, in memory as in the store, and what people ask of
    repositories, which look at themselves whenever they want.
    """
    services = world.parts.services
    pages = services.store.runs_pages(repository=None, projects=None, limit=1_000)
    runs = [json.loads(run) async for page in pages for run in page]
    reconcilers = services.repositories.reconcilers()
    repositories = [json.loads(await shown_repository(one, services)) for one in reconcilers]
    return (
        await services.store.revision(),
        services.accounts.directory,
        await services.store.directory(),
        [(one["name"], one["suspension"], one["held"]) for one in repositories],
        [run for run in runs if run["trigger"] == "request"],
        [one async for page in services.board.pages(sees=lambda _: True, user="id-root") for one in page],
    )


def _tells_apart(answers: Mapping[Asked, Answer], asked: Asked) -> bool:
    """Return True when an answer about another project is not the one about a project that there is not."""
    if _role(asked.caller, OTHER):
        return False
    alike = [asked._replace(header=UNKNOWN)] if asked.header == OTHER else []
    alike += [asked._replace(target=UNKNOWN)] if asked.target == OTHER else []
    return any(answers[asked] != answers[other] for other in alike)
