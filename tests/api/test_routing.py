"""Which endpoint a path leads to."""

import pytest

from api.routing import Endpoint, Router

ROUTER = Router(
    Endpoint(path)
    for path in (
        "/v1/projects/{name}",
        "/v1/projects/{name}/members",
        "/v1/projects/mine",
        "/hooks/{repository}",
        "/v1/{kind}/{name}/history",
    )
)


@pytest.mark.parametrize(
    ("path", "documented", "parameters"),
    [
        ("/v1/projects/mine", "/v1/projects/mine", {}),
        ("/v1/projects/a/members", "/v1/projects/{name}/members", {"name": "a"}),
        ("/v1/projects/a/history", "/v1/{kind}/{name}/history", {"kind": "projects", "name": "a"}),
        ("/hooks/a", "/hooks/{repository}", {"repository": "a"}),
        ("/v1/projects/a\n", "/v1/projects/{name}", {"name": "a\n"}),
    ],
)
def test_a_literal_path_wins_and_others_are_tried_in_their_order(
    path: str, documented: str, parameters: dict[str, str]
) -> None:
    found = ROUTER.find(path)
    assert found is not None
    assert (found[0].path, found[1]) == (documented, parameters)


@pytest.mark.parametrize("path", ["/v1/projects/", "/v1/projects/a/members/", "/v1/projects", ""])
def test_any_other_path_leads_nowhere(path: str) -> None:
    assert ROUTER.find(path) is None
