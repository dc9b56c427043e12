"""scripts/check_schemas.py says every mistake on a line of its own."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def check(*arguments: str) -> tuple[int, list[str]]:
    command = [sys.executable, str(ROOT / "scripts" / "check_schemas.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOT / "schemas" / "v1", tmp_path / "v1"))


def edit(path: Path, change: Callable[[Any], None]) -> None:
    schema = json.loads(path.read_text())
    change(schema)
    path.write_text(json.dumps(schema))


def test_the_schemas_of_the_service_have_no_mistake() -> None:
    assert check() == (0, [])


def test_every_mistake_is_named_with_its_file_and_pointer(folder: Path) -> None:
    (folder / "Fleet.json").unlink()
    (folder / "Notification.json").write_text((folder / "envelope.json").read_text())
    (folder / "Source.json").write_text('{"type": "object", "type": "object"}')
    edit(folder / "AgentVersion.json", lambda schema: schema["properties"]["spec"].update(type="map"))
    edit(folder / "Connector.json", lambda schema: schema.update({"$id": "urn:service:v1:Other", "title": ""}))
    edit(folder / "Destination.json", lambda schema: schema["properties"]["spec"].pop("description"))
    edit(folder / "Extension.json", lambda schema: schema["examples"][0]["spec"].pop("type"))
    edit(folder / "Processor.json", lambda schema: schema["properties"]["kind"].update(const="processor"))
    edit(folder / "SourceType.json", lambda schema: schema["$defs"]["metadata"]["properties"].pop("warning"))
    edit(
        folder / "ExtensionType.json",
        lambda schema: schema["properties"]["apiVersion"].update({"pattern": "\\d+", "$ref": "#/$defs/none"}),
    )

    status, mistakes = check(str(folder))

    assert status == 1
    # What jsonschema says of a broken schema is its own wording, so these lines are told by their beginnings.
    foreign = (
        "AgentVersion.json: /properties/spec/type: ",
        "Extension.json: /examples/0/spec: ",
        "Processor.json: /ex",
    )
    assert [mistake for mistake in mistakes if not mistake.startswith(foreign)] == [
        "Fleet.json: is missing",
        "Notification.json: is the schema of no kind",
        "Source.json: the key type stands twice in one object",
        "Connector.json: /$id: is not urn:service:v1:Connector",
        "Connector.json: /title: is missing",
        "Destination.json: /properties/spec: has no description",
        "ExtensionType.json: /properties/apiVersion: refers to nothing in this file",
        "ExtensionType.json: /properties/apiVersion: has a pattern that is not anchored at both ends",
        "ExtensionType.json: /properties/apiVersion: has a pattern with a class that is not spelled out, as [0-9] is",
        "ExtensionType.json: /properties/apiVersion: has a pattern and no errorMessage",
        "Notification.json: /$id: is not urn:service:v1:Notification",
        "Notification.json: /properties/kind: is not the constant Notification",
        "Processor.json: /properties/kind: is not the constant Processor",
        "SourceType.json: /$defs/metadata: differs from the one in AgentVersion.json",
    ]
    assert {prefix for prefix in foreign for mistake in mistakes if mistake.startswith(prefix)} == set(foreign)
