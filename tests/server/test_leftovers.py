"""Mirrors and git homes, and which of them a start removes."""

from pathlib import Path

import pytest

from reconciler.git.remotes.credentials import ANONYMOUS, Credentials
from reconciler.server import mirror_folders

URL = "/srv/git/telemetry.git"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (URL, "telemetry"),
        ("/srv/git/telemetry/", "telemetry"),
        ("https://git.example:8443/platform/telemetry.git", "telemetry"),
        ("ssh://git@git.example/~/a.b", "a-b"),
        ("file:///srv/%2e%2e/..", "repository"),
        ("/srv/größe", "gr-e"),
        ("/srv/" + "x" * 300, "x" * 40),
        ("https://git.example", "git-example"),
    ],
)
def test_a_place_is_named_after_the_remote(url: str, name: str) -> None:
    shown, _, digest = mirror_folders.remote_place(url, ANONYMOUS).rpartition("-")
    assert (shown, len(digest)) == (name, 12)
    assert mirror_folders.MIRROR.fullmatch(f"{shown}-{digest}.git")
    assert mirror_folders.HOME.fullmatch(f"{shown}-{digest}")


def test_whatever_tells_remotes_apart_tells_their_places_apart() -> None:
    file = Path("/etc/secret")
    every = [
        ANONYMOUS,
        Credentials(username="bob", password_file=file),
        Credentials(username="eve", password_file=file),
        Credentials(username="bob", token_file=file),
        Credentials(ca_file=file),
        Credentials(proxy="http://proxy.example"),
    ]
    places = {mirror_folders.remote_place(url, credentials) for credentials in every for url in (URL, f"file://{URL}")}
    assert len(places) == 2 * len(every)
    assert mirror_folders.remote_place(URL, Credentials()) == mirror_folders.remote_place(URL, ANONYMOUS)


def test_a_start_removes_what_no_repository_has_and_what_served_the_last_process(tmp_path: Path) -> None:
    kept, gone = (
        mirror_folders.remote_place(URL, ANONYMOUS),
        mirror_folders.remote_place("/srv/git/gone.git", ANONYMOUS),
    )
    mirrors = (f"{kept}.git", f".{kept}.git.new", f"{gone}.git", f".{gone}.git.old", f".{gone}.git.3.gone")
    proposals = (f"{kept}.git.proposals-1", f".{kept}.git.proposals-12.new", f"{gone}.git.proposals-2")
    for name in (*mirrors, *proposals):
        (tmp_path / "mirrors" / name / "objects").mkdir(parents=True)
    for name in (kept, gone):  # whatever a killed process left, a half written file or a socket
        (tmp_path / "git" / name).mkdir(parents=True)
        (tmp_path / "git" / name / "gitconfig.new").touch()
    (tmp_path / "mirrors/of-somebody-else").mkdir()
    (tmp_path / f"mirrors/{gone}-link.git").symlink_to(tmp_path)
    aside = mirror_folders.retire_leftovers(tmp_path, kept=[kept])
    assert all(path.name.endswith(".gone") for path in aside)
    left = {path.name for folder in ("mirrors", "git") for path in (tmp_path / folder).iterdir()}
    assert left - {path.name for path in aside} == {
        f"{kept}.git",
        f".{kept}.git.new",  # the mirror's own matter
        "of-somebody-else",
        f"{gone}-link.git",
    }
    assert len(aside) == 8
