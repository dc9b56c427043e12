"""docs/review.md and docs/environments.md show what `reconciler plan` says now, with settings that are right."""

import re
from pathlib import Path

import pytest

from reconciler.cli.main import ENTRIES
from reconciler.git.file_selection import FileGlobs
from reconciler.model.outcomes import UpdateStatus
from reconciler.review import plan
from reconciler.settings import loading
from tests.docs import pages, rendering

REVIEW, ENVIRONMENTS = pages.read(rendering.REVIEW), pages.read(rendering.ENVIRONMENTS)
HINT = "run `python -m tests.docs.rendering`, and read what changed"


@pytest.mark.parametrize("page", rendering.PAGES, ids=lambda page: page.name)
def test_every_block_is_what_the_command_prints_now(page: Path, tmp_path: Path) -> None:
    text = pages.read(page)
    blocks = rendering.PAGES[page](tmp_path / "example")
    assert rendering.names(text) == list(blocks)
    assert rendering.filled(text, blocks) == text, HINT


def test_the_signs_are_those_of_the_skins() -> None:
    rows = pages.table(pages.section(REVIEW, "Reading it"))
    shown = {status: row["sign"].strip("`") for row in rows for status in re.findall(r"`([\w-]+)`", row["status"])}
    told_apart = {UpdateStatus.NOT_FOUND, UpdateStatus.UNCHANGED}  # a merge asks for no such thing; only counted
    assert shown == {str(status): sign for status, sign in plan.SYMBOLS.items() if status not in told_apart}


def test_what_fail_on_takes_is_told() -> None:
    text = pages.section(REVIEW, "Exit codes")
    extra = set(plan.FAIL_ON) - set(UpdateStatus)
    assert set(re.findall(r"`([\w-]+)`", text.partition("takes statuses,")[2].partition(", separated")[0])) == extra
    examples = re.findall(r"--fail-on ([\w,-]+)", REVIEW)
    assert examples
    assert {word for example in examples for word in example.split(",")} <= set(plan.FAIL_ON)


def test_the_codes_are_those_of_the_command() -> None:
    rows = pages.table(pages.section(REVIEW, "Exit codes"))
    assert [int(row["code"]) for row in rows] == [
        plan.FINE,
        1,
        2,
        plan.CHANGED,
        plan.TRIPPED,
    ]


def test_the_files_for_forges_are_told() -> None:
    shipped = {path.relative_to(pages.ROOT).as_posix() for path in (pages.ROOT / "examples/ci").rglob("*.*")}
    linked = {link.removeprefix("../") for link in pages.links(REVIEW)}
    assert {path for path in shipped if "__pycache__" not in path} <= linked


def test_the_hooks_are_told() -> None:
    ids = re.findall(r"^- id: (\S+)$", pages.read(pages.ROOT / ".pre-commit-hooks.yaml"), re.MULTILINE)
    [config] = pages.blocks(REVIEW, "yaml")
    assert re.findall(r"- id: (\S+)", config) == ids


def test_the_commands_exist() -> None:
    for page in (REVIEW, ENVIRONMENTS):
        assert set(re.findall(r"`reconciler ([a-z-]+)", page)) <= set(ENTRIES)


def settings(tmp_path: Path) -> dict[str, loading.Loaded]:
    """Each block of settings, by the name in its first line."""
    found = {}
    for text in pages.blocks(ENVIRONMENTS, "yaml"):
        name = text.partition("\n")[0].removeprefix("# ")
        (tmp_path / name).write_text(text, encoding="utf-8")
        found[name] = loading.load(config=tmp_path / name, environment={}, overrides={})
    return found


def test_the_settings_of_each_pattern_are_right(tmp_path: Path) -> None:
    loaded = settings(tmp_path)
    environments = [("staging", "staging"), ("production", "production")]
    teams = [("types", "default"), ("payments", "default")]
    assert [each.warnings for each in loaded.values()] == [()] * 3
    assert {name: [(one.name, one.project) for one in each.settings.repositories] for name, each in loaded.items()} == {
        "folders.yaml": environments,
        "branches.yaml": environments,
        "teams.yaml": teams,
    }


def test_each_environment_has_its_folder_and_what_is_shared(tmp_path: Path) -> None:
    for one in settings(tmp_path)["folders.yaml"].settings.repositories:
        globs = FileGlobs(include=one.include, exclude=one.exclude)
        assert globs.choose("shared/types/a.yaml")
        assert globs.choose(f"environments/{one.name}/a.yaml")
        others = {"staging", "production"} - {one.name}
        assert not any(globs.choose(f"environments/{other}/a.yaml") for other in others)
        assert not globs.choose("teams/shared/a.yaml")
