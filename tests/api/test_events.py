"""Events: what a stream tells, to whom, from where on, and when it ends."""

import asyncio
from collections.abc import Iterator

import pytest
from starlette.types import ASGIApp

import api.app
from api import events as api_events
from api.calls import Services
from reconciler.auth import changes
from reconciler.model.directory import Amendment, Audited, Member
from reconciler.model.notification_types import NotificationType
from reconciler.model.principals import Permission, Role, Scope
from reconciler.notifications.models import Cause, Domain, Finding, Observation, UserStatus
from reconciler.ops import events as ops_events
from reconciler.ops.events import Topic
from reconciler.store.records import Committed, Named
from tests.api import parts
from tests.api.conftest import Follow, connect, make_key
from tests.api.parts import Parts, destination
from tests.api.streaming import Told, following
from tests.auth import directories
from tests.repositories import Repository
from tests.store import rows
from tests.waiting import until

pytestmark = pytest.mark.anyio

READS = {  # the operation that shows what an event names
    Topic.RESOURCE: "/v1/resources/{kind}/{name}",
    Topic.RUN: "/v1/runs/{id}",
    Topic.REPOSITORY: "/v1/repositories/{name}",
    Topic.DELIVERY: "/v1/destinations/{name}/delivery",
    Topic.NOTIFICATION: "/v1/api/notifications/{id}",
}


@pytest.fixture
def app(services: Services) -> Iterator[ASGIApp]:
    yield api.app.build(services)
    services.events.is_closed = False


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_events, "CHECK_SECONDS", 0.05)
    monkeypatch.setattr(api_events, "PAUSE_SECONDS", 0.01)


def bearer(key: str = parts.KEY) -> tuple[str, str]:
    return "Authorization", f"Bearer {key}"


async def apply(services: Services, project: str, *names: str) -> None:
    async with connect(services, project=project) as client:
        answer = await client.post("/v1/apply", json={"resources": [destination(name) for name in names]})
        assert answer.status_code == 202


def keys(told: list[Told]) -> list[str]:
    return [one.data["key"] for one in told]


def test_the_permission_for_events_is_that_of_what_they_name() -> None:
    assert {topic: api.app.ENDPOINTS[path].operations["GET"].permission for topic, path in READS.items()} == (
        dict.fromkeys(Topic, Permission.READ)
    )
    assert api.app.ENDPOINTS["/v1/events"].operations["GET"].permission is Permission.READ


async def test_a_change_is_told_by_its_key_and_revision_and_by_nothing_else(
    app: ASGIApp, services: Services, project: str
) -> None:
    async with following(app, bearer(), ("X-Service-Project", project)) as stream:
        assert stream.headers[b"content-type"] == b"text/event-stream"
        assert (stream.headers[b"cache-control"], stream.headers[b"x-accel-buffering"]) == (b"no-store", b"no")
        await apply(services, project, "one", "two")
        told = await stream.events(2)
        async with connect(services, project=project) as client:
            await client.delete("/v1/resources/Destination/one")
        gone = await stream.events(1)
    revision = await services.store.revision()
    assert [(one.event, one.data) for one in [*told, *gone]] == [
        ("resource", {"key": "Destination/one", "project": project, "revision": revision - 1}),
        ("resource", {"key": "Destination/two", "project": project, "revision": revision - 1}),
        ("resource", {"key": "Destination/one", "project": project, "revision": revision}),
    ]
    assert services.events.followers == {}


async def test_a_run_and_its_repository_are_told_once_they_are_stored(
    app: ASGIApp, project: str, source: Repository, follow: Follow
) -> None:
    source.commit()
    async with following(app, bearer(), ("X-Service-Project", project)) as stream:
        run = await follow(f"of-{project}", source, project=project)
        told = await stream.events(3)
    assert [(one.event, one.data["key"]) for one in told] == [
        ("repository", f"of-{project}"),  # that it is watched
        ("run", run["id"]),
        ("repository", f"of-{project}"),
    ]


async def _settle(services: Services, project: str, source: Repository, follow: Follow) -> None:
    """Follow a commit until author and subject are read, a moment after its run, and make all of it known."""
    source.commit()
    await follow(f"of-{project}", source, project=project)
    found = services.repositories.reconciler(f"of-{project}")
    assert found is not None
    await until(lambda: found.following.facts(found.memory.row.commit) is not None)
    services.events.compare()


