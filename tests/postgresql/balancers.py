"""nginx before replicas, with the very configuration of examples/replicas.

    with balancers.running(folder, [one.port for one in replicas]) as balancer:
        connect to balancer.port

It is changed in its places alone: ports and folders here for addresses and folders there.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests import needs
from tests.servers import processes

ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "examples" / "replicas" / "nginx.conf"
UNPACKED = ROOT / ".venv" / "nginx" / "usr" / "sbin" / "nginx"
REPLICAS = tuple(f"172.30.31.{number}:3001" for number in (11, 12, 13))  # there


class Balancer(NamedTuple):
    """A running nginx, and the log in which each answer has a line (see FORMAT)."""

    port: int
    log: Path

    def tries(self) -> list[list[int]]:
        """Of each request that took several tries, the statuses that replicas gave; 0 for no answer."""
        found = (line.split("\t")[2] for line in self.log.read_text().splitlines())
        return [[_status(one) for one in tried.split(", ")] for tried in found if ", " in tried]


# Method, the status of the answer, and those of all replicas that were asked for it.
FORMAT = "log_format tries '$request_method\t$status\t$upstream_status';"


@contextlib.contextmanager
def running(folder: Path, ports: Sequence[int], *, port: int | None = None) -> Iterator[Balancer]:
    """Run nginx before three ports of loopback, at a free port or this one."""
    nginx = str(UNPACKED) if UNPACKED.exists() else needs.require("nginx")
    folder.mkdir(parents=True, exist_ok=True)
    port, log = port or processes.free_port(), folder / "access"
    log.touch()
    config = folder / "nginx.conf"
    config.write_text(_configuration(folder, port=port, log=log, ports=ports))
    command = [nginx, "-p", str(folder), "-e", str(folder / "error"), "-c", str(config), "-g", "daemon off;"]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True, timeout=30, check=False)
    assert checked.returncode == 0, checked.stderr
    environment = {"PATH": os.environ.get("PATH", os.defpath)}
    with processes.listening(command, port=port, log=folder / "output", environment=environment):
        yield Balancer(port, log)


def _configuration(folder: Path, *, port: int, log: Path, ports: Sequence[int]) -> str:
    text = CONFIGURATION.read_text(encoding="utf-8")
    changes = {" /tmp/": f" {folder}/"}
    changes |= {address: f"127.0.0.1:{one}" for address, one in zip(REPLICAS, ports, strict=True)}
    changes |= {
        "listen 8080;": f"listen 127.0.0.1:{port};",
        "error_log stderr warn;": f"error_log {folder}/error warn;",
        "access_log off;": f"{FORMAT}\n    access_log {log} tries;",
    }
    for there, here in changes.items():
        assert there in text
        text = text.replace(there, here)
    # Root's nginx would work as nobody, who cannot enter the folder.
    return ("user root;\n" if os.geteuid() == 0 else "") + text


def _status(text: str) -> int:
    return int(text) if text.isdecimal() else 0
