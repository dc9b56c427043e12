"""Sign-in by a password or through a provider. Only this module imports argon2."""

import asyncio
import contextlib
import hmac
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from reconciler.auth import admission as auth_admission
from reconciler.auth.accounts import Accounts
from reconciler.auth.admission import Admission, Arrival, NotAdmitted
from reconciler.auth.changes import Conflict
from reconciler.auth.rate_limits import BoundedDict, SignInAttempts
from reconciler.auth.sessions import SessionGone, Sessions
from reconciler.model import errors, ids
from reconciler.model import text as model_text
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.directory import Amendment, Directory, ProvedIdentity, User
from reconciler.model.principals import Principal

if TYPE_CHECKING:
    from argon2 import PasswordHasher

    from reconciler.settings.models import OIDC

# Passwords: making and comparing argon2id hashes. The library is loaded with the first password.


@cache
def _hasher() -> "PasswordHasher":
    from argon2 import PasswordHasher  # noqa: PLC0415 - see above

    # One of OWASP's equivalent settings: of those with one lane the one with the least memory, since several people may
    # sign in at once. It takes about 25 ms.
    return PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


@cache
def unknown_person_hash() -> str:
    """Return the hash to compare for an unknown name, so that it takes as long as for a known one."""
    return _hasher().hash("nobody has this password", salt=bytes(16))


def encode_password(password: str) -> str:
    """Return the encoded hash of a password, with salt and cost."""
    return _hasher().hash(password)


def is_right_password(password: str, encoded: str) -> bool:
    """Return True for the right password; False for a malformed hash."""
    from argon2 import exceptions  # noqa: PLC0415 - see above

    try:
        return _hasher().verify(encoded, password)
    except (exceptions.VerificationError, exceptions.InvalidHashError):
        return False


# Signing in with a name and a password, for the pages and the API.
#
# HTTP Basic sends the password with every request, and comparing costs 25 ms of processor time. So a right password is
# remembered for a moment, as an HMAC with a key of this process.

log = logging.getLogger(__name__)

AT_ONCE = 2  # passwords compared at a time: each takes a processor and 19 MiB
WAITING = 64  # attempts that wait for that; more are turned away
REMEMBERED_SECONDS = 300.0
MOST_REMEMBERED = 1_000
PASSWORD_LONGEST = 1_024  # characters of a password; nothing longer was ever accepted

T = TypeVar("T")


