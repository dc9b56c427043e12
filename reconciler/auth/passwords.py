"""Passwords: hashing, comparing off the loop, and counting failures; the only module that imports argon2."""

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
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from reconciler.auth.accounts import Accounts
from reconciler.model import errors
from reconciler.model.directory import User
from reconciler.model.principals import Principal

if TYPE_CHECKING:
    from argon2 import PasswordHasher

# Passwords: argon2id hashes, made and compared. The only module that knows the library.
#
# The library is loaded with the first password: a service that keys alone ask never pays for it.


@cache
def _hasher() -> "PasswordHasher":
    from argon2 import PasswordHasher  # noqa: PLC0415 - see above

    # One of the settings that OWASP names as equal; the least memory among those with one lane, since several people
    # may sign in at once. About 25 ms.
    return PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


@cache
def unknown_person_hash() -> str:
    """Compared where there is no such person, so that it takes as long."""
    return _hasher().hash("nobody has this password", salt=bytes(16))


def encode_password(password: str) -> str:
    """The encoded hash to keep, with salt and cost in it."""
    return _hasher().hash(password)


def is_right_password(password: str, encoded: str) -> bool:
    """Return True for the right password; never for an encoding that is none."""
    from argon2 import exceptions  # noqa: PLC0415 - see above

    try:
        return _hasher().verify(encoded, password)
    except (exceptions.VerificationError, exceptions.InvalidHashError):
        return False


# Rate limit on failed sign-ins: failures are counted by name and by address.
#
# A name alone would let anybody lock a person out; an address alone lets many addresses try one name. So each has a
# bucket: it holds so many failures and empties slowly, and while it is full, nothing is compared. What succeeds empties
# the bucket of its name for this address only; from there, that of the name alone does not count any more, so that many
# strangers together cannot lock out whoever signed in before.

PER_PAIR = 5  # failures of one name from one address before waiting
PER_ADDRESS = 20  # of any names from one address
PER_NAME = 50  # of one name from any addresses
SECONDS = 30.0  # in which one failure is forgotten
LONGEST = 128  # characters of a name that tell it from others; nobody has a longer one
MOST = 10_000  # buckets kept; the longest unused go first


@dataclass(slots=True)
class _Bucket:
    level: float
    at: float


class SignInAttempts:
    """The failures of the last minutes, in memory."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[tuple[str, str], _Bucket] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()  # who signed in from where

    def wait(self, name: str, address: str, *, now: float) -> float:
        """Seconds to wait before another attempt; 0 for none. `now` is any clock that does not go back."""
        is_known = (name[:LONGEST], address) in self._known
        limits = [limit for limit in _limits(name, address) if not (is_known and limit[1] == PER_NAME)]
        over = [self._level(key, now) - (most - 1) for key, most in limits]
        return max(0.0, *over) * SECONDS if max(over) > 0 else 0.0

    def failed(self, name: str, address: str, *, now: float) -> None:
        """Count a failure."""
        for key, _ in _limits(name, address):
            level = self._level(key, now)
            self._buckets[key] = _Bucket(level + 1, now)
            self._buckets.move_to_end(key)
        while len(self._buckets) > MOST:
            self._buckets.popitem(last=False)

    def succeeded(self, name: str, address: str) -> None:
        """Forget the failures of this name from this address, and know it there."""
        pair = (name[:LONGEST], address)
        self._buckets.pop(pair, None)
        self._known[pair] = None
        self._known.move_to_end(pair)
        while len(self._known) > MOST:
            self._known.popitem(last=False)

    def _level(self, key: tuple[str, str], now: float) -> float:
        bucket = self._buckets.get(key)
        return 0.0 if bucket is None else max(0.0, bucket.level - (now - bucket.at) / SECONDS)


def _limits(name: str, address: str) -> tuple[tuple[tuple[str, str], int], ...]:
    name = name[:LONGEST]
    return (((name, address), PER_PAIR), (("", address), PER_ADDRESS), ((name, ""), PER_NAME))


# Signing in with a name and a password, whichever door asks.
#
# HTTP Basic carries the password with every request, so what was right a moment ago is remembered, as an HMAC under a
# key of this process: comparing costs 25 ms of a processor.

log = logging.getLogger(__name__)

AT_ONCE = 2  # passwords compared at a time: each takes a processor and 19 MiB
WAITING = 64  # attempts that wait for that; more are turned away
REMEMBERED_SECONDS = 300.0
MOST_REMEMBERED = 1_000
PASSWORD_LONGEST = 1_024  # characters of a password; nothing longer was ever accepted

T = TypeVar("T")


class Throttled(errors.Transient):
    """Too many failures, or too many attempts at once; `seconds` says when to try again."""

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class _Remembered:
    """A right password: the person at that time, and until when it counts. Another password makes it void."""

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
        """Return the person with this name and password, or None. Raises Throttled.

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
        if len(password) > PASSWORD_LONGEST or not await self._is_right(user, password):
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
            return await self._run(lambda: encode_password(password))

    async def _is_right(self, user: User | None, password: str) -> bool:
        """It takes as long for somebody who is not there, or has no password."""
        encoded = None if user is None else user.password
        same = await self._run(lambda: is_right_password(password, encoded or unknown_person_hash()))
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
