"""docs/install.md installs what the unit runs."""

import re
import shlex
from pathlib import Path

from reconciler.cli.main import ENTRIES
from reconciler.server import sign_in
from reconciler.settings import loading

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/install.md").read_text(encoding="utf-8")
UNIT = (ROOT / "systemd/reconciler.service").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


COMMANDS = [line for block in blocks("sh") for line in block.splitlines()]


def setting(name: str) -> str:
    """Return what the unit says."""
    return str(re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)[-1])


def test_the_places_are_those_of_the_unit() -> None:
    program, *_, config = shlex.split(setting("ExecStart"))
    assert f"ln -sfn /opt/reconciler/bin/reconciler {program}" in COMMANDS
    assert f"`{config}`" in PAGE
    environment = setting("EnvironmentFile").removeprefix("-")
    written = [line for line in COMMANDS if environment in line]
    assert [line.startswith("(umask 077; ") for line in written] == [True]
    assert f"f {environment}  0600 root " in (ROOT / "systemd/reconciler.tmpfiles").read_text(encoding="utf-8")
    assert f"/var/lib/{setting('StateDirectory')}/store.db" in PAGE
    assert f"runuser -u {setting('User')} -- " in PAGE


def test_the_settings_are_right(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(*blocks("yaml"))
    assert loading.load(config=config, environment={}, overrides={}).warnings == ()


def test_the_commands_and_files_are_there() -> None:
    ours = re.findall(r"^(?:SERVICE_PASSWORD_FILE=\S+ )?reconciler (\w+)", "\n".join(COMMANDS), re.MULTILINE)
    assert set(ours) == {"version", "status", "get", "user", "backup"} <= set(ENTRIES)
    files = {
        f"systemd/{name}" for name in re.findall(r"\breconciler\.(?:service|sysusers|tmpfiles)\b", "\n".join(COMMANDS))
    }
    assert len(files) == 3
    assert [name for name in sorted(files | {"constraints.txt", "Dockerfile"}) if not (ROOT / name).is_file()] == []
    assert "# For development\n" in (ROOT / "constraints.txt").read_text(encoding="utf-8")


def test_the_first_password_is_where_the_service_writes_it() -> None:
    assert f"=/var/lib/{setting('StateDirectory')}/{sign_in.FILE} reconciler user password" in PAGE
    assert f"export SERVICE_USER={sign_in.NAME}" in COMMANDS


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
