"""Load for whatever takes export requests: `wrk` with prepared bodies, and a client that keeps to a rate.

What is measured with it is in `delivery` and its like.
"""

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SCRIPT = Path(__file__).with_name("wrk") / "post.lua"
PROTOBUF = "application/x-protobuf"
MISSING = "`wrk` is not installed (apt-get install wrk)"


@dataclass(frozen=True, slots=True)
class Load:
    """One body, posted over so many connections for so long."""

    body: bytes
    records: int  # of the body
    connections: int
    seconds: int  # `wrk` knows no parts


@dataclass(frozen=True, slots=True)
class Answers:
    """How requests were answered; what was under way at the end is in none of them."""

    accepted: int
    refused: int
    seconds: float
    p99_ms: float


def missing() -> bool:
    """Return True if `wrk` is missing."""
    return shutil.which("wrk") is None


def post(load: Load, *, port: int, keys: list[str], folder: Path) -> Answers:
    """Post to `/v1/logs` on this machine. Raises RuntimeError when connections broke, or when nothing was accepted."""
    body, key_file = folder / "body", folder / "keys"
    body.write_bytes(load.body)
    key_file.write_text("".join(f"{key}\n" for key in keys))
    command = ["wrk", "-t1", f"-c{load.connections}", f"-d{load.seconds}s", "--timeout", "30s", "-s", str(SCRIPT)]
    command += [f"http://127.0.0.1:{port}/v1/logs", "--", str(body), str(key_file), PROTOBUF]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=load.seconds + 60)
    told = json.loads(next(line for line in ran.stdout.splitlines() if line.startswith('{"answered"')))
    if told["broken"] or told["answered"] == told["refused"]:
        raise RuntimeError(f"the load was not taken: {told}")
    return Answers(
        accepted=told["answered"] - told["refused"],
        refused=told["refused"],
        seconds=told["microseconds"] / 1e6,
        p99_ms=told["p99"] / 1e3,
    )
