"""The places of the providers and the browser on this machine, or a skip that names what is missing.

How they are started is in `certified`, `second`, `dex` and `chromium`.
"""

import functools
import shutil
import subprocess
from pathlib import Path

import playwright
import pytest

from tests import needs

ROOT = Path(__file__).parents[2]
NODE_MODULES = Path(__file__).with_name("node_modules")
UNPACKED = ROOT / ".venv" / "glewlwyd"
DEX = ROOT / ".venv" / "dex" / "dex"
ORACLE = ROOT / ".venv" / "oracle" / "oracle"
COLLECTOR = ROOT / ".venv" / "otelcol" / "otelcol"
HELM = ROOT / ".venv" / "helm"
OLDEST_NODE = 20
CHROMIUM = Path("/usr/bin/chromium")


@functools.cache
def node() -> Path:
    """A Node that is new enough: the machine's, or else the one that Playwright brings with it."""
    if not (NODE_MODULES / "oidc-provider").is_dir():
        needs.lacking("npm's oidc-provider (`make test-providers` installs it)")
    installed = shutil.which("node")
    return Path(installed) if installed and _major(Path(installed)) >= OLDEST_NODE else _of_playwright()


def glewlwyd() -> Path:
    """The folder that glewlwyd's packages are unpacked in; it has a `usr`."""
    if not (UNPACKED / "usr" / "bin" / "glewlwyd").is_file():
        needs.lacking("Debian's glewlwyd (`make test-providers` unpacks it)")
    return UNPACKED


def dex() -> Path:
    """The program."""
    return DEX if DEX.is_file() else needs.lacking("dex (`make test-providers` builds it)")


def template_oracle() -> Path:
    """The program in Go that evaluates templates."""
    return ORACLE if ORACLE.is_file() else needs.lacking("the oracle of templates (`make test-providers` builds it)")


def collector() -> Path:
    """The OpenTelemetry Collector. Where its many modules cannot be had, its tests skip, in CI too."""
    return COLLECTOR if COLLECTOR.is_file() else pytest.skip("otelcol is missing (`make test-providers` builds it)")


def helm() -> Path:
    """Helm."""
    program = HELM / "helm"
    return program if program.is_file() else needs.lacking("helm (`make test-providers` builds it)")


def deploy() -> Path:
    """The program that reads compose files and manifests as strictly as it can (`deploy_build/main.go`)."""
    program = HELM / "deploy"
    return program if program.is_file() else needs.lacking("the checker of manifests (`make test-providers` builds it)")


def generators() -> Path:
    """The folder with the programs of openapi-python-client's own environment."""
    programs = ROOT / ".venv" / "generators" / "bin"
    if not (programs / "openapi-python-client").is_file():
        needs.lacking("openapi-python-client (`make test-providers` installs it)")
    return programs


def chromium() -> Path:
    """Debian's Chromium."""
    return CHROMIUM if CHROMIUM.exists() else needs.lacking(f"the program {CHROMIUM}")


def _of_playwright() -> Path:
    brought = Path(playwright.__file__).parent / "driver" / "node"
    return brought if brought.is_file() else needs.lacking(f"Node {OLDEST_NODE} or later")


def _major(program: Path) -> int:
    told = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30, check=True)
    return int(told.stdout.removeprefix("v").split(".")[0])
