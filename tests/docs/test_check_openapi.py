"""scripts/check_openapi.py finds what OpenAPI's own rules leave open."""

import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

Check = Callable[[str], tuple[int, str]]

GOOD = """
openapi: 3.1.0
info: {title: Small, version: 0.0.1}
security: [{key: []}]
paths:
  /v1/version:
    get:
      operationId: getVersion
      security: []
      responses:
        "200":
          description: The version.
          content: {application/json: {schema: {type: string}, example: 1.2.3}}
  /v1/things/{name}:
    get:
      operationId: getThing
      parameters:
        - {name: name, in: path, required: true, schema: {$ref: "#/components/schemas/Name"}, example: one}
      responses:
        "200":
          description: The thing.
          content:
            application/json:
              schema: {$ref: "#/components/schemas/Thing"}
              examples: {small: {value: {name: one}}}
        "401": {description: No credential.}
components:
  securitySchemes: {key: {type: http, scheme: bearer}}
  schemas:
    Name: {type: string, examples: [one]}
    Thing: {type: object, properties: {name: {$ref: "#/components/schemas/Name"}}}
"""


@pytest.fixture(scope="module")
def script() -> Mapping[str, Any]:
    """Return what the script defines, which takes a second to import."""
    return runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "check_openapi.py"))


@pytest.fixture
def check(script: Mapping[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """The exit code, and what is printed."""

    def checked(text: str) -> tuple[int, str]:
        file = tmp_path / "small.yaml"
        file.write_text(text, encoding="utf-8")
        code: int = script["main"]([str(file)])
        return code, "".join(capsys.readouterr())

    return checked


def test_a_good_document_passes(check: Check) -> None:
    assert check(GOOD) == (0, "")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("      operationId: getThing\n", "", "GET /v1/things/{name}: has no operationId"),
        (
            "operationId: getThing",
            "operationId: getVersion",
            "the document: Operation ID 'getVersion' for 'get' in '/v1/things/{name}' is not unique",
        ),
        (
            '        "401": {description: No credential.}\n',
            "",
            "GET /v1/things/{name}: needs a credential and describes no 401 (public operations say `security: []`)",
        ),
        (
            "example: 1.2.3",
            "example: 5",
            "/paths/~1v1~1version/get/responses/200/content/application~1json/example: 5 is not of type 'string'",
        ),
        (
            "{value: {name: one}}",
            "{value: {name: 1}}",
            "/paths/~1v1~1things~1{name}/get/responses/200/content/application~1json/examples/small/value.name:"
            " 1 is not of type 'string'",
        ),
        ("examples: [one]", "examples: [1]", "/components/schemas/Name/examples/0: 1 is not of type 'string'"),
    ],
)
def test_a_fault_is_named_with_its_place(check: Check, old: str, new: str, complaint: str) -> None:
    assert GOOD.count(old) == 1
    assert check(GOOD.replace(old, new)) == (1, f"small.yaml: {complaint}\n")


def test_what_is_no_openapi_is_refused(check: Check) -> None:
    bad = GOOD.replace("info: {title: Small, version: 0.0.1}", "info: {version: 0.0.1}")
    assert check(bad) == (1, 'small.yaml: info: "title" is a required property\n')
