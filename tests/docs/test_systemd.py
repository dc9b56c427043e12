"""The systemd unit: what systemd's own tools say of it."""

import subprocess
from pathlib import Path

import pytest

from tests import needs

FOLDER = Path(__file__).parents[2] / "systemd"
UNIT = FOLDER / "reconciler.service"
MOST_EXPOSURE = 2.0  # of 10; systemd calls everything below 2.5 fine


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = needs.require("systemd-analyze")
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=30, check=False)


def service() -> dict[str, str]:
    """The settings of [Service]; of one given twice, the last."""
    section = UNIT.read_text(encoding="utf-8").split("\n[Service]\n")[1].split("\n[Install]")[0]
    return dict(line.split("=", 1) for line in section.splitlines() if line and line[0] not in "#[")


def test_the_exposure_stays_low() -> None:
    told = analyze("security", "--offline=true", f"--threshold={int(MOST_EXPOSURE * 10)}", str(UNIT))
    last = told.stdout.strip().splitlines()[-1]
    assert "Overall exposure level for reconciler.service:" in last
    score = float(last.split("reconciler.service:")[1].split()[0])
    assert (score <= MOST_EXPOSURE, told.returncode) == (True, 0), last


def test_verify_complains_of_nothing_but_the_missing_program() -> None:
    told = analyze("verify", "--man=no", str(UNIT))
    said = [line for line in told.stderr.splitlines() if "/usr/bin/reconciler is not executable" not in line]
    assert said == []


def test_the_unit_runs_the_daemon_as_a_user_of_its_own() -> None:
    settings = service()
    expected = {
        "Type": "notify",
        "ExecStart": "/usr/bin/reconciler serve --config /etc/reconciler/config.yaml",
        "User": "reconciler",
        "Group": "reconciler",
        "StateDirectory": "reconciler",
        "StateDirectoryMode": "0700",
        "KillMode": "mixed",
        "OOMPolicy": "continue",
    }
    assert {name: settings.get(name) for name in expected} == expected


@pytest.mark.parametrize(("name", "least"), [("TimeoutStopSec", 5 + 5 + 1), ("WatchdogSec", 10)])
def test_waits_are_long_enough(name: str, least: int) -> None:
    """Stopping may take the drain time (5 s by default) and 5 s more."""
    assert int(service()[name].removesuffix("s")) >= least


def test_sysusers_makes_the_user_of_the_unit() -> None:
    program = needs.require("systemd-sysusers")
    file = FOLDER / "reconciler.sysusers"
    told = subprocess.run([program, "--dry-run", file], capture_output=True, text=True, timeout=30, check=False)
    assert (told.returncode, told.stderr.count("Failed")) == (0, 0), told.stderr
    [line] = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert line.split()[:2] == ["u", service()["User"]]