class Throttled(errors.Transient):
    """Too many failures, or too many attempts at once. Try again after `seconds`."""

    def __init__(self, message: str, *, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class _Remembered:
    """A right password: its person, and the time until which it counts. A new password makes it void."""

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
        self._remembered: BoundedDict[str, _Remembered] = BoundedDict(MOST_REMEMBERED)
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
            async with self._place():
                # Check again: attempts at the same time may have succeeded, or failed too often.
                user = self._accounts.directory.users.get(name)
                if not self._is_remembered(name, user, proof) and not await self._signs_in(
                    name, user, password, proof=proof, address=address
                ):
                    return None
        user = self._accounts.directory.users.get(name)
        return None if user is None else self._accounts.directory.principal(user)

    async def _signs_in(self, name: str, user: User | None, password: str, *, proof: bytes, address: str) -> bool:
        """Compare the password, count a failure, and remember a success. Raises Throttled instead of comparing."""
        if (seconds := self._attempts.wait(name, address, now=self._monotonic())) > 0:
            raise Throttled("Too many attempts to sign in failed; wait.", seconds=seconds)
        if len(password) > PASSWORD_LONGEST or not await self._is_right(user, password):
            self._attempts.failed(name, address, now=self._monotonic())
            # Nothing is compared while a person must wait, so there are only as many log lines as forgotten failures.
            if self._attempts.wait(name, address, now=self._monotonic()) > 0:
                # An unknown name may be a password in the wrong field.
                who = "somebody unknown" if user is None else user.name
                log.warning("Signing in as %s from %s fails again and again; it is slowed down.", who, address)
            return False
        assert user is not None
        self._attempts.succeeded(name, address)
        self._remembered[user.name] = _Remembered(user, proof, self._monotonic() + REMEMBERED_SECONDS)
        return True

    def close(self) -> None:
        """Refuse further comparisons; those in progress end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def encode(self, password: str) -> str:
        """Return the hash of a new password. Raises Throttled."""
        async with self._place():
            return await self._run(lambda: encode_password(password))

    async def _is_right(self, user: User | None, password: str) -> bool:
        """Compare a password. It takes as long for an unknown person or one without a password."""
        encoded = None if user is None else user.password
        same = await self._run(lambda: is_right_password(password, encoded or unknown_person_hash()))
        return same and encoded is not None

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    @contextlib.asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        """Wait for one of the few places and hold it. Raises Throttled if too many wait."""
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


# Refusals in the log. They contain only the names of claims, shortened and on one line, since the provider chose them.

MOST_NAMES = 30  # of claims
LONGEST_NAME = 64  # characters of one of them


def refusal_sentence(refusal: NotAdmitted, claims: Mapping[str, object], *, who: str) -> str:
    """Return the sentence for the log; `who` is their name, as plain text."""
    shown = ", ".join(model_text.visible(name[:LONGEST_NAME]) for name in sorted(claims)[:MOST_NAMES])
    more = f" and {len(claims) - MOST_NAMES:,} more" if len(claims) > MOST_NAMES else ""
    return f"{who} is not let in ({refusal.why.name}): {refusal.message} Claims that came: {shown}{more}."


# The sign-in of a person of a provider: the decision and its change, then the session.
#
# The decision is made under the lock of `accounts`, on the present directory: so only one person can be the first, or
# use a code. The session begins when the change is on the disk. After an interruption in between, the person signs in
# again.

ACTOR = "sign-in"  # in the audit: the rules decide, not the person or an admin


class Entered(NamedTuple):
    """A signed-in person: the value of the session's cookie, and the person."""

    token: str
    user: User

    def __repr__(self) -> str:
        return f"Entered(user={self.user.name!r})"


class People:
    """Signs people in, one at a time."""

    def __init__(self, accounts: Accounts, sessions: Sessions, *, policy: "OIDC", clock: Clock) -> None:
        self._accounts = accounts
        self._sessions = sessions
        self._policy = policy
        self._clock = clock

    async def enter(self, proved: ProvedIdentity, *, code: str, instead_of: str, request: str) -> Entered:
        """Sign a person in and begin a session. The `code` of an invitation and the token `instead_of` of an earlier
        session may be empty. Raises NotAdmitted, Conflict, StoreFault.
        """
        admission = await self._admitted(proved, code=code, request=request)
        directory = self._accounts.directory
        user = directory.user(admission.user)
        if user is not None:
            with contextlib.suppress(SessionGone):
                token = await self._sessions.begin(
                    user, since=directory, id_token=proved.id_token, instead_of=instead_of
                )
                return Entered(token, user)
        raise Conflict("Your access was changed while you signed in; sign in once more.")

    async def _admitted(self, proved: ProvedIdentity, *, code: str, request: str) -> Admission:
        """Decide, and write the change. Raises NotAdmitted, StoreFault."""
        now = self._clock()
        identifier = ids.ulid(milliseconds=int(now.timestamp() * 1000), randomness=os.urandom(ids.RANDOM_BYTES))
        arrival = Arrival(proved, code=code, id=identifier, now=rfc3339(now))
        decided: list[Admission] = []

        def decide(directory: Directory) -> Amendment | None:
            decided.append(auth_admission.admit(directory, arrival, self._policy))
            return decided[-1].amendment

        try:
            await self._accounts.amend(decide, actor=ACTOR, request=request)
        except NotAdmitted as refusal:
            self._log_decision(arrival, refusal.told, refusal)
            raise
        admission = decided[-1]  # after a conflict with another replica, the last one counts
        self._log_decision(arrival, admission.told, admission.refused)
        if admission.refused is not None:
            raise admission.refused
        return admission

    def _log_decision(self, arrival: Arrival, sentences: tuple[str, ...], refusal: NotAdmitted | None) -> None:
        """Log the decision; for a refusal with the reason for the operator."""
        for sentence in sentences:
            log.info("%s", sentence)
        if refusal is not None:
            directory = self._accounts.directory
            known = directory.person(arrival.proved.identity)
            who = auth_admission.user_name(arrival.proved, taken=()) if known is None else known.name
            log.info("%s", refusal_sentence(refusal, arrival.proved.claims, who=who))