async def test_what_the_store_does_not_tell_is_compared_while_somebody_follows(
    app: ASGIApp, services: Services, project: str, source: Repository, follow: Follow
) -> None:
    await _settle(services, project, source, follow)
    async with following(app, bearer(), ("X-Service-Project", project)) as stream:
        services.events.compare()
        found = services.repositories.reconciler(f"of-{project}")
        assert found is not None
        finding = Finding(Cause(NotificationType.LOGS_UNROUTED, project=project))
        await services.board.take(Observation(Domain.DELIVERY, (finding,), frozenset({project})))
        found.memory.seen = "f" * 40  # until the next poll, which comes when the watch of the folder begins
        services.events.compare()
        told = await stream.events(2)
    assert [one.event for one in told] == ["repository", "notification"]
    assert told[0].data == {"key": f"of-{project}", "project": project}
    assert services.board.notification(told[1].data["key"]) is not None


async def test_a_mark_is_told_to_its_person_alone(app: ASGIApp, services: Services, project: str) -> None:
    users = [directories.user(f"{name}-{project}") for name in ("ana", "bob")]
    members = tuple(Member(project, user.id, Role.VIEWER) for user in users)
    added = Amendment(Audited("created", "User", "them"), users=tuple(users), members=members)
    await services.accounts.amend(lambda _: added, actor="user:root", request=None)
    cookies = []
    for user in users:
        found = services.accounts.directory.users[user.name]
        token = await services.sessions.begin(found, since=services.accounts.directory)
        cookies.append(("Cookie", f"reconciler={token}"))
    cause = Cause(NotificationType.LOGS_UNROUTED, project=project)
    await services.board.take(Observation(Domain.DELIVERY, (Finding(cause),), frozenset({project})))
    services.events.compare()
    (noted,) = [one.id for one in services.board.kept.values() if one.cause == cause]
    async with following(app, cookies[0]) as hers, following(app, cookies[1]) as his:
        await services.board.set_status(noted, UserStatus.DISMISSED, sees=lambda _: True, user=users[0].id)
        (told,) = await hers.events(1)
        await apply(services, project, "shown")
        assert (told.event, told.data) == ("notification", {"key": noted, "project": project})
        assert [one.event for one in await his.events(1)] == ["resource"]


async def test_a_requested_run_is_told_before_it_is_stored(
    app: ASGIApp, services: Services, project: str, source: Repository, follow: Follow
) -> None:
    await _settle(services, project, source, follow)
    async with following(app, bearer(), ("X-Service-Project", project)) as stream:
        asked = services.repositories.reconcile(f"of-{project}", actor=parts.SERVICE)
        services.events.compare()  # before the loop can run it
        (told,) = await stream.events(1)
    assert (told.event, told.data) == ("run", {"key": asked, "project": project})  # what is stored has a revision


async def test_everybody_is_told_of_what_they_may_read_alone(app: ASGIApp, services: Services, project: str) -> None:
    await services.accounts.ensure_project(f"{project}-other")
    viewer = await make_key(services, Role.VIEWER, project=project)
    services.events.compare()  # at what other tests left
    async with following(app, bearer(viewer)) as stream, following(app, bearer()) as everything:
        await services.board.take(Observation(Domain.DISK, (Finding(Cause(NotificationType.DISK_LOW)),)))
        services.events.compare()
        await apply(services, f"{project}-other", "hidden")
        await apply(services, project, "shown")
        (told,) = await stream.events(1)
        both = [one for one in await everything.events(3) if one.event == "resource"]
    await services.board.take(Observation(Domain.DISK, ()))
    assert told.data["key"] == "Destination/shown"
    assert keys(both) == ["Destination/hidden", "Destination/shown"]


@pytest.mark.parametrize("scope", [Scope.LOGS, Scope.METRICS, Scope.RAW])
async def test_a_key_that_reads_nothing_follows_nothing(
    app: ASGIApp, services: Services, project: str, scope: Scope
) -> None:
    key = await make_key(services, Role.ADMIN, project=project, scopes=frozenset({scope}))
    async with following(app, bearer(key), begins=False) as stream:
        assert stream.status == 403


# Resuming.


async def test_a_stream_goes_on_after_the_event_that_was_got_last(
    app: ASGIApp, services: Services, project: str
) -> None:
    mine = ("X-Service-Project", project)
    async with following(app, bearer(), mine) as stream:
        await apply(services, project, "one")
        (first,) = await stream.events(1)
    await apply(services, project, "two")
    async with following(app, bearer(), mine, ("Last-Event-ID", first.id), query="after=other") as stream:
        (second,) = await stream.events(1)
        assert second.data["key"] == "Destination/two"
    async with following(app, bearer(), mine, query=f"after={first.id}") as stream:
        assert await stream.events(1) == [second]
    async with following(app, bearer(), mine, ("Last-Event-ID", second.id)) as stream:
        await apply(services, project, "three")
        assert keys(await stream.events(1)) == ["Destination/three"]


