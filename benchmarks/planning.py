"""Plans of ten changed files in ten thousand: the whole process, cold, beside the plain script on the same files."""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from benchmarks import corpus
from benchmarks.figures import Figure

CHANGED = 10
ENTRIES = 8
BRANCH = "proposal"
PROGRAM = str(Path(sys.executable).with_name("reconciler"))
ALONE, TOGETHER = 0.9, 2.5  # times the script, at most


def measure(*, files: int, rounds: int = 5) -> list[Figure]:
    """The wall time of the process, by turns with the script, which reads and parses all files and inserts nothing: of
    one entry, and of several in one project, which are judged together.
    """
    with tempfile.TemporaryDirectory() as place:
        repository, config = Path(place) / "corpus.git", Path(place) / "settings.yaml"
        corpus.make(repository, files=files)
        _propose(repository, files)
        config.write_text(json.dumps({"repositories": _entries(repository, files)}), encoding="utf-8")
        plan = [PROGRAM, "plan", "--head", BRANCH]
        scripts, alone, together = [], [], []
        for _ in range(rounds):
            scripts.append(_seconds([sys.executable, "-m", "benchmarks.plain_script", str(repository)]))
            alone.append(_seconds([*plan, str(repository)]))
            together.append(_seconds([*plan, "--config", str(config), str(repository)]))
    what = f"plan of {CHANGED} changed files in {files:,}"
    return [
        _figure(f"{what}, whole process", alone, scripts, most=ALONE),
        _figure(f"{what}, of a project of {ENTRIES} entries", together, scripts, most=TOGETHER),
    ]


def _figure(what: str, plans: list[float], scripts: list[float], *, most: float) -> Figure:
    ours, floor = statistics.median(plans), statistics.median(scripts)
    ratio = statistics.median(one / other for one, other in zip(plans, scripts, strict=True))
    return Figure(
        what,
        f"{ours:.2f} s",
        f"at most {most} times the plain script without insert, whole process, {floor:.2f} s",
        f"{ratio:.2f}",
        missed=ratio > most,
    )


def _entries(repository: Path, files: int) -> list[dict[str, object]]:
    """The settings of entries that share the folders out."""
    folders = sorted({corpus.path(number).partition("/")[0] for number in range(files)})
    return [
        {"name": f"entry-{number}", "url": str(repository), "include": [f"/{one}/" for one in folders[number::ENTRIES]]}
        for number in range(ENTRIES)
    ]


def _propose(repository: Path, files: int) -> None:
    """A branch that changes the port in ten files of different folders."""
    git = ("git", "-C", str(repository))
    lines = [f"commit refs/heads/{BRANCH}\ncommitter Bench <bench@localhost> {corpus.SECOND + 1} +0000\ndata 6\nchange"]
    lines.append("from refs/heads/main")
    for number in range(0, files, files // CHANGED):
        path = corpus.path(number)
        text = subprocess.run([*git, "show", f"main:{path}"], check=True, capture_output=True, text=True).stdout
        changed = text.replace("value: https", "value: http")
        lines.append(f"M 644 inline {path}\ndata {len(changed.encode())}\n{changed}")
    subprocess.run([*git, "fast-import", "--quiet"], input="\n".join(lines).encode() + b"\n", check=True)


def _seconds(command: list[str]) -> float:
    begun = perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - begun
