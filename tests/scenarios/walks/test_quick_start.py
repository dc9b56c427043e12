"""docs/quick-start.md, followed word by word in a clean folder: each command succeeds and says what the page says."""

import os
from pathlib import Path

import pytest

from tests import needs
from tests.docs import pages
from tests.scenarios.walks import conftest
from tests.scenarios.walks.following import Walk

PAGE = pages.read(pages.ROOT / "docs/quick-start.md")
INSTALL_SECONDS = 600.0  # all dependencies are fetched


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_whoever_follows_it_has_a_record_delivered(walk: Walk) -> None:
    conftest.clone(walk.folder)
    conftest.installed(walk.folder)
    before = names(walk.folder)
    walk.follow(PAGE)
    assert names(walk.folder) == before
    assert names(walk.folder.parent / "home") == {".gitconfig"}


@pytest.mark.slow
def test_whoever_begins_with_nothing_but_a_clone_does_as_well(walk: Walk) -> None:
    """The program is installed by `make install`, from where this machine gets Python's packages."""
    conftest.clone(walk.folder)
    walk.seconds = INSTALL_SECONDS
    walk.environment = {
        **walk.environment,
        **{name: value for name, value in os.environ.items() if name.startswith("PIP_") or name.endswith("_proxy")},
    }
    if walk.terminal("probe").run("python3 -m pip download --quiet --no-deps --dest ../probe hatchling").code != 0:
        needs.lacking("packages of Python to install")
    walk.follow(PAGE)
    assert (walk.folder / ".venv/bin/reconciler").is_file()
    assert "try" not in names(walk.folder)
