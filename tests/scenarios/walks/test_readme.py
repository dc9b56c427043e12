"""README.md, followed by somebody with a clone of the project: what it shows is what happens."""

import re

from tests import daemons
from tests.docs import pages
from tests.repositories import Repository
from tests.scenarios.walks import conftest, following
from tests.scenarios.walks.following import Walk
from tests.scenarios.walks.terminals import Terminal

PAGE = pages.read(pages.ROOT / "README.md")
EXPORT = re.compile(r"^  (export SERVICE_SERVER=\S+ SERVICE_API_KEY=\S+)$", re.MULTILINE)


def configuration_clone(walk: Walk) -> Terminal:
    """A terminal in a clone of some repository, on a branch with a change."""
    origin = Repository.init(walk.transcripts / "origin")
    origin.write("siem.yaml", daemons.destination("siem"))
    origin.commit()
    folder = walk.transcripts / "clone"
    origin.git("clone", "--quiet", str(origin.path), str(folder))
    clone = Repository(folder)
    clone.write("siem.yaml", daemons.destination("siem", "another one"))
    clone.commit()
    path = f"{conftest.BIN}:{walk.environment['PATH']}"
    return Terminal(folder, walk.transcripts / "plan", {**walk.environment, "PATH": path})


def test_what_it_shows_is_what_happens(walk: Walk) -> None:
    conftest.clone(walk.folder)
    conftest.installed(walk.folder)
    walk.put("clone", configuration_clone(walk))
    for block in following.blocks(PAGE):
        walk.do(block)
        if walk.ran == ["make run"]:
            export(walk, walk.terminal("demo"))
    assert [command for command in walk.ran if command.startswith(("make ", "curl "))] == [walk.ran[0], walk.ran[-2]]
    assert sum("reconciler " in command for command in walk.ran) == 4


def export(walk: Walk, demo: Terminal) -> None:
    """The line that a reader takes over from one terminal into another."""
    found = daemons.until(lambda: EXPORT.search(demo.text()), "it says what to export")
    walk.ran.append("export")
    walk.terminal(following.MAIN).run(found[1])
