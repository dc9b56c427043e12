"""A file of a tree."""

import pytest

from reconciler.git.ignoring import Ignore
from reconciler.git.selecting import considered


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.yaml", True),
        ("a.yml", True),
        ("a.json", True),
        ("teams/deep/down/a.yaml", True),
        (".a.yaml", True),
        ("README.md", False),
        ("a.yaml.bak", False),
        ("a.YAML", False),
        ("yaml", False),
        (".github/a.yaml", False),
        ("teams/.hidden/deep/a.yaml", False),
        ("../a.yaml", False),
        ("drafts/a.yaml", False),
        ("..\\u002fup.yaml", True),
    ],
)
def test_counts_by_its_ending_and_its_folders(path: str, expected: bool) -> None:
    assert considered(path, Ignore({"": "drafts/"})) is expected


def test_counts_below_a_configured_folder_that_begins_with_a_dot() -> None:
    ignore = Ignore({}, root=".config/telemetry")
    assert considered(".config/telemetry/a.yaml", ignore)
    assert not considered(".config/telemetry/.git/a.yaml", ignore)
