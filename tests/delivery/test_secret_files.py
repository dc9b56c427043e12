"""Reading a secret's file: nothing but a regular file beneath the project's folder is ever read."""

import contextlib
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.delivery import secrets
from reconciler.delivery.secrets import MOST_SECRET_BYTES, SecretDirectory, UnusableSecretFile
from tests.delivery.folders import OUTSIDE, with_permissions, write

PROJECT = "default"


def read(folder: Path, name: str, *, project: str = PROJECT, flat: bool = False) -> str:
    return secrets.read_secret_file(SecretDirectory(folder, flat=flat), name, project=project)


def refused(folder: Path, name: str, *, flat: bool = False) -> bool:
    """Return True if the file is not read and the error reveals nothing."""
    with pytest.raises(UnusableSecretFile) as told:
        read(folder, name, flat=flat)
    return str(told.value) == ""


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"value", "value"),
        (b"value\n", "value"),
        (b"value\r\n", "value"),
        (b"value\n\n", "value\n"),
        (b"value\r", "value\r"),
        (b"a\nb\n", "a\nb"),
        (b" value ", " value "),
        ("schlüssel\n".encode(), "schlüssel"),
        (b"x" * MOST_SECRET_BYTES, "x" * MOST_SECRET_BYTES),
        (b"${env:A}", "${env:A}"),
    ],
)
def test_a_file_is_read_less_one_newline_at_its_end(tmp_path: Path, data: bytes, text: str) -> None:
    write(tmp_path / PROJECT / "token", data)
    assert read(tmp_path, "token") == text


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"\r\n", b"a\0b", b"\0", b"\xff", b"a\xc3", b"x" * (MOST_SECRET_BYTES + 1)]
)
def test_what_is_empty_or_no_text_or_too_large_is_not_read(tmp_path: Path, data: bytes) -> None:
    write(tmp_path / PROJECT / "token", data)
    assert refused(tmp_path, "token")


def test_folders_are_entered(tmp_path: Path) -> None:
    write(tmp_path / PROJECT / "a" / "b" / "token")
    assert read(tmp_path, "a/b/token") == "value"
    assert refused(tmp_path, "a/b")
    assert refused(tmp_path, "a/b/other")
    assert refused(tmp_path, "a/b/token/more")


def test_a_project_reads_its_own_folder_alone(tmp_path: Path) -> None:
    write(tmp_path / "other" / "token")
    write(tmp_path / "token")
    assert refused(tmp_path, "token")


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert refused(tmp_path / "gone", "token")
    assert refused(write(tmp_path / "file"), "token")


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../outside",
        "../../outside",
        "a/../../outside",
        "./token",
        "a//token",
        "/token",
        "token/",
        ".token",
        "a/.token",
        "%2e%2e/outside",
        "..%2foutside",
        "..\\outside",
        "a\0",
        "token\n",
        "x" * 256,
        "a/" * 128 + "a",
        "~",
        "\N{FULLWIDTH FULL STOP}\N{FULLWIDTH FULL STOP}/outside",
    ],
)
def test_what_is_no_plain_name_is_not_read(tmp_path: Path, name: str) -> None:
    for place in ("outside", f"{PROJECT}/token", f"{PROJECT}/.token", f"{PROJECT}/a/token", f"{PROJECT}/a/.token"):
        write(tmp_path / place, OUTSIDE)
    assert refused(tmp_path, name)
    assert refused(tmp_path, str(tmp_path / "outside"))


# What is not a regular file with one name


def to_a_file(folder: Path, outside: Path) -> None:
    (folder / "token").symlink_to(outside)


def to_a_file_beside_it(folder: Path, _: Path) -> None:
    write(folder / "other")
    (folder / "token").symlink_to("other")


def to_nowhere(folder: Path, _: Path) -> None:
    (folder / "token").symlink_to("gone")


def to_the_files_of_the_process(folder: Path, _: Path) -> None:
    (folder / "token").symlink_to("/proc/self/environ")


def as_a_hard_link(folder: Path, outside: Path) -> None:
    (folder / "token").hardlink_to(outside)


def as_a_pipe(folder: Path, _: Path) -> None:
    os.mkfifo(folder / "token")


def as_a_folder(folder: Path, _: Path) -> None:
    (folder / "token").mkdir()


