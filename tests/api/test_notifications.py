"""Notifications over HTTP: who sees which, pages, and what each person did with them."""

from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import ANY

import httpx2
import pytest

from api.calls import Services
from reconciler.model.notification_types import NotificationType
from reconciler.model.principals import LOCAL, Role
from reconciler.notifications.models import Cause, Domain, Finding, Observation
from tests.api.conftest import Populated, connect, make_key

pytestmark = pytest.mark.anyio

LIST = "/v1/api/notifications"


@pytest.fixture
async def told(services: Services, project: str) -> AsyncIterator[None]:
    """Of this project, of another one, of the organization and of one person."""
    # What came back soon would be the same as in the test before: each has a subject of its own.
    causes = [
        Cause(NotificationType.LOGS_UNROUTED, project, project),
        Cause(NotificationType.DEAD_LETTERS, project, "elsewhere"),
    ]
    causes += [
        Cause(NotificationType.DISK_LOW, project),
        Cause(NotificationType.STORE_DEGRADED, project, user="id-nobody"),
    ]
    await services.board.take(Observation(Domain.DELIVERY, tuple(map(Finding, causes))))
    yield
    await services.board.take(Observation(Domain.DELIVERY, ()))


@pytest.fixture
async def person(populated: Populated) -> AsyncIterator[httpx2.AsyncClient]:
    """An organization admin with a password."""
    async with connect(populated.parts.services, key="") as client:
        client.headers.update(populated.callers["root"].headers)
        yield client


async def types(client: httpx2.AsyncClient, query: str = "") -> list[str]:
    answer = await client.get(f"{LIST}{query}")
    assert answer.status_code == 200, answer.text
    open_ = [one for one in answer.json()["notifications"] if one["metadata"]["labels"]["service/state"] == "open"]
    return [one["spec"]["notificationType"] for one in open_]


async def first(client: httpx2.AsyncClient) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get(LIST)).json()["notifications"][0]
    return found


@pytest.mark.usefixtures("told")
async def test_an_admin_sees_the_organizations_and_all_projects_or_the_chosen_one(
    services: Services, project: str
) -> None:
    async with connect(services) as everywhere, connect(services, project=project) as chosen:
        assert await types(everywhere) == ["DiskLow", "DeadLetters", "LogsUnrouted"]
        assert await types(chosen) == ["DiskLow", "LogsUnrouted"]


@pytest.mark.usefixtures("told")
async def test_a_viewer_sees_those_of_the_project_alone(services: Services, project: str) -> None:
    key = await make_key(services, Role.VIEWER, project=project)
    async with connect(services) as root, connect(services, key=key) as viewer:
        assert await types(viewer) == ["LogsUnrouted"]
        disk = await first(root)
        assert (await root.get(f"{LIST}/{disk['metadata']['id']}")).json() == {"notification": disk}
        missing = await viewer.get(f"{LIST}/{disk['metadata']['id']}")
        assert (missing.status_code, missing.json()) == (
            404,
            {
                "errors": ["There is no such notification; GET /v1/api/notifications lists those that are kept."],
                "codes": ANY,
            },
        )


async def test_what_names_keys_is_seen_by_whoever_manages_them(services: Services, project: str) -> None:
    causes = [Cause(NotificationType.KEYS_TO_REVIEW, project, where) for where in (project, "")]
    await services.board.take(Observation(Domain.KEYS, tuple(map(Finding, causes))))
    seen: dict[Role, tuple[list[str], int]] = {}
    async with connect(services) as root:
        assert await types(root, "?limit=2") == ["KeysToReview", "KeysToReview"]
        found = (await root.get(f"{LIST}?limit=2")).json()["notifications"]
        (identifier,) = (one["metadata"]["id"] for one in found if "account" in one["spec"])
    for role in Role:
        key = await make_key(services, role, project=project)
        async with connect(services, key=key) as client:
            seen[role] = await types(client), (await client.get(f"{LIST}/{identifier}")).status_code
    await services.board.take(Observation(Domain.KEYS, ()))
    assert seen == {Role.ADMIN: (["KeysToReview"], 200), Role.USER: ([], 404), Role.VIEWER: ([], 404)}


@pytest.mark.usefixtures("told")
async def test_pages_go_on_behind_the_last_one_and_a_bad_limit_is_refused(services: Services) -> None:
    async with connect(services) as client:
        disk = (await first(client))["metadata"]["id"]
        assert await types(client, "?limit=1") == ["DiskLow"]
        assert await types(client, f"?limit=1&after={disk}") == ["DeadLetters"]
        assert (await client.get(f"{LIST}?limit=0")).status_code == 400
        assert (await client.head(LIST)).status_code == 200


@pytest.mark.usefixtures("told")
async def test_a_key_sets_no_status(services: Services) -> None:
    async with connect(services) as client:
        identifier = (await first(client))["metadata"]["id"]
        answer = await client.post(f"{LIST}/{identifier}/status", json={"userStatus": "read"})
        assert (answer.status_code, answer.json()) == (
            403,
            {"errors": ["A key reads nothing; the status of a notification is a person's."], "codes": ANY},
        )


def test_whoever_needs_no_credential_is_a_person() -> None:
    assert (LOCAL.user, LOCAL.name) == (None, "user:local")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"userStatus":"seen"}', b'{"userStatus":"read","more":1}'])
async def test_a_status_that_there_is_not_is_refused(person: httpx2.AsyncClient, body: bytes) -> None:
    answer = await person.post(f"{LIST}/unknown/status", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400


async def test_a_person_reads_and_dismisses(populated: Populated, person: httpx2.AsyncClient) -> None:
    board = populated.parts.services.board
    await board.take(Observation(Domain.DISK, (Finding(Cause(NotificationType.DISK_LOW)),)))
    identifier = (await first(person))["metadata"]["id"]
    for status, is_hidden in (("read", False), ("dismissed", True), ("unread", False)):
        answer = await person.post(f"{LIST}/{identifier}/status", json={"userStatus": status})
        shown = answer.json()["notification"]
        assert (answer.status_code, shown["status"], shown["spec"]["hidden"]) == (
            200,
            {"userStatus": status},
            is_hidden,
        )
        assert await first(person) == shown
    await board.take(Observation(Domain.DISK, ()))


async def test_the_page_that_notifications_lead_to_is_there_for_everybody(services: Services) -> None:
    async with connect(services, key="") as client:
        answer = await client.get("/docs/notifications")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert [
        f'id="{type_.value.lower()}"' for type_ in NotificationType if f'id="{type_.value.lower()}"' not in answer.text
    ] == []
    assert "<code>reconciler approve REPOSITORY</code>" in answer.text
