"""Which documented path a request is of, and which project its path names."""

import pytest

from api.calls import Services
from api.edge import RequestPlace, RequestPlaces
from tests.api.conftest import Follow
from tests.repositories import Repository

pytestmark = pytest.mark.anyio

PLACES = RequestPlaces(
    [
        "/v1/{kind}/{name}/history",
        "/v1/projects/{name}",
        "/v1/projects/{name}/members",
        "/v1/projects/mine",
        "/v1/repositories/{name}/suspend",
        "/hooks/{repository}",
    ]
)


@pytest.mark.parametrize(
    ("path", "documented"),
    [
        ("/v1/projects/mine", "/v1/projects/mine"),
        ("/v1/projects/none-of-this/members", "/v1/projects/{name}/members"),
        ("/v1/destination/siem/history", "/v1/{kind}/{name}/history"),
        ("/v1/repositories/none-of-this/suspend", "/v1/repositories/{name}/suspend"),
        ("/v1/projects/", ""),
        ("/v1/projects/a/members/", ""),
        ("/v1/projects/a\n", "/v1/projects/{name}"),
        ("", ""),
    ],
)
async def test_a_path_is_told_as_it_is_documented_and_what_is_not_there_names_no_project(
    services: Services, path: str, documented: str
) -> None:
    assert PLACES.of(path, services) == RequestPlace(documented, "")


async def test_a_project_and_a_repository_that_are_there_name_the_project(
    services: Services, follow: Follow, source: Repository, project: str
) -> None:
    source.commit()
    await follow(f"placed-{project}", source, project=project)
    for path, documented in (
        (f"/v1/projects/{project}/members", "/v1/projects/{name}/members"),
        (f"/v1/repositories/placed-{project}/suspend", "/v1/repositories/{name}/suspend"),
        (f"/hooks/placed-{project}", "/hooks/{repository}"),
    ):
        assert PLACES.of(path, services) == RequestPlace(documented, project)


async def test_without_paths_nothing_is_documented(services: Services) -> None:
    assert RequestPlaces(()).of("/v1/me", services) == RequestPlace("", "")
