"""Whether the programs that the settings need are there, and git is one that is known to work."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from reconciler.settings.models import Settings
from reconciler.upkeep.findings import DoctorFinding, error, ok, warning

NAME = "programs"
OLDEST_GIT = (2, 39)  # that is tested
SECONDS = 10.0
HTTPS = "git-remote-https"


class ProgramFacts(NamedTuple):
    """What `git version` said, empty without git, and which of the needed programs are not there."""

    git: str
    missing: tuple[str, ...]


def needed_programs(settings: Settings) -> tuple[str, ...]:
    """The programs beside git, sorted."""
    found: set[str] = set()
    for repository in settings.repositories:
        if repository.url.startswith("https:"):
            found.add(HTTPS)
        if repository.url.startswith("ssh:"):
            found.add("ssh")
        if repository.credentials.ssh_passphrase_file is not None:
            found.update(("ssh-agent", "ssh-add"))
        if repository.verify.signers_file is not None:
            found.add("ssh-keygen")
    return tuple(sorted(found))


def gather_programs(needed: tuple[str, ...]) -> ProgramFacts:
    """Look for them. Raises OSError."""
    if shutil.which("git") is None:
        return ProgramFacts("", tuple(name for name in needed if name != HTTPS and shutil.which(name) is None))
    folder = Path(_said("--exec-path").strip())
    missing = [name for name in needed if shutil.which(name) is None and not (folder / name).exists()]
    return ProgramFacts(_said("version").strip() or "git", tuple(missing))


def judge_programs(facts: ProgramFacts) -> list[DoctorFinding]:
    """What is missing."""
    return [*_of_git(facts.git), *(_missing(name) for name in facts.missing)]


def _of_git(said: str) -> Iterator[DoctorFinding]:
    if not said:
        yield error(NAME, "there is no program git", "install it, or put its folder into PATH")
        return
    found = re.search(r"(\d+)\.(\d+)", said)
    if found is None or (int(found[1]), int(found[2])) < OLDEST_GIT:
        oldest = ".".join(map(str, OLDEST_GIT))
        yield warning(
            NAME, f"git says that it is `{said}`, and {oldest} is the oldest that is tested", "install a later one"
        )
    else:
        yield ok(NAME, said)


def _missing(name: str) -> DoctorFinding:
    package = "the package of git that has it" if name == HTTPS else "openssh-client, or what has it here"
    return error(NAME, f"there is no program {name}, which a repository of the settings needs", f"install {package}")


def _said(argument: str) -> str:
    try:
        done = subprocess.run(["git", argument], capture_output=True, timeout=SECONDS, check=False, cwd="/")
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout[:1000].decode("utf-8", "replace")
