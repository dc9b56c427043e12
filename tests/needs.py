"""Programs that a test needs and a machine may lack.

A missing thing is named when the test skips; with CI=true the skip is a failure.
"""

import os
import shutil
import socket
import subprocess
from typing import NoReturn

import pytest


def require(program: str) -> str:
    """The path of a program, or a named skip."""
    return shutil.which(program) or lacking(f"the program {program}")


def require_mount_namespace() -> list[str]:
    """The command prefix that gives a process its own mounts (a small or read-only disk), or a named skip."""
    prefix = [require("unshare"), "--user", "--map-root-user", "--mount"]
    if subprocess.run([*prefix, "true"], capture_output=True, timeout=10, check=False).returncode != 0:
        lacking("user and mount namespaces")
    return prefix


def require_ipv6() -> None:
    """A named skip where loopback has no address of IPv6."""
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            lacking("the address ::1")


def require_root() -> None:
    """A named skip for everybody but root, in CI too: there the suite runs as root and as an ordinary user."""
    if os.geteuid() != 0:
        pytest.skip("only root may do this")


def lacking(thing: str) -> NoReturn:
    """Skip because `thing` is missing here; fail instead when CI=true."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"this machine lacks {thing}, and in CI nothing may be skipped")
    pytest.skip(f"this machine lacks {thing}")
