"""A seeded repository of many small resources: the same bytes for the same seed, on every machine."""

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

FOLDER = 100  # files in one folder
WORDS = ("payments", "checkout", "search", "ledger", "gateway", "catalog", "pricing", "shipping")


def make(path: Path, *, files: int, seed: int = 1) -> None:
    """A bare repository whose branch `main` holds so many files of one resource each, about 600 bytes a file."""
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(path)], check=True)
    subprocess.run(["git", "-C", str(path), "fast-import", "--quiet"], input=b"".join(_stream(files, seed)), check=True)


def _stream(files: int, seed: int) -> Iterator[bytes]:
    yield b"commit refs/heads/main\ncommitter Bench <bench@localhost> 1700000000 +0000\ndata 5\nfirst\n"
    source = random.Random(seed)  # noqa: S311 - a reproducible corpus, no secret
    for number in range(files):
        text = document(number, source).encode()
        folder = f"team-{number // FOLDER:04d}"
        yield f"M 644 inline {folder}/destination-{number:06d}.yaml\ndata {len(text)}\n".encode() + text + b"\n"


def document(number: int, source: random.Random) -> str:
    """One Destination as people write them."""
    team, region = source.choice(WORDS), source.choice(("eu-1", "us-2", "ap-3"))
    return f"""\
apiVersion: service/v1
kind: Destination
metadata:
  name: destination-{number:06d}
  displayName: {team.capitalize()} in {region}
  description: Log records of the {team} services, kept for {source.randint(7, 400)} days
  labels:
    team: {team}
    region: {region}
    tier: "{source.randint(1, 4)}"
spec:
  type: webhook
  parameters:
    - name: hostname
      value: logs-{source.randint(1, 99)}.{region}.example.com
    - name: port
      value: {source.randint(1024, 65535)}
    - name: path
      value: /v1/{team}/records
    - name: scheme
      value: https
    - name: timeout
      value: {source.randint(1, 30)}
    - name: format
      value: json_array
"""
