"""docs/ownership.md shows settings that are right, and what runs really say."""

from pathlib import Path

from reconciler.model.names import Key
from reconciler.model.outcomes import Outcome, StoredState, UpdateStatus
from reconciler.settings import loading
from tests.docs import pages

PAGE = pages.read(pages.ROOT / "docs/ownership.md")
KEY = Key("Fleet", "edge")


def test_the_settings_are_right(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    [text] = pages.blocks(PAGE, "yaml")
    config.write_text(text, encoding="utf-8")
    loaded = loading.load(config=config, environment={}, overrides={})
    assert loaded.warnings == ()
    assert [each.name for each in loaded.settings.repositories] == ["platform", "payments"]


def test_what_a_run_says_is_quoted_as_it_is() -> None:
    stored = StoredState(KEY, digest=b"", version=1, owner="platform")
    owned = Outcome(KEY, UpdateStatus.FORBIDDEN, stored=stored).why()
    left_out = Outcome(KEY, UpdateStatus.FORBIDDEN).why()
    assert [block.strip() for block in pages.blocks(PAGE, "")] == [owned, left_out]


def test_every_status_that_it_names_exists() -> None:
    rows = pages.table(pages.section(PAGE, "Git and the API"))
    named = {row["outcome"].split("`")[1] for row in rows if row["outcome"].startswith("`")}
    assert named <= set(UpdateStatus)
    assert len(named) > 1
