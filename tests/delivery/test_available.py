"""Which secrets a project may refer to: names alone, and only of what can be read."""

import os
from pathlib import Path

import pytest

from reconciler.delivery import secrets
from reconciler.model.secret_references import AvailableSecrets
from reconciler.settings.models import Secrets
from tests.delivery.folders import OUTSIDE, sources, write

PROJECT = "default"


def test_the_names_are_those_of_files_that_can_be_read(tmp_path: Path) -> None:
    folder = tmp_path / PROJECT
    for name in ("token", "a/b/token", "a.b-c_D", "1"):
        write(folder / name)
    for name in (".hidden", ".git/token", "a/.hidden", "with space", "ümlaut", "-dash", f"{'x' * 200}/{'y' * 60}"):
        write(folder / name)
    write(folder / "empty", "")
    write(folder / "newline", "\n")
    write(folder / "binary", b"\xff")
    write(folder / "large", "x" * 65537)
    write(tmp_path / "other" / "theirs")
    write(tmp_path / "outside", OUTSIDE)
    (folder / "link").symlink_to(tmp_path / "outside")
    (folder / "folder").symlink_to(tmp_path / "other")
    (folder / "hard").hardlink_to(tmp_path / "outside")
    os.mkfifo(folder / "pipe")
    found = secrets.available_secrets(sources(tmp_path), PROJECT)
    assert found == AvailableSecrets(files=frozenset({"token", "a/b/token", "a.b-c_D", "1"}))


def test_nothing_is_there_without_a_folder(tmp_path: Path) -> None:
    assert secrets.available_secrets(sources(tmp_path / "gone"), PROJECT) == AvailableSecrets()
    assert secrets.available_secrets(sources(tmp_path), PROJECT) == AvailableSecrets()
    assert secrets.available_secrets(sources(tmp_path / "gone", flat=True), PROJECT) == AvailableSecrets(flat=True)


def test_variables_are_those_that_match_and_hold_text() -> None:
    environment = {
        "DESTINATION_WEB__TOKEN": "x",
        "DESTINATION_WEB__EMPTY": "",
        "DESTINATION_WEB__BYTES": os.fsdecode(b"\xff"),
        "DESTINATION_OTHER__TOKEN": "x",
        "SERVICE_API_KEY": "x",
        "PATH": "/bin",
    }
    found = secrets.available_secrets(sources(Path("/nowhere"), environment, patterns=Secrets().env), "web")
    assert found == AvailableSecrets(env=frozenset({"DESTINATION_WEB__TOKEN"}), patterns=("DESTINATION_WEB__*",))


def test_a_flat_folder_gives_each_project_what_begins_with_its_name(tmp_path: Path) -> None:
    for name in ("web_token", "web_a_b", "web-shop_token", "web_.hidden", "web_", "token", "web_folder/token"):
        write(tmp_path / name)
    (tmp_path / "web_link").symlink_to(tmp_path / "token")
    found = secrets.available_secrets(sources(tmp_path, flat=True), "web")
    assert found == AvailableSecrets(files=frozenset({"token", "a_b"}), flat=True)
    assert secrets.available_secrets(sources(tmp_path, flat=True), "web-shop").files == {"token"}


def test_folders_count_down_to_a_level(tmp_path: Path) -> None:
    levels = ["a"] * secrets.MOST_LEVELS
    for depth in range(1, secrets.MOST_LEVELS + 2):
        write(tmp_path.joinpath(PROJECT, *["a"] * (depth - 1), "f"))
    found = secrets.available_secrets(sources(tmp_path), PROJECT).files
    assert found == {"/".join([*levels[:depth], "f"]) for depth in range(secrets.MOST_LEVELS)}


def test_only_so_many_files_count_in_the_order_of_their_names(tmp_path: Path) -> None:
    names = [f"{number:04}" for number in range(secrets.MOST_FILES + 5)]
    for name in reversed(names):
        write(tmp_path / PROJECT / name)
    assert secrets.available_secrets(sources(tmp_path), PROJECT).files == set(names[: secrets.MOST_FILES])


def test_only_so_many_entries_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "MOST_ENTRIES", 6)
    for number in range(3):
        write(tmp_path / PROJECT / f"a{number}" / "f")
    for number in range(4):
        write(tmp_path / PROJECT / "a0" / f"g{number}")
    assert len(secrets.available_secrets(sources(tmp_path), PROJECT).files) == 3


def test_no_value_is_in_what_is_shown(tmp_path: Path) -> None:
    write(tmp_path / PROJECT / "token", "canary")
    one = sources(tmp_path, {"A1": "canary"}, patterns=("A*",))
    expected = AvailableSecrets(frozenset({"A1"}), frozenset({"token"}), patterns=("A*",))
    assert secrets.available_secrets(one, PROJECT) == expected
    assert "canary" not in repr(one) + repr(secrets.available_secrets(one, PROJECT))
