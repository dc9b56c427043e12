"""Messages to systemd, over a real datagram socket."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from reconciler.server import process
from tests import daemons


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(10)
        yield listener


def test_it_says_that_it_is_ready_and_alive_and_stopping(tmp_path: Path, systemd: socket.socket) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "100000"}
    with daemons.running(tmp_path / "daemon", environment=environment, is_started=True) as daemon:
        address = f"{daemon.host}:{daemon.port}"
        assert systemd.recv(1000).decode() == f"READY=1\nSTATUS=listening on http://{address}"
        assert [systemd.recv(1000) for _ in range(3)] == [b"WATCHDOG=1"] * 3
        daemon.process.send_signal(signal.SIGTERM)
        assert _after_the_last_sign(systemd) == b"STOPPING=1"
        assert daemon.stop() == 0


def _after_the_last_sign(systemd: socket.socket) -> bytes:
    while (heard := systemd.recv(1000)) == b"WATCHDOG=1":
        continue
    return heard


def test_a_watchdog_of_another_process_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "100000")
    told = []
    for watched in ("1", str(os.getpid())):
        monkeypatch.setenv("WATCHDOG_PID", watched)
        told.append(process.watchdog_seconds())
    assert told == [None, 0.1]


def test_an_abstract_address_works_too(monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"reconciler-test-{os.getpid()}"
    monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{name}")
        listener.settimeout(10)
        process.notify("READY=1")
        assert listener.recv(1000) == b"READY=1"


@pytest.mark.parametrize("address", ["", "{folder}/nobody"])
def test_nobody_who_listens_is_no_reason_to_stop(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address.format(folder=tmp_path))
    process.notify("READY=1")
