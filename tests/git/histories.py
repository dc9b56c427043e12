"""Small random histories that part and cross, made with the git program."""

import random
import shutil
from pathlib import Path

from tests.repositories import Repository

NAMES = tuple(f"{folder}{name}" for folder in ("", "x/", "x/y/", "z/") for name in "abc")


def build(path: Path, seed: int) -> Repository:
    """A repository whose branches `main` and `other` have parted, in a third of the cases with a crossing."""
    chance = random.Random(seed)  # noqa: S311 - the same numbers each time are what is wanted
    repository = Repository.init(path)
    for name in chance.sample(NAMES, 5):
        repository.write(name, "\n".join(f"{name}{line}" for line in range(10)))
    repository.commit()
    repository.branch("other")
    _changes(repository, chance)
    repository.switch("other")
    _changes(repository, chance)
    if chance.random() < 1 / 3:
        _cross(repository, chance)
    return repository


def _cross(repository: Repository, chance: random.Random) -> None:
    tip = repository.head()
    repository.git("merge", "-q", "--no-edit", "-X", "ours", "main", statuses=(0, 1))
    repository.git("add", "--all")
    repository.git("commit", "-q", "--allow-empty", "-m", "Merge")
    _changes(repository, chance)
    repository.switch("main")
    repository.git("merge", "-q", "--no-edit", "-X", "theirs", tip, statuses=(0, 1))
    repository.git("add", "--all")
    repository.git("commit", "-q", "--allow-empty", "-m", "Merge")
    _changes(repository, chance)


def _changes(repository: Repository, chance: random.Random) -> None:
    for _ in range(chance.randint(1, 2)):
        for _ in range(chance.randint(1, 3)):
            _change(repository, chance)
        repository.commit()


def _change(repository: Repository, chance: random.Random) -> None:
    files = [file for file in sorted(repository.path.rglob("*")) if file.is_file() and ".git" not in file.parts]
    kind, name = chance.random(), repository.path / chance.choice(NAMES)
    if kind < 0.5 and files:
        _edit(chance.choice(files), chance)
    elif kind < 0.65 and files:
        chance.choice(files).unlink()
    elif kind < 0.85 and files:
        _move(chance.choice(files), name.with_name(f"{name.name}{chance.randrange(2)}"))
    elif kind < 0.9 and files:
        chance.choice(files).chmod(chance.choice((0o755, 0o644)))
    elif not name.is_dir():
        repository.write(
            str(name.relative_to(repository.path)), "\n".join(f"new {chance.randrange(3)}" for _ in "abcdef")
        )


def _move(old: Path, new: Path) -> None:
    if not new.exists():
        new.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(old, new)


def _edit(file: Path, chance: random.Random) -> None:
    lines = file.read_text().split("\n")
    at = chance.randrange(len(lines))
    kind = chance.randrange(3)
    lines[at : at + (kind != 0)] = [] if kind == 2 else [f"changed {chance.randrange(4)}"]
    file.write_text("\n".join(lines))
