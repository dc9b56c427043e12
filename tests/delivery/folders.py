"""Folders of secrets to test with, and a process that permissions stop."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from reconciler.delivery.secrets import SecretDirectory, SecretSources
from tests import needs

OUTSIDE = "canary-from-outside"


def sources(
    path: Path,
    environment: Mapping[str, str] = MappingProxyType({}),
    *,
    flat: bool = False,
    patterns: tuple[str, ...] = (),
) -> SecretSources:
    """Sources with the files of a folder, and this environment."""
    return SecretSources(environment, patterns, SecretDirectory(path, flat=flat))


def write(path: Path, text: str | bytes = "value") -> Path:
    """A file, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def with_permissions(code: str, *arguments: str | Path) -> str:
    """Run a program that permissions restrict, unlike root, and return its output."""
    without = "-dac_override,-dac_read_search"
    prefix = [needs.require("setpriv"), f"--bounding-set={without}"] if os.geteuid() == 0 else []
    command = [*prefix, sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
