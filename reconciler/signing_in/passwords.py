"""Signing in with a name and a password, whichever door asks.

Belongs here: comparing off the loop, a few at a time, and slowing down whoever guesses. Does not: hashing
(`access.passwords`), what somebody may do then (`access.principals`).

HTTP Basic carries the password with every request, so what was right a moment ago is remembered, as an HMAC under a key
of this process: comparing costs 25 ms of a processor.
"""

import asyncio
import contextlib
import hmac
import logging
import os
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from reconciler.access import passwords
from reconciler.access.attempts import SignInAttempts
from reconciler.accounts import Accounts
from reconciler.model import errors
from reconciler.model.directory import User
from reconciler.model.principals import Principal

log = logging.getLogger(__name__)

AT_ONCE = 2  # passwords compared at a time: each takes a processor and 19 MiB
WAITING = 64  # attempts that wait for that; more are turned away
REMEMBERED_SECONDS = 300.0
MOST_REMEMBERED = 1_000
LONGEST = 1_024  # characters of a password; nothing longer was ever accepted

T = TypeVar("T")


class Throttled(errors.Transient):
    """Too many failures, or too many attempts at once; `seconds` says when to try again."""

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class _Remembered:
    """What was right: the person as they were then, and until when it counts. Another password makes it void."""

    user: User
    proof: bytes
    until: float


class SigningIn:
    """Compares passwords, at most two at a time."""

    def __init__(self, accounts: Accounts, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._accounts = accounts
        self._monotonic = monotonic
        self._attempts = SignInAttempts()
        self._secret = os.urandom(32)
        self._remembered: OrderedDict[str, _Remembered] = OrderedDict()
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="passwords")
        self._places = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def principal(self, name: str, password: str, *, address: str) -> Principal | None:
        """Who this is, or None: no such person, or another password. Raises Throttled.

        `address` is where the attempt comes from, as text.
        """
        user = self._accounts.directory.users.get(name)
        proof = hmac.digest(self._secret, f"{name}\0{password}".encode("utf-8", "surrogatepass"), "sha256")
        if not self._is_remembered(name, user, proof):
            async with self._turn():
                # Once more: what came at the same time may have been right by now, or wrong too often.
                user = self._accounts.directory.users.get(name)
                if not self._is_remembered(name, user, proof) and not await self._signs_in(
                    name, user, password, proof=proof, address=address
                ):
                    return None
        user = self._accounts.directory.users.get(name)
        return None if user is None else self._accounts.directory.principal(user)

    async def _signs_in(self, name: str, user: User | None, password: str, *, proof: bytes, address: str) -> bool:
        """Compare, count what fails, and remember what is right. Raises Throttled instead of comparing."""
        if (seconds := self._attempts.wait(name, address, now=self._monotonic())) > 0:
            raise Throttled("Too many attempts to sign in failed; wait.", seconds=seconds)
        if len(password) > LONGEST or not await self._is_right(user, password):
            self._attempts.failed(name, address, now=self._monotonic())
            # While anybody waits nothing is compared, so there are as many lines as failures that are forgotten.
            if self._attempts.wait(name, address, now=self._monotonic()) > 0:
                # A name that nobody has may be a password that was typed in its place.
                who = "somebody unknown" if user is None else user.name
                log.warning("Signing in as %s from %s fails again and again; it is slowed down.", who, address)
            return False
        assert user is not None
        self._attempts.succeeded(name, address)
        self._remember(user, proof)
        return True

    def close(self) -> None:
        """Compare no more; what is under way ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def encode(self, password: str) -> str:
        """The hash to keep of a new password. Raises Throttled."""
        async with self._turn():
            return await self._run(lambda: passwords.encode_password(password))

    async def _is_right(self, user: User | None, password: str) -> bool:
        """It takes as long for somebody who is not there, or has no password."""
        encoded = None if user is None else user.password
        same = await self._run(
            lambda: passwords.is_right_password(password, encoded or passwords.unknown_person_hash())
        )
        return same and encoded is not None

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    @contextlib.asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """A place among the few at a time. Raises Throttled when too many wait for one."""
        if self._waiting >= WAITING:
            raise Throttled("Too many people sign in at this moment; try again.", seconds=1.0)
        self._waiting += 1
        try:
            async with self._places:
                yield
        finally:
            self._waiting -= 1

    def _is_remembered(self, name: str, user: User | None, proof: bytes) -> bool:
        found = self._remembered.get(name)
        if found is None or user is None or found.user.password != user.password or found.user.id != user.id:
            return False
        return self._monotonic() < found.until and hmac.compare_digest(found.proof, proof)

    def _remember(self, user: User, proof: bytes) -> None:
        until = self._monotonic() + REMEMBERED_SECONDS
        self._remembered[user.name] = _Remembered(user, proof, until)
        self._remembered.move_to_end(user.name)
        while len(self._remembered) > MOST_REMEMBERED:
            self._remembered.popitem(last=False)
