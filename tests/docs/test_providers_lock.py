"""Packages that the tests take from npm are pinned, with hashes, and without where it was fetched."""

import json
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "providers"


def test_each_package_has_a_hash_and_none_says_where_it_was_fetched() -> None:
    packages = json.loads((FOLDER / "package-lock.json").read_text())["packages"]
    wanted = json.loads((FOLDER / "package.json").read_text())["dependencies"]
    assert packages.pop("")["dependencies"] == wanted
    assert sorted(name for name, one in packages.items() if not one["integrity"].startswith("sha512-")) == []
    assert [name for name, one in packages.items() if "resolved" in one or one.get("hasInstallScript")] == []
