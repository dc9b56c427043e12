"""docs/metrics.md names every metric and every alert that there is, and its session is what the program says."""

import json
import logging
from pathlib import Path

import yaml

from reconciler.model import log_context
from reconciler.ops.logging import JsonFormatter
from tests import daemons
from tests.cli.conftest import Program
from tests.docs import pages
from tests.ops.scraping import FAMILIES, scrape
from tests.repositories import Repository

PAGE = pages.read(pages.ROOT / "docs/metrics.md")
RULES = pages.ROOT / "examples/monitoring/rules.yml"
SECTIONS = {  # beginnings of names
    "Repositories": ("reconciler_run", "reconciler_repository"),
    "Git": ("reconciler_git",),
    "Store": ("reconciler_store",),
    "Requests": ("reconciler_http",),
    "Delivery": ("reconciler_destination", "reconciler_delivery"),
    "Notifications": ("reconciler_notifications", "reconciler_alerts"),
    "Process": ("process_", "reconciler_build"),
}


def test_the_tables_are_the_program_s() -> None:
    for heading, beginnings in SECTIONS.items():
        assert pages.table(pages.section(PAGE, heading)) == [
            {
                "metric": f"`{family.name}`",
                "kind": family.kind.value,
                "labels": ", ".join(f"`{label}`" for label in family.labels) or "-",
                "what it says": family.says,
            }
            for family in FAMILIES
            if family.name.startswith(beginnings)
        ]


def test_every_alert_is_named() -> None:
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    named = [{"alert": f"`{rule['alert']}`", "severity": rule["labels"]["severity"]} for rule in rules]
    assert pages.table(pages.section(PAGE, "Alerts")) == named


def test_a_key_is_made_and_shows_what_the_page_shows(tmp_path: Path) -> None:
    source = Repository.init(tmp_path / "source")
    source.write("a.yaml", daemons.destination("a"))
    source.commit()
    (session,) = pages.blocks(PAGE, "console")
    create, curl, *told = session.splitlines()
    with daemons.running(tmp_path / "daemon", repositories=[daemons.watched("telemetry", source.path)]) as daemon:
        address = f"http://127.0.0.1:{daemon.port}"
        program = Program(tmp_path / "here", {"SERVICE_SERVER": address, "SERVICE_API_KEY": daemon.key})
        words = create.removeprefix("$ reconciler ").split(" > ")[0].split()
        key = program(*words).out.strip()
        daemon.state_of("telemetry", "ready")
        start = curl.rpartition("| grep ^")[2]

        def shown() -> bool:  # a moment after the store shows it
            return [line for line in scrape(daemon, key=key).text.splitlines() if line.startswith(start)] == told

        daemons.until(shown, f"it shows {told}")


def test_a_log_line_looks_like_that() -> None:
    (text,) = pages.blocks(PAGE, "json")
    shown = json.loads(text)
    kept = ("repository", "run", "commit", "counts")
    record = logging.makeLogRecord(
        {
            "name": shown["logger"],
            "levelname": "INFO",
            "msg": shown["message"],
            "fields": {one: shown[one] for one in kept},
        }
    )
    with log_context.bind_run(shown["run"]):
        told = json.loads(JsonFormatter().format(record))
    assert list(told) == list(shown)
    assert {**told, "time": shown["time"]} == shown
    assert f"[run {shown['run']}]" in pages.section(PAGE, "Log lines")
