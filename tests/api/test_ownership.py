"""The API shows resources of a repository, and does not change them."""

import json
from typing import Any
from unittest.mock import ANY

import httpx2
import pytest

from tests.api.conftest import Follow, explained
from tests.api.parts import destination
from tests.repositories import Repository

pytestmark = pytest.mark.anyio

PATH = "/v1/resources/Destination/siem"


@pytest.fixture
async def stored(client: httpx2.AsyncClient, follow: Follow, source: Repository, project: str) -> dict[str, Any]:
    """A resource that a repository owns, beside one of the API."""
    source.write("destinations/siem.json", json.dumps(destination("siem")))
    source.commit()
    await follow(project, source, project=project)
    await client.post("/v1/apply", json={"resources": [destination("ours")]})
    return await explained(client, PATH)


async def test_a_resource_from_git_says_where_it_stands(
    stored: dict[str, Any], source: Repository, project: str
) -> None:
    commit = {"commit": source.head(), "author": "Ada Lovelace <ada@example.com>", "date": "2023-11-14T22:14:20.000Z"}
    assert stored["status"] == {
        "latest": True,
        "source": {
            "type": "git",
            "repository": project,
            "branch": "main",
            **commit,
            "changedBy": commit,
            "path": "destinations/siem.json",
            "line": 1,
        },
    }


async def test_applying_it_is_forbidden_unless_it_is_equal(
    client: httpx2.AsyncClient, stored: dict[str, Any], project: str
) -> None:
    other = destination("siem", displayName="Mine")
    body = {"resources": [other, destination("ours", displayName="x")]}
    updates = (await client.post("/v1/apply", json=body)).json()["updates"]
    assert updates[0] == {"resource": stored, "status": "forbidden", "notes": [_why(project)]}
    assert updates[1]["status"] == "configured"
    (update,) = (await client.post("/v1/apply", json={"resources": [destination("siem")]})).json()["updates"]
    assert update == {"resource": stored, "status": "unchanged"}
    assert (await client.get(PATH)).json() == {"resource": stored}


async def test_an_atomic_apply_that_touches_it_stores_nothing(
    client: httpx2.AsyncClient, stored: dict[str, Any], project: str
) -> None:
    body = {"resources": [destination("new"), destination("siem", displayName="Mine")]}
    answer = await client.post("/v1/apply?atomic=true", json=body)
    assert (answer.status_code, answer.json()) == (409, {"errors": [_sentence(project)], "codes": ANY})
    assert (await client.get("/v1/resources/Destination/new")).status_code == 404
    assert (await client.get(PATH)).json() == {"resource": stored}


async def test_deleting_it_is_forbidden_in_bulk_and_by_name(
    client: httpx2.AsyncClient, stored: dict[str, Any], project: str
) -> None:
    answer = await client.post("/v1/delete", json=[destination("siem"), destination("ours")])
    assert answer.json()["errors"] == [_sentence(project)]
    assert answer.json()["updates"][0] == {"resource": stored, "status": "forbidden", "notes": [_why(project)]}
    assert answer.json()["updates"][1]["status"] == "deleted"
    answer = await client.delete(PATH)
    assert (answer.status_code, answer.json()) == (403, {"errors": [_sentence(project)], "codes": ANY})
    assert (await client.get(PATH)).json() == {"resource": stored}


async def test_what_disappears_from_git_is_gone_and_its_history_stays(
    client: httpx2.AsyncClient, stored: dict[str, Any], source: Repository, follow: Follow, project: str
) -> None:
    source.remove("destinations/siem.json")
    source.write("other.json", json.dumps(destination("other")))
    source.commit()
    run = (await client.post(f"/v1/repositories/{project}/reconcile")).json()["run"]
    # A file event may have begun the run before it was asked for.
    await follow.finished(run)
    assert (await client.get(PATH)).status_code == 404
    versions = (await client.get("/v1/Destination/siem/history")).json()["versions"]
    assert versions == [stored | {"status": {"source": stored["status"]["source"]}}]


@pytest.mark.usefixtures("stored")
async def test_what_the_api_created_and_git_contains_belongs_to_git(
    client: httpx2.AsyncClient, source: Repository, follow: Follow, project: str
) -> None:
    ours = (await client.get("/v1/resources/Destination/ours")).json()["resource"]
    source.write("destinations/ours.json", json.dumps(destination("ours")))
    source.commit()
    run = (await client.post(f"/v1/repositories/{project}/reconcile")).json()["run"]
    await follow.finished(run)
    adopted = (await client.get("/v1/resources/Destination/ours")).json()["resource"]
    assert adopted["metadata"] == ours["metadata"]
    assert adopted["status"]["source"]["path"] == "destinations/ours.json"
    assert (await client.delete("/v1/resources/Destination/ours")).status_code == 403


def _why(repository: str) -> str:
    return f"managed by the repository {repository}; change it there"


def _sentence(repository: str) -> str:
    return f"Destination siem: forbidden: {_why(repository)}"
