"""Clients that generators make of the OpenAPI document work against a running service."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from api import openapi
from tests import daemons
from tests.daemons import Daemon
from tests.providers import found

pytestmark = pytest.mark.providers

HERE = Path(__file__).parent
TOLD = {
    "apply": ["created", "created", "created"],
    "read": ["one", 1],
    "page": [["one", "three"], ["two"]],
    "remove": [["deleted"], 204],
    "refuse": ["resource-not-found"],
}
COMPILER = {"strict": True, "target": "es2022", "module": "nodenext", "types": ["node"]}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A running service."""
    with daemons.running(tmp_path / "daemon", has_real_reader=True) as daemon:
        yield daemon


@pytest.fixture
def document(tmp_path: Path) -> Path:
    """The OpenAPI document, as the service gives it."""
    file = tmp_path / "openapi.json"
    file.write_bytes(openapi.encoded())
    return file


def run(*command: str | Path, path: str = os.environ["PATH"]) -> str:
    """Run a program; its output."""
    environment = {"PATH": path}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def url(daemon: Daemon) -> str:
    """Return the address of the service."""
    return f"http://{daemon.host}:{daemon.port}"


def test_a_python_client_applies_reads_pages_and_deletes(daemon: Daemon, document: Path, tmp_path: Path) -> None:
    programs, client = found.generators(), tmp_path / "service_client"
    path = f"{programs}:{os.environ['PATH']}"
    generate = ("generate", "--path", document, "--output-path", client, "--meta", "none")
    told = run(programs / "openapi-python-client", *generate, path=path)
    # The one thing that it leaves out: a body that is protobuf.
    assert told.count("WARNING") == 1, told
    assert "Unsupported content type application/x-protobuf" in told
    answer = run(programs / "python", HERE / "client.py", client, url(daemon), daemon.key)
    assert json.loads(answer) == TOLD


def test_a_typescript_client_applies_reads_pages_and_deletes(daemon: Daemon, document: Path, tmp_path: Path) -> None:
    node, modules = found.node(), found.NODE_MODULES
    (tmp_path / "node_modules").symlink_to(modules)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "client.ts").write_bytes((HERE / "client.ts").read_bytes())
    settings = {"compilerOptions": COMPILER, "files": ["client.ts"]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(settings))
    run(node, modules / "openapi-typescript" / "bin" / "cli.js", document, "--output", tmp_path / "api.d.ts")
    run(node, modules / "typescript" / "bin" / "tsc", "--project", tmp_path)
    assert json.loads(run(node, tmp_path / "client.js", url(daemon), daemon.key)) == TOLD
