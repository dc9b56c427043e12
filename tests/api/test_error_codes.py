"""Each error of the API has a code, and the codes are listed in docs/api.md and in the OpenAPI document."""

from typing import Any

import httpx2
import pytest

from reconciler.model.error_codes import ErrorCode
from tests.api.contracts import DOCUMENT, STATUSES

pytestmark = pytest.mark.anyio

INCOMPLETE = {"kind": "Destination", "metadata": {"name": "one"}, "spec": {"type": "none"}}


def test_every_code_has_a_meaning_and_is_documented() -> None:
    assert list(STATUSES) == list(ErrorCode)
    assert DOCUMENT["components"]["schemas"]["ErrorCode"]["x-extensible-enum"] == list(ErrorCode)


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("GET", "/v1/nothing", None, (404, [ErrorCode.PATH_NOT_FOUND])),
        ("GET", "/v1/resources/Pod/one", None, (404, [ErrorCode.KIND_NOT_FOUND])),
        ("GET", "/v1/resources/Fleet/one", None, (404, [ErrorCode.RESOURCE_NOT_FOUND])),
        ("DELETE", "/v1/resources/Fleet/one", None, (404, [ErrorCode.RESOURCE_NOT_FOUND])),
        ("GET", "/v1/repositories/none", None, (404, [ErrorCode.REPOSITORY_NOT_FOUND])),
        ("GET", "/v1/projects/none", None, (404, [ErrorCode.PROJECT_NOT_FOUND])),
        ("GET", "/v1/runs/none", None, (404, [ErrorCode.NOT_FOUND])),
        ("POST", "/v1/runs", None, (405, [ErrorCode.METHOD_NOT_ALLOWED])),
        ("POST", "/v1/apply", {"resources": 1, "x": 2}, (400, [ErrorCode.INVALID_REQUEST] * 2)),
        (
            "POST",
            "/v1/apply?atomic=true",
            {"resources": [INCOMPLETE, INCOMPLETE]},
            (409, [ErrorCode.RESOURCE_INVALID] * 2),
        ),
    ],
)
async def test_an_error_has_a_code_for_each_sentence(
    client: httpx2.AsyncClient, method: str, path: str, body: Any, expected: tuple[int, list[ErrorCode]]
) -> None:
    answer = await client.request(method, path, json=body)
    told = answer.json()
    assert (answer.status_code, told["codes"], len(told["errors"])) == (*expected, len(told["codes"]))
