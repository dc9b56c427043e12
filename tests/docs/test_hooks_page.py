"""docs/hooks.md: what it has one type works on a real service, and what it says the log says, the log says."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from api import repositories
from reconciler.git import hooks
from tests import daemons, forges, needs
from tests.daemons import Daemon
from tests.docs import pages
from tests.repositories import Repository

PAGE = pages.read(pages.ROOT / "docs/hooks.md")
SECRET_FILE = "/etc/reconciler/git/telemetry.hook"
URL = "https://reconciler.example.org"


@pytest.fixture
def secret_file(tmp_path: Path) -> Path:
    """A secret as the page has one make it."""
    needs.require("openssl")
    path = tmp_path / "hook-telemetry"
    (line,) = re.findall(r"^ +(\(umask .*\))$", PAGE, re.MULTILINE)
    subprocess.run(["sh", "-euc", line.replace(SECRET_FILE, str(path))], check=True)
    assert path.stat().st_mode & 0o777 == 0o600
    return path


@pytest.fixture
def daemon(tmp_path: Path, secret_file: Path) -> Iterator[Daemon]:
    source = Repository.init(tmp_path / "source")
    source.commit()
    hook = {"secretFile": str(secret_file)}
    with daemons.running(
        tmp_path / "daemon", repositories=[daemons.watched("telemetry", source.path, hook=hook)]
    ) as daemon:
        yield daemon


def test_trying_it_by_hand_goes_as_told(daemon: Daemon, secret_file: Path) -> None:
    needs.require("curl")
    (block,) = pages.blocks(pages.section(PAGE, "Trying it"), "sh")
    script = block.replace(SECRET_FILE, str(secret_file)).replace(URL, f"http://{daemon.host}:{daemon.port}")
    told = subprocess.run(["sh", "-euc", script], capture_output=True, check=True, env=dict(os.environ)).stdout
    assert told.splitlines()[0].split()[1] == b"202"
    secret_file.write_text("canary-another-secret\n")
    assert daemon.ask("POST", "/hooks/telemetry", b"{}", {}).status == 404
    wrong = forges.github(b"canary-a-third-secret")
    assert daemon.ask("POST", "/hooks/telemetry", wrong.body, wrong.headers).status == 404
    (line,) = pages.blocks(pages.section(PAGE, "Trying it"), "")
    said = [str(one["message"]) for one in daemon.lines() if "delivery" in str(one.get("message"))]
    expected = (
        f"A delivery from 127.0.0.1 to /hooks/telemetry was refused: {repositories.WHY[hooks.SignatureVerdict.NONE]}."
    )
    assert said == [expected]  # once a minute
    assert line.strip() == expected.replace("127.0.0.1", "192.0.2.7").replace(
        repositories.WHY[hooks.SignatureVerdict.NONE], repositories.WHY[hooks.SignatureVerdict.WRONG]
    )


def test_the_page_has_every_sentence_of_the_log() -> None:
    shown = [row["the log says"] for row in pages.table(pages.section(PAGE, "Trying it"))]
    assert shown[:4] == [
        repositories.WHY[hooks.SignatureVerdict.NONE],
        repositories.WHY[hooks.SignatureVerdict.WRONG],
        repositories.WHY[hooks.SignatureVerdict.LATE],
        repositories.UNSET,
    ]
    assert shown[4].startswith(SECRET_FILE)
    assert shown[4].endswith("; write the webhook's secret into it")
    assert shown[5].startswith("no repository of this name is watched")
    assert len(shown) == 6


def test_the_page_names_every_header_that_counts() -> None:
    named = {name.lower() for name in re.findall(r"`([\w-]+)`", PAGE)}
    headers = {name.decode() for name in (*hooks.SIGNATURES, *hooks.DELIVERIES)}
    assert headers - named == set()
