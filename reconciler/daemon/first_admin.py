"""The first start: somebody must be able to sign in before anybody was created.

Belongs here: one organization admin with a one-time password in a file that only the service's user reads, and the end
of that file. Does not: creating anybody else.
"""

import asyncio
import logging
import os
import secrets
import stat
from pathlib import Path

from reconciler.auth import changes, passwords
from reconciler.auth.accounts import Accounts
from reconciler.auth.passwords import SigningIn
from reconciler.model import errors, ids
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.directory import User

log = logging.getLogger(__name__)

NAME = "admin"
FILE = "initial-admin-password"
PASSWORD_BYTES = 24  # of randomness: 32 characters


async def ensure_first_admin(accounts: Accounts, signing_in: SigningIn, *, state_dir: Path, clock: Clock) -> None:
    """Create the organization admin when there is none, and say where the password stands.

    The file comes first: whoever dies in between leaves a password of nobody, and the next start writes another.
    Raises Refused when it cannot be written, StoreFault.
    """
    users = accounts.directory.users
    if any(user.organization_admin for user in users.values()):
        return
    if NAME in users:
        # Somebody made people while nobody had to sign in; whoever this is must not become more by a restart.
        log.warning("There is no organization admin, and %s is another user: make one with SERVICE_API_KEY set.", NAME)
        return
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    path = state_dir / FILE
    try:
        await asyncio.to_thread(_write, path, password)
    except OSError as error:
        raise errors.Refused(
            f"The password of the first admin could not be written to {path} ({error.strerror}); make room for it."
        ) from error
    now = clock()
    new = User(
        id=ids.ulid(milliseconds=int(now.timestamp() * 1000), randomness=os.urandom(ids.RANDOM_BYTES)),
        name=NAME,
        created_at=rfc3339(now),
        organization_admin=True,
        password=await signing_in.encode(password),
    )
    await accounts.amend(lambda directory: changes.create_user(directory, new), actor="system", request=None)
    log.warning(
        "There was no organization admin: %s was created with the password in %s; change it with "
        "`reconciler user password`, and the service removes the file.",
        NAME,
        path,
    )


async def clear_first_admin(accounts: Accounts, *, state_dir: Path) -> None:
    """Wait until the password in the file opens nothing, and remove the file; without one, that is done.

    Best effort: a file that cannot be removed is told of. What was changed just before the service died is noticed at
    the next start, since the file is compared with what is stored.
    """
    path = state_dir / FILE
    password = await asyncio.to_thread(_read, path)
    if password is None:
        return
    while await _is_valid(password, encoded := _encoded(accounts)):
        while _encoded(accounts) == encoded:
            await accounts.change()
    try:
        await asyncio.to_thread(path.unlink)
    except FileNotFoundError:
        return
    except OSError as error:
        log.warning("%s holds a password that is valid no more, and cannot be removed (%s).", path, error.strerror)
        return
    log.info("Removed %s: the password in it is valid no more.", path)


async def _is_valid(password: str, encoded: str | None) -> bool:
    return encoded is not None and await asyncio.to_thread(passwords.is_right_password, password, encoded)


def _encoded(accounts: Accounts) -> str | None:
    """The hash of the admin's present password."""
    found = accounts.directory.users.get(NAME)
    return None if found is None else found.password


def _read(path: Path) -> str | None:
    """The password in the file; None without one. A link, folder or pipe in its place is none of ours and stays."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return os.read(descriptor, changes.LONGEST_PASSWORD).decode("utf-8", "replace").strip()
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _write(path: Path, password: str) -> None:
    """Through a file of another name, so that the mode is right before anything is in it; on the disk before anybody
    has the password. A link in its place is replaced, not followed.
    """
    temporary = path.with_name(f"{path.name}.new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(password + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
