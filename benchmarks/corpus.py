"""A seeded repository of many small resources: the same bytes for the same seed, on every machine."""

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

FOLDER = 100  # files in one folder
SECOND = 1_700_000_000  # the Unix time of the first commit
WORDS = ("payments", "checkout", "search", "ledger", "gateway", "catalog", "pricing", "shipping")


def make(path: Path, *, files: int, commits: int = 1, seed: int = 1) -> None:
    """A bare repository whose branch `main` holds so many files of one resource each, about 600 bytes a file.

    The first commit holds them all, and each further one changes one of them.
    """
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(path)], check=True)
    subprocess.run(
        ["git", "-C", str(path), "fast-import", "--quiet"], input=b"".join(_stream(files, commits, seed)), check=True
    )


def path(number: int) -> str:
    """Where a file is."""
    return f"team-{number // FOLDER:04d}/destination-{number:06d}.yaml"


def _stream(files: int, commits: int, seed: int) -> Iterator[bytes]:
    yield b"commit refs/heads/main\ncommitter Bench <bench@localhost> %d +0000\ndata 5\nfirst\n" % SECOND
    source = random.Random(seed)  # noqa: S311 - a reproducible corpus, no secret
    for number in range(files):
        yield _write(number, source)
    for further in range(1, commits):
        yield b"commit refs/heads/main\ncommitter Bench <bench@localhost> %d +0000\ndata 4\nnext\n" % (SECOND + further)
        yield _write(source.randrange(files), source)


def _write(number: int, source: random.Random) -> bytes:
    text = document(number, source).encode()
    return f"M 644 inline {path(number)}\ndata {len(text)}\n".encode() + text + b"\n"


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
