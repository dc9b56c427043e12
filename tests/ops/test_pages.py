"""The pages about upkeep: their console blocks are what the program says, their tables name what there is."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

from reconciler.cli import doctor
from reconciler.ops import doctor as ops_doctor
from reconciler.ops.checks import files
from reconciler.settings import loading
from reconciler.store import database
from tests import daemons
from tests.cli.conftest import Program
from tests.daemons import destination, watched
from tests.docs import pages
from tests.ops import scenes
from tests.repositories import Repository

DOCS = pages.ROOT / "docs"
BACKUPS, UPGRADES, DOCTOR = (pages.read(DOCS / f"{name}.md") for name in ("backups", "upgrades", "doctor"))
# What differs between two machines, or two moments.
VARYING = [
    (r"\d+(?:\.\d+)? (?:bytes|[KMGT]iB)", "SIZE"),
    (r"version \d[\d.]*", "VERSION"),
    (r"\d+ rows", "ROWS"),
    (r"\d+ links with \d+ events", "EVENTS"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3})?Z", "MOMENT"),
    (r"replaced-\d{8}T\d{12}Z", "replaced-STAMP"),
    (r"process \d+", "PROCESS"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"is at [0-9a-f]{12}", "is at COMMIT"),
    (r"may open [\d,]+", "may open NUMBER"),
]


def fixed(text: str, *replaced: tuple[str, str]) -> list[str]:
    for old, new in replaced:
        text = text.replace(old, new)
    for pattern, word in VARYING:
        text = re.sub(pattern, word, text)
    return text.splitlines()


def said(text: str, command: str) -> str:
    """Return what stands beneath a command, in the block that has it."""
    [block] = [block for block in pages.blocks(text, "console") if f"$ {command}" in block]
    return re.split(r"^\$ .*\n", block.partition(f"$ {command}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def test_what_the_page_about_backups_shows(tmp_path: Path) -> None:
    scenes.filled(tmp_path / "state", "a")
    (tmp_path / "config.json").write_text(json.dumps({"stateDir": str(tmp_path / "state")}))
    run = Program(tmp_path, {"SERVICE_CONFIG": str(tmp_path / "config.json")})
    places = (("/var/backups/reconciler", str(tmp_path)), ("/var/lib/reconciler", str(tmp_path / "state")))
    made = run("backup", f"{tmp_path}/monday")
    shown = said(BACKUPS, "reconciler backup /var/backups/reconciler/monday")
    assert fixed(made.out + made.err) == fixed(shown, *places)
    restored = run("restore", f"{tmp_path}/monday")
    shown = said(BACKUPS, "reconciler restore /var/backups/reconciler/monday")
    assert fixed(restored.out + restored.err) == fixed(shown, *places)
    [query] = re.findall(r"^sqlite3 /\S+ '(.*)'$", BACKUPS, re.MULTILINE)
    with closing(sqlite3.connect(tmp_path / "monday" / "store.db")) as connection:
        assert connection.execute(query).fetchall() == [("Destination", "a", 1)]


def test_what_the_page_about_the_doctor_shows(tmp_path: Path) -> None:
    source = Repository.init(tmp_path / "source")
    source.write("a.yaml", destination("a"))
    source.commit()
    hook = tmp_path / "hook"
    hook.write_text("canary-secret-of-a-hook")
    hook.chmod(0o644)
    repository = watched("telemetry", source.path, hook={"secretFile": str(hook)})
    with daemons.running(tmp_path / "daemon", repositories=[repository]) as daemon:
        daemon.run_of("telemetry", source.head())
        told = Program(tmp_path)("doctor", "--config", str(daemon.config))
        owner = files.user(daemon.state.stat().st_uid)
        places = (
            ("/etc/reconciler/config.yaml", str(daemon.config)),
            ("/etc/reconciler/hook", str(hook)),
            ("/var/lib/reconciler", str(daemon.state)),
            ("belongs to reconciler", f"belongs to {owner}"),
        )
    shown = said(DOCTOR, "runuser -u reconciler -- reconciler doctor --state-dir /var/lib/reconciler")
    assert [line.split(maxsplit=1) for line in fixed(told.out)] == [
        line.split(maxsplit=1) for line in fixed(shown, *places)
    ]


def test_the_page_about_the_doctor_names_every_check(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    overrides = {"stateDir": str(tmp_path / "state")}
    loaded = loading.load(config=tmp_path / "config.json", environment={}, overrides=overrides)
    checks = doctor.doctor_checks(loaded, environment={}, is_full=False)
    names = [doctor.SETTINGS, *(check.name for check in checks)]
    table = [row["check"] for row in pages.table(DOCTOR) if "check" in row]
    assert re.findall(r"`([^`]+)`", " ".join(table)) == names


def test_the_page_about_upgrades_shows_what_a_start_says() -> None:
    first, second = pages.blocks(UPGRADES, "")
    assert (
        first == "Copied the store to /var/lib/reconciler/store.db.before-6 before it is brought from version 5 to 6.\n"
    )
    assert second.startswith(
        "error: the store is of version 6, and this program knows versions up to 5: it was written by"
    )
    [emptied] = [step for step in database.migrations() if step.number == 4]
    assert "drop table" in emptied.sql  # which leaves room in the file


def test_the_lock_is_that_of_the_daemon() -> None:
    assert ops_doctor.LOCK == "lock"
