"""Whether the service runs and listens where the settings say; whether it could, when it does not run."""

import errno
import os
import socket
from typing import NamedTuple

from reconciler.settings.scalars import Address
from reconciler.upkeep.findings import DoctorFinding, error, ok, warning

NAME = "listener"
SECONDS = 3.0
ANY_PORT = 0


class ListeningFacts(NamedTuple):
    """A setting and its address, the process that runs, and what came of a connection, or of listening there."""

    setting: str
    address: Address
    process: int | None
    errno: int = 0


def gather_listening(setting: str, address: Address, *, process: int | None) -> ListeningFacts:
    """Connect to a service that runs, else listen for a moment."""
    if address.port == ANY_PORT:
        return ListeningFacts(setting, address, process)
    try:
        if process is None:
            _listen(address)
        else:
            socket.create_connection((_reached(address.host), address.port), timeout=SECONDS).close()
    except TimeoutError:
        return ListeningFacts(setting, address, process, errno.ETIMEDOUT)
    except OSError as problem:
        return ListeningFacts(setting, address, process, problem.errno or errno.EADDRNOTAVAIL)
    return ListeningFacts(setting, address, process)


def judge_listening(facts: ListeningFacts) -> list[DoctorFinding]:
    """What is in the way."""
    where = f"`{facts.setting}`, {facts.address},"
    if facts.process is not None and facts.errno:
        told = f"the service runs (process {facts.process}) and does not answer at {where[:-1]} ({_why(facts.errno)})"
        return [warning(NAME, told, "look into its log: it starts, hangs, or has other settings")]
    if facts.process is not None:
        return [ok(NAME, f"the service runs (process {facts.process}); {where} is its listener")]
    if facts.errno == errno.EADDRINUSE:
        return [error(NAME, f"{where} is in use by another program", "end that, or choose another port")]
    if facts.errno == errno.EACCES:
        return [error(NAME, f"{where} is a port for root alone", "choose one from 1024 on, and put a proxy before it")]
    if facts.errno:
        return [error(NAME, f"{where} cannot be listened at ({_why(facts.errno)})", "correct it")]
    return [ok(NAME, f"the service does not run; {where} is free")]


def _listen(address: Address) -> None:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
        listener.listen()


def _reached(host: str) -> str:
    """An address of a listener at all addresses."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - where others listen


def _why(number: int) -> str:
    return os.strerror(number).lower()
