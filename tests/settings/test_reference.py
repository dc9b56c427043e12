"""docs/settings.md says what the classes say."""

import re
from pathlib import Path

from reconciler.settings import layers
from tests.settings import reference

DOCUMENT = (Path(__file__).parents[2] / "docs" / "settings.md").read_text(encoding="utf-8")
FIRST_CELL = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)


def lines(section: str) -> list[str]:
    """The rows of the tables under a heading."""
    _, _, after = DOCUMENT.partition(f"\n## {section}\n")
    text = after.partition("\n## ")[0]
    return [line for line in text.splitlines() if FIRST_CELL.match(line)]


def test_every_key_has_its_row_and_every_row_its_key() -> None:
    assert lines("Keys") == [str(row) for row in reference.rows()]


def test_every_key_has_a_meaning() -> None:
    assert [row.key for row in reference.rows() if not row.meaning.endswith(".")] == []


def test_every_variable_has_its_row_with_its_key() -> None:
    expected = {name: variable.key for name, variable in layers.VARIABLES.items()}
    found = dict(
        re.findall(r"^\| `(SERVICE_[A-Z0-9_]+)` \| `([^`]*)` \|", "\n".join(lines("Environment")), re.MULTILINE)
    )
    assert {**found, layers.API_KEY: "apiKey"} == expected
    for name in (layers.API_KEY, *layers.ELSEWHERE):
        assert f"| `{name}` | " in DOCUMENT


def test_the_example_file_is_right(tmp_path: Path) -> None:
    from reconciler.settings import loading  # noqa: PLC0415

    (example,) = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)[:1]
    config = tmp_path / "config.yaml"
    config.write_text(example)
    loaded = loading.load(config=config, environment={}, overrides={})
    assert [repository.name for repository in loaded.settings.repositories] == ["telemetry"]