def as_a_socket(folder: Path, _: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = Path.cwd()
        os.chdir(folder)  # the path of a socket is short
        try:
            one.bind("token")
        finally:
            os.chdir(here)


WAYS: list[Callable[[Path, Path], None]] = [
    to_a_file,
    to_a_file_beside_it,
    to_nowhere,
    to_the_files_of_the_process,
    as_a_hard_link,
    as_a_pipe,
    as_a_folder,
    as_a_socket,
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("flat", [False, True])
def test_what_is_no_regular_file_with_one_name_is_not_read(
    tmp_path: Path, way: Callable[[Path, Path], None], flat: bool
) -> None:
    outside = write(tmp_path / "outside", OUTSIDE)
    folder = tmp_path / "secrets" / PROJECT
    folder.mkdir(parents=True)
    way(folder, outside)
    if flat:
        (folder / "token").rename(folder / f"{PROJECT}_token")
    assert refused(folder if flat else folder.parent, "token", flat=flat)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
@pytest.mark.parametrize("kind", [stat.S_IFCHR, stat.S_IFBLK])
def test_a_device_is_not_read(tmp_path: Path, kind: int) -> None:
    (tmp_path / PROJECT).mkdir()
    try:
        os.mknod(tmp_path / PROJECT / "token", kind | 0o600, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        pytest.skip("devices cannot be made here")
    assert refused(tmp_path, "token")


@pytest.mark.parametrize("linked", ["default", "default/a", "default/a/b"])
def test_a_folder_that_is_a_link_is_not_entered(tmp_path: Path, linked: str) -> None:
    write(tmp_path / "outside" / "a" / "b" / "token", OUTSIDE)
    link = tmp_path / "secrets" / linked
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "outside" / Path(linked).relative_to("default"))
    assert (link / Path("a/b/token").relative_to(Path(linked).relative_to("default"))).read_text() == OUTSIDE
    assert refused(tmp_path / "secrets", "a/b/token")


def test_the_configured_folder_itself_may_be_a_link(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / PROJECT / "token")
    (tmp_path / "secrets").symlink_to("elsewhere")
    assert read(tmp_path / "secrets", "token") == "value"


def test_what_the_service_may_not_read_is_as_good_as_not_there(tmp_path: Path) -> None:
    file = write(tmp_path / PROJECT / "token")
    code = (
        "import sys; from pathlib import Path; from reconciler.delivery import secrets as d\n"
        "try: print(d.read_secret_file(d.SecretDirectory(Path(sys.argv[1])), 'token', project='default'))\n"
        "except d.UnusableSecretFile: print('unusable')"
    )
    file.chmod(0o644)
    assert with_permissions(code, tmp_path) == "value\n"
    file.chmod(0o200)
    assert with_permissions(code, tmp_path) == "unusable\n"
    file.chmod(0o644)
    file.parent.chmod(0o600)
    assert with_permissions(code, tmp_path) == "unusable\n"


def test_nothing_stays_open(tmp_path: Path) -> None:
    write(tmp_path / PROJECT / "a" / "token")
    os.mkfifo(tmp_path / PROJECT / "a" / "pipe")
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    for name in ("a/token", "a/pipe", "a/gone", "gone/token", "a"):
        with contextlib.suppress(UnusableSecretFile):
            read(tmp_path, name)
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == before


# systemd's flat folder


def test_in_a_flat_folder_the_project_comes_first_and_folders_are_written_with_underscores(tmp_path: Path) -> None:
    write(tmp_path / "web-shop_token", "one")
    write(tmp_path / "web-shop_a_b", "two")
    write(tmp_path / "web_token", "three")
    write(tmp_path / "web-shop" / "x", "four")
    files = SecretDirectory(tmp_path, flat=True)
    assert secrets.read_secret_file(files, "token", project="web-shop") == "one"
    assert (
        secrets.read_secret_file(files, "a/b", project="web-shop")
        == secrets.read_secret_file(files, "a_b", project="web-shop")
        == "two"
    )
    assert secrets.read_secret_file(files, "token", project="web") == "three"
    for name in ("x", "shop_token", "web-shop/x"):
        with pytest.raises(UnusableSecretFile):
            secrets.read_secret_file(files, name, project="web-shop")


@pytest.mark.parametrize(
    ("setting", "environment", "expected"),
    [
        (None, {}, SecretDirectory(Path("/state/secrets"))),
        (None, {"CREDENTIALS_DIRECTORY": ""}, SecretDirectory(Path("/state/secrets"))),
        (None, {"CREDENTIALS_DIRECTORY": "relative"}, SecretDirectory(Path("/state/secrets"))),
        (None, {"CREDENTIALS_DIRECTORY": "/run/c"}, SecretDirectory(Path("/run/c"), flat=True)),
        (Path("/srv/s"), {"CREDENTIALS_DIRECTORY": "/run/c"}, SecretDirectory(Path("/srv/s"))),
    ],
)
def test_the_folder_is_the_settings_then_systemds_then_the_state_directorys(
    setting: Path | None, environment: dict[str, str], expected: SecretDirectory
) -> None:
    assert secrets.configured_directory(setting, state=Path("/state"), environment=environment) == expected
