"""The documentation hangs together: every link leads somewhere, and every page can be found."""

from pathlib import Path

import pytest

from reconciler.cli.main import ENTRIES
from tests.docs import pages

PAGES = pages.all_pages()


def name(path: Path) -> str:
    return str(path.relative_to(pages.ROOT))


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_every_link_leads_to_a_file_and_a_heading_in_it(path: Path) -> None:
    broken = []
    for link in pages.links(pages.read(path)):
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (anchor and anchor not in pages.anchors(pages.read(target))):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("start", ["README.md", "docs/README.md"])
def test_every_page_is_found_from(start: str) -> None:
    first = pages.ROOT / start
    found, waiting = {first, pages.ROOT / "README.md"}, [first]
    while waiting:
        page = waiting.pop()
        for link in pages.links(pages.read(page)):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target.exists() and target not in found:
                found.add(target)
                waiting.append(target)
    assert [name(page) for page in PAGES if page not in found] == []


def test_the_contents_name_every_page_of_their_folder() -> None:
    contents = pages.ROOT / "docs" / "README.md"
    linked = {(contents.parent / link.partition("#")[0]).resolve() for link in pages.links(pages.read(contents))}
    beside = {*contents.parent.glob("*.md"), *contents.parent.glob("*/README.md")} - {contents}
    assert [name(page) for page in sorted(beside - linked)] == []


def test_every_command_in_a_block_is_one_there_is() -> None:
    lines = [
        (name(path), line.removeprefix("$ "))
        for path in PAGES
        for language in ("sh", "console", "")
        for block in pages.blocks(pages.read(path), language)
        for line in block.splitlines()
    ]
    commands = [(page, line.split()[1]) for page, line in lines if line.startswith("reconciler ")]
    assert len(commands) > len(PAGES)
    known = {*ENTRIES, "--version", "COMMAND"}
    assert [command for command in commands if command[1] not in known] == []
