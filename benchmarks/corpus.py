"""A seeded repository of many small resources: the same bytes for the same seed, on every machine."""

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

FOLDER = 100  # files in one folder
SECOND = 1_700_000_000  # the Unix time of the first commit
WORDS = ("payments", "checkout", "search", "ledger", "gateway", "catalog", "pricing", "shipping")


def make(
    path: Path, *, files: int, commits: int = 1, seed: int = 1, flat: bool = False, distinct: bool = False
) -> None:
    """A bare repository whose branch `main` holds so many files of one resource each, about 600 bytes a file.

    The first commit holds them all, and each further one changes one of them. `flat`: all are in one folder.
    `distinct`: no two files differ in their values alone.
    """
    empty(path)
    imported(path, b"".join(_stream(files, commits, seed, flat=flat, distinct=distinct)))


def empty(path: Path) -> None:
    """A bare repository without commits."""
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(path)], check=True)


def imported(path: Path, stream: bytes) -> None:
    """Have `git fast-import` take a stream."""
    subprocess.run(["git", "-C", str(path), "fast-import", "--quiet"], input=stream, check=True)


def path(number: int, *, flat: bool = False) -> str:
    """Return the path of a file."""
    name = f"destination-{number:06d}.yaml"
    return f"all/{name}" if flat else f"team-{number // FOLDER:04d}/{name}"


def name(number: int) -> str:
    """Return the name of its resource."""
    return f"destination-{number:06d}"


def _stream(files: int, commits: int, seed: int, *, flat: bool, distinct: bool) -> Iterator[bytes]:
    yield b"commit refs/heads/main\ncommitter Bench <bench@localhost> %d +0000\ndata 5\nfirst\n" % SECOND
    source = random.Random(seed)  # noqa: S311 - a reproducible corpus, no secret
    for number in range(files):
        yield _write(number, source, flat=flat, distinct=distinct)
    for further in range(1, commits):
        yield b"commit refs/heads/main\ncommitter Bench <bench@localhost> %d +0000\ndata 4\nnext\n" % (SECOND + further)
        yield _write(source.randrange(files), source, flat=flat, distinct=distinct)


def _write(number: int, source: random.Random, *, flat: bool, distinct: bool) -> bytes:
    comment = f"# file {number}\n" if distinct else ""
    return written(path(number, flat=flat), comment + document(number, source))


def written(path: str, text: str) -> bytes:
    """A file, as `git fast-import` takes it."""
    content = text.encode()
    return f"M 644 inline {path}\ndata {len(content)}\n".encode() + content + b"\n"


def size(*, files: int, seed: int = 1) -> int:
    """The bytes of all documents together."""
    source = random.Random(seed)  # noqa: S311 - as above
    return sum(len(document(number, source).encode()) for number in range(files))


def document(number: int, source: random.Random) -> str:
    """One Destination as people write them."""
    team, region = source.choice(WORDS), source.choice(("eu-1", "us-2", "ap-3"))
    return f"""\
apiVersion: service/v1
kind: Destination
metadata:
  name: {name(number)}
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
