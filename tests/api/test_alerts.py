"""A test alert over HTTP: what is sent, and what is told of it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import ANY

import pytest

from api.calls import Services
from reconciler.delivery.http_client import EgressPolicy, HttpClient
from reconciler.notifications.board import Board
from reconciler.notifications.outbox import Outbox
from reconciler.notifications.rendering import NotificationPlace
from reconciler.settings.models import AlertTarget
from reconciler.store.operations import SqliteOperations
from tests.api.conftest import connect
from tests.servers import sinks

pytestmark = pytest.mark.anyio

TEST = "/v1/alerts/test"


@contextlib.asynccontextmanager
async def alerting(services: Services, folder: Path, *recipients: AlertTarget) -> AsyncIterator[Services]:
    """The same services with these targets."""
    operations = SqliteOperations(folder / "ops.db")
    place = NotificationPlace("default")
    board = Board(operations, clock=services.clock, place=place, targets=recipients)
    outbox = Outbox(board, place=place, clock=services.clock)
    async with HttpClient(policy=EgressPolicy()) as client:
        sending = asyncio.create_task(outbox.keep(client))
        await asyncio.sleep(0)
        try:
            yield replace(services, outbox=outbox)
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sending
            await operations.close()


async def test_each_target_is_tried_or_the_one_that_is_named(services: Services, tmp_path: Path) -> None:
    with sinks.listening() as chat, sinks.listening() as pager:
        pager.script(sinks.says(503))
        recipients = [
            AlertTarget(name=name, url=f"http://127.0.0.1:{sink.port}/canary-path")
            for name, sink in (("chat", chat), ("pager", pager))
        ]
        async with alerting(services, tmp_path, *recipients) as alerted, connect(alerted) as client:
            every, one = [await client.post(TEST, json=body) for body in ({}, {"target": "chat"})]
    found = every.json()["tests"]
    assert [each.pop("seconds") < 10 for each in found] == [True, True]
    assert found == [
        {"target": "chat", "taken": True, "status": 200, "message": ""},
        {
            "target": "pager",
            "taken": False,
            "status": 503,
            "message": "it answered 503: its server fails; look at its own logs",
        },
    ]
    assert [each["target"] for each in one.json()["tests"]] == ["chat"]
    assert [each.json["event"] for each in chat.received] == ["test", "test"]
    assert "canary" not in every.text


async def test_a_target_that_there_is_not_is_not_found(services: Services, tmp_path: Path) -> None:
    async with connect(services) as client:
        answer = await client.post(TEST, json={})
        assert (answer.status_code, answer.json()) == (
            404,
            {"errors": ["The settings name nobody who is alerted; name a target in `alerts`."], "codes": ANY},
        )
    chat = AlertTarget(name="chat", url="http://127.0.0.1:1/")
    async with alerting(services, tmp_path, chat) as alerted, connect(alerted) as client:
        answer = await client.post(TEST, json={"target": "caht"})
        assert (answer.status_code, answer.json()) == (
            404,
            {"errors": ["The settings name no such target of alerts; those of `alerts` are chat."], "codes": ANY},
        )
        assert (await client.post(TEST, json={"target": 7})).status_code == 400