@pytest.mark.parametrize("last", ["", "x", "00000000-1", "{process}-999999999", "{process}--1", "1" * 4_000])
async def test_an_id_of_no_event_here_means_that_everything_is_to_be_read(
    app: ASGIApp, services: Services, project: str, last: str
) -> None:
    process = services.events.id_of(0).partition("-")[0]
    header = ("Last-Event-ID", last.replace("{process}", process))
    async with following(app, bearer(), ("X-Service-Project", project), header) as stream:
        (told,) = await stream.events(1)
        assert (told.event, told.data, told.id) == ("reset", {}, services.events.id_of(services.events.last))
        await apply(services, project, "one")
        assert keys(await stream.events(1)) == ["Destination/one"]


async def test_who_is_too_slow_is_told_to_read_everything(
    app: ASGIApp, services: Services, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_events, "PAUSE_SECONDS", 0.3)
    async with following(app, bearer(), ("X-Service-Project", project)) as stream:
        await apply(services, project, "one")
        await stream.events(1)  # then it pauses
        for number in range(ops_events.MOST // 2 + 1):
            services.events.heard(_committed(project, number))
        assert [one.event for one in await stream.events(1)] == ["reset"]
        await apply(services, project, "two")
        assert keys(await stream.events(1)) == ["Destination/two"]


def _committed(project: str, number: int) -> Committed:
    return Committed(number, (), (Named(project, f"R{number}"),), (Named(project, rows.repository().name),))


async def test_a_repository_that_is_released_means_that_everything_is_to_be_read(
    app: ASGIApp, services: Services, project: str
) -> None:
    async with following(app, bearer(), ("X-Service-Project", project)) as stream:
        services.events.heard(Committed(1, (), released=True))
        assert [one.event for one in await stream.events(1)] == ["reset"]


# Ends, limits and signs of life.


async def test_a_quiet_stream_says_that_it_lasts(
    app: ASGIApp, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_events, "BEAT_SECONDS", 0.05)
    async with following(app, bearer(), begins=False) as stream:
        position = Told(services.events.id_of(services.events.last), "", {})
        assert [await stream.next() for _ in range(3)] == [position] * 3


async def test_a_revoked_key_ends_its_stream(app: ASGIApp, services: Services, project: str) -> None:
    key = await make_key(services, Role.VIEWER, project=project)
    async with following(app, bearer(key)) as stream:
        made = services.accounts.directory.key_of(key)
        assert made is not None
        await services.accounts.amend(
            lambda directory: changes.revoke_key(directory, made), actor="user:root", request=None
        )
        await apply(services, project, "unseen")
        await stream.ended()


async def test_an_expired_key_ends_its_stream(
    app: ASGIApp, services: Services, everything: Parts, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_events, "BEAT_SECONDS", 0.05)
    key = await make_key(services, Role.VIEWER, project=project, expires_at="2026-11-21T06:13:00.000Z")
    async with following(app, bearer(key)) as stream:
        everything.clock.pass_(minutes=2)
        await stream.ended()


async def test_a_person_who_loses_their_role_or_session_loses_the_stream(
    app: ASGIApp, services: Services, project: str
) -> None:
    user = directories.user(f"ana-{project}")
    member = Member(project, user.id, Role.VIEWER)
    audited = Audited("created", "User", "it")

    async def amend(amendment: Amendment) -> None:
        await services.accounts.amend(lambda _: amendment, actor="user:root", request=None)

    await amend(Amendment(audited, users=(user,), members=(member,)))
    found = services.accounts.directory.users[user.name]
    token = await services.sessions.begin(found, since=services.accounts.directory)
    cookie = ("Cookie", f"reconciler={token}")
    async with following(app, cookie) as stream, following(app, cookie, ("X-Service-Project", project)) as chosen:
        await apply(services, project, "seen")
        assert keys(await stream.events(1)) == ["Destination/seen"]
        await services.sessions.end(token)
        await stream.ended()
        await chosen.ended()
    token = await services.sessions.begin(found, since=services.accounts.directory)
    async with following(app, ("Cookie", f"reconciler={token}"), ("X-Service-Project", project)) as stream:
        await amend(Amendment(audited, members=(Member(project, user.id, None),)))
        await stream.ended()


async def test_one_caller_and_all_together_have_a_limit(
    app: ASGIApp, services: Services, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api_events, "MOST_OF_ONE", 2)
    monkeypatch.setattr(api_events, "MOST", 3)
    other, third = [await make_key(services, Role.VIEWER, project=project) for _ in range(2)]
    async with following(app, bearer()), following(app, bearer()):
        async with following(app, bearer(), begins=False) as refused:
            assert (refused.status, refused.headers[b"retry-after"]) == (429, b"5")
        async with following(app, bearer(other)), following(app, bearer(third), begins=False) as refused:
            assert (refused.status, refused.headers[b"retry-after"]) == (503, b"5")
    async with following(app, bearer()) as stream:
        assert stream.status == 200


async def test_a_stop_ends_every_stream_and_begins_none(app: ASGIApp, services: Services) -> None:
    keeping = asyncio.create_task(services.events.keep())
    async with following(app, bearer()) as stream, following(app, bearer()) as other:
        await asyncio.sleep(0)
        keeping.cancel()
        await stream.ended()
        await other.ended()
    async with following(app, bearer(), begins=False) as refused:
        assert refused.status == 503


# Waiting.


async def test_a_read_of_a_run_waits_until_it_is_finished(
    services: Services, project: str, source: Repository, follow: Follow
) -> None:
    source.commit()
    await follow(f"of-{project}", source, project=project)
    async with connect(services, project=project) as client:
        asked = (await client.post(f"/v1/repositories/of-{project}/reconcile")).json()["run"]
        shown = (await client.get(f"/v1/runs/{asked}?wait=30s")).json()["run"]
    assert (shown["id"], shown["phase"]) == (asked, "finished")


async def test_a_read_of_a_run_that_does_not_end_in_time_shows_it_as_it_is(
    services: Services, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending = b'{"id":"01KAH30ZPT8Q1X2Y3Z4A5B6C7D","project":"%b"}' % project.encode()
    monkeypatch.setattr(services.repositories, "run", lambda _: pending)
    viewer = await make_key(services, Role.VIEWER, project=project)
    stranger = await make_key(services, Role.VIEWER, project=parts.DEFAULT)
    clock = asyncio.get_running_loop().time
    for key, status, least in ((viewer, 200, 0.2), (stranger, 404, 0.0)):
        begun = clock()
        async with connect(services, key=key) as client:
            client.event_hooks = {}  # what stands for the run here is no whole one
            answer = await client.get("/v1/runs/01KAH30ZPT8Q1X2Y3Z4A5B6C7D?wait=200ms")
        assert answer.status_code == status
        assert least <= clock() - begun < least + 10


async def test_who_waits_for_a_run_that_left_no_record_learns_it(
    services: Services, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pending: list[bytes | None] = [b'{"project":"%b"}' % project.encode(), None, None]
    monkeypatch.setattr(services.repositories, "run", lambda _: pending.pop(0))
    async with connect(services, project=project) as client:
        assert (await client.get("/v1/runs/R?wait=60s")).status_code == 404


async def test_a_read_of_a_repository_waits_until_it_is_not_what_the_caller_has(
    services: Services, project: str, source: Repository, follow: Follow
) -> None:
    path = f"/v1/repositories/of-{project}"
    await _settle(services, project, source, follow)
    async with connect(services, project=project) as client:
        etag = (await client.get(path)).headers["etag"]
        held = {"If-None-Match": etag}
        assert (await client.get(f"{path}?wait=100ms", headers=held)).status_code == 304
        assert (await client.get(f"{path}?wait=100ms")).headers["etag"] == etag
        waiting = [asyncio.create_task(client.get(f"{path}?wait=30s", headers=headers)) for headers in (held, {})]
        await asyncio.sleep(0.1)
        await client.post(f"{path}/suspend", json={"reason": "an incident"})
        answers = await asyncio.gather(*waiting)
        assert [one.json()["repository"]["state"] for one in answers] == ["suspended"] * 2
        assert {one.headers["etag"] for one in answers} != {etag}
        assert (await client.get(f"{path}?wait=30s", headers=held)).json() == answers[0].json()
    assert services.events.followers == {}


@pytest.mark.parametrize("wait", ["0s", "61s", "2m", "1", "s", "-1s", "1e3s", "", "1h"])
async def test_a_wait_is_a_duration_of_at_most_a_minute(services: Services, project: str, wait: str) -> None:
    async with connect(services, project=project) as client:
        answer = await client.get(f"/v1/runs/R?wait={wait}")
    told = "The query parameter `wait` is not a duration such as `500ms` or `30s`, at most `60s`."
    assert (answer.status_code, answer.json()["errors"]) == (400, [told])


async def test_the_end_of_access_ends_a_wait(
    services: Services, project: str, source: Repository, follow: Follow
) -> None:
    source.commit()
    await follow(f"of-{project}", source, project=project)
    key = await make_key(services, Role.VIEWER, project=project)
    async with connect(services, key=key) as client, connect(services, project=project) as other:
        waiting = asyncio.create_task(client.get(f"/v1/repositories/of-{project}?wait=30s"))
        await asyncio.sleep(0.1)
        made = services.accounts.directory.key_of(key)
        assert made is not None
        await services.accounts.amend(
            lambda directory: changes.revoke_key(directory, made), actor="user:root", request=None
        )
        await other.post(f"/v1/repositories/of-{project}/reconcile")
        assert (await waiting).status_code == 401
