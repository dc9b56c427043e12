"""The audit of repositories that come, change and go with the settings."""

import json
from pathlib import Path

import pytest

from reconciler.reconcile import interventions, runs
from reconciler.store.records import AuditRow, AuditWanted
from reconciler.store.repository_records import RepositoryRow
from tests import stores
from tests.api.parts import Parts, started
from tests.api.parts import watched as watching

AT = "2026-11-21T06:12:00.123Z"
NOW = watching("telemetry", Path("/srv/telemetry.git"), project="default")
ROW = RepositoryRow("telemetry", "default", None, None, None, None, "ready", None, AT, NOW.origin)
UNREAD = runs.unread_row(NOW)


def told(event: AuditRow) -> tuple[str, str, str, str]:
    assert event.detail is None
    return event.action, event.name, event.project, event.actor


def test_one_that_nobody_remembers_is_created() -> None:
    record = interventions.watching_record(NOW, UNREAD, is_reload=False, at=AT)
    assert record is not None
    assert [told(event) for event in record.audit] == [("created", "telemetry", "default", "settings")]
    # The next start remembers it, even if none of its runs could be recorded.
    assert record.repository is not None
    assert interventions.watching_record(NOW, record.repository, is_reload=False, at=AT) is None


def test_one_that_comes_from_elsewhere_since_the_last_start_is_another_and_else_it_is_not_told() -> None:
    assert interventions.watching_record(NOW, ROW, is_reload=False, at=AT) is None
    elsewhere = NOW.model_copy(update={"url": "https://git.example/telemetry.git"})
    record = interventions.watching_record(elsewhere, ROW, is_reload=False, at=AT)
    expected = ("configured", "telemetry", "default", "settings")
    assert record is not None
    assert [told(event) for event in record.audit] == [expected]


def test_a_reload_tells_that_the_settings_changed() -> None:
    record = interventions.watching_record(NOW, ROW, is_reload=True, at=AT)
    assert record is not None
    assert [told(event) for event in record.audit] == [("configured", "telemetry", "default", "settings")]


def test_what_it_owned_is_the_apis_when_it_goes_or_fills_another_project() -> None:
    assert told(interventions.release_event(ROW, to=None, at=AT)) == (
        "deleted",
        "telemetry",
        "default",
        "settings",
    )
    moved = ("configured", "telemetry", "default", "settings")
    assert told(interventions.release_event(ROW, to="other", at=AT)) == moved


async def events(parts: Parts) -> list[tuple[str, str]]:
    """All that the audit says of repositories, the newest first."""
    pages = parts.services.store.event_pages(AuditWanted(kind="Repository"), limit=10, documents=False)
    found = [json.loads(event) async for page in pages for event in page]
    return [(event["action"], event["name"]) for event in found]


@pytest.mark.anyio
async def test_one_that_could_not_be_read_before_the_next_start_is_created_once(tmp_path: Path) -> None:
    missing = watching("telemetry", tmp_path / "missing", project="default")
    for _ in range(2):
        async with started(tmp_path) as parts:
            await parts.repositories.start([missing])
            assert await events(parts) == [("created", "telemetry")]


@pytest.mark.anyio
async def test_what_the_audit_cannot_take_is_watched_all_the_same_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with started(tmp_path) as parts:
        with stores.engine(tmp_path).failing(parts.services.store):
            await parts.repositories.start([watching("telemetry", tmp_path / "missing", project="default")])
            assert parts.repositories.reconciler("telemetry") is not None
        assert await events(parts) == []
    warned = [record.getMessage() for record in caplog.records if record.name.endswith("repositories")]
    assert [message.partition(":")[0] for message in warned] == [
        "The audit does not say that the settings changed what is watched (telemetry)"
    ]
