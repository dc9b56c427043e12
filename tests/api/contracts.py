"""Answers held against the contract: every answer that a test gets must be one that `openapi.yaml` documents."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
from jsonschema_rs import Draft202012Validator

from api import openapi
from reconciler.model.error_codes import ErrorCode

DOCUMENT: dict[str, Any] = json.loads(openapi.encoded())
STATUSES = {
    ErrorCode(code): statuses
    for code, statuses in re.findall(
        r"^\| `([a-z-]+)` \| ([\d, ]+) \| .+ \|$", Path("docs/api.md").read_text(), re.MULTILINE
    )
}
"""The statuses that each code is documented to come with."""
METHODS = ("get", "post", "delete", "put", "patch", "head", "options", "trace")
ANY_METHOD = {405}  # of a method that a path does not take: not documented, since OpenAPI lists those that it takes


def operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, method and operation, each."""
    for path, item in DOCUMENT["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method, item[method]


def validator(schema: dict[str, Any]) -> Draft202012Validator:
    """A validator of a schema in the document, whose references start there."""
    return Draft202012Validator({"components": DOCUMENT["components"], **schema})


async def check(answer: httpx2.Response) -> None:
    """Fail for an answer of another status, with another body or without a header that the contract promises."""
    method = "get" if answer.request.method == "HEAD" else answer.request.method.lower()
    path = _template(answer.request.url.path)
    if path is None or method not in DOCUMENT["paths"][path]:
        return
    responses = DOCUMENT["paths"][path][method]["responses"]
    assert str(answer.status_code) in responses, f"{method} {path} is not documented to answer {answer.status_code}"
    documented = _resolved(responses[str(answer.status_code)])
    promised = {name.lower() for name, header in documented.get("headers", {}).items() if _resolved(header)["required"]}
    assert promised <= answer.headers.keys()
    body = await answer.aread()
    if "content" in documented and answer.request.method != "HEAD":
        assert answer.headers["content-type"] in documented["content"]
        if answer.headers["content-type"] == "application/json":
            value = json.loads(body)
            _validator(path, method, str(answer.status_code)).validate(value)
            if "codes" in value:
                assert len(value["codes"]) == len(value["errors"])
                assert all(str(answer.status_code) in STATUSES[ErrorCode(code)] for code in value["codes"])
    else:
        assert body == b""


def _template(path: str) -> str | None:
    """The documented path that an address belongs to; a literal one wins."""
    if path in DOCUMENT["paths"]:
        return path
    patterns = ((template, re.sub(r"\{\w+\}", "[^/]+", template)) for template in DOCUMENT["paths"])
    return next((template for template, pattern in patterns if re.fullmatch(pattern, path)), None)


def _resolved(value: dict[str, Any]) -> dict[str, Any]:
    found: Any = DOCUMENT
    for part in value.get("$ref", "#").split("/")[1:]:
        found = found[part]
    return found if "$ref" in value else value


@cache
def _validator(path: str, method: str, status: str) -> Draft202012Validator:
    content = _resolved(DOCUMENT["paths"][path][method]["responses"][status])["content"]
    return validator(content["application/json"]["schema"])
