"""Telling systemd how we are (sd_notify). Without NOTIFY_SOCKET, as on a terminal, every call does nothing."""

import os
import socket

BEAT_SECONDS = 60  # that a start has until the next sign of it


def notify(message: str) -> None:
    """Send one state, `READY=1` for instance. A lost datagram is not worth stopping for."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    name = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        try:
            sender.sendto(message.encode(), name)
        except OSError:
            return


def beat() -> None:
    """Say that a start that takes long goes on: `TimeoutStartSec` begins again."""
    notify(f"EXTEND_TIMEOUT_USEC={BEAT_SECONDS * 1_000_000}")


def watchdog_seconds() -> float | None:
    """How often systemd wants a sign of life, at the latest; None when it does not watch this process."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    watched = os.environ.get("WATCHDOG_PID", str(os.getpid()))
    return int(microseconds) / 1e6 if microseconds.isdecimal() and watched == str(os.getpid()) else None
