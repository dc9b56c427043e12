"""The project as a whole: what no file may hold, what the lock file pins."""

import os
import re
import subprocess
import tomllib
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BINARY = {".png", ".ico", ".whl", ".gz", ".db", ".xz"}

# Spelled in two parts, so that this file may hold them.
FORBIDDEN = [
    "pypi" + ".org",
    "pypi" + ".python.org",
    "files.python" + "hosted.org",
    "registry.npm" + "js.org",
    "proxy.go" + "lang.org",
    "--index" + "-url",
    "--find" + "-links",
]
# Somebody's machine. In examples and tests people are called ada.
MACHINE_PATH = re.compile(r"(?:^|[\s\"'=(`])/(?:root|work|farm|home(?!/ada\b))/[\w.]")


def files() -> list[Path]:
    """The files of the project: tracked ones, and new ones that are not ignored."""
    told = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        timeout=30,
        check=True,
    )
    paths = {ROOT / os.fsdecode(name) for name in told.stdout.split(b"\0") if name}
    return sorted(path for path in paths if path.is_file() and path.suffix not in BINARY)


def test_no_file_names_a_package_registry_or_a_path_of_one_machine() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout")
    found = []
    for path in files():
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if MACHINE_PATH.search(line) or any(word in line for word in FORBIDDEN):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}")
    assert found == []


def canonical(name: str) -> str:
    """A distribution's name as the lock file writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def dependencies() -> list[str]:
    """Return what pyproject.toml asks for: to run, to develop and to build."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    optional = project["project"].get("optional-dependencies", {})
    asked = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    asked += [requirement for group in optional.values() for requirement in group]
    return sorted({canonical(re.split(r"[^\w.-]", requirement)[0]) for requirement in asked})


def pins() -> dict[str, list[str]]:
    """Each entry of constraints.txt, `name==version`, with its hashes."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8").replace("\\\n", " ")
    entries = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {entry[0]: [word for word in entry if word.startswith("--hash=sha256:")] for entry in entries}


def test_every_pin_is_exact_and_has_hashes() -> None:
    assert [pin for pin, hashes in pins().items() if not hashes or "==" not in pin] == []


def test_every_dependency_is_pinned() -> None:
    pinned = {pin.split("==")[0] for pin in pins()}
    assert [name for name in dependencies() if name not in pinned] == []


def test_what_runs_the_product_is_pinned_before_what_develops_it() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        wanted = {canonical(re.split(r"[^\w.-]", name)[0]) for name in tomllib.load(file)["project"]["dependencies"]}
    first = (ROOT / "constraints.txt").read_text(encoding="utf-8").split("\n# For development\n")[0]
    assert wanted <= {line.split("==")[0] for line in first.splitlines() if "==" in line}


def test_every_dependency_has_its_reason_in_the_architecture() -> None:
    page = ROOT / "docs" / "architecture.md"
    if not page.exists():
        pytest.skip("docs/architecture.md is not written yet")
    words = {canonical(word) for word in re.findall(r"[\w.-]+", page.read_text(encoding="utf-8"))}
    assert [name for name in dependencies() if name not in words] == []


def test_every_module_has_its_floor() -> None:
    parser = ConfigParser(comment_prefixes=("#",))
    parser.read(ROOT / ".importlinter", encoding="utf-8")
    floors = set(re.findall(r"[\w.]+", parser["importlinter:contract:floors"]["layers"]))
    modules = {
        f"reconciler.{path.stem}"
        for path in (ROOT / "reconciler").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert sorted(modules - {"reconciler.__init__"} - floors) == []
