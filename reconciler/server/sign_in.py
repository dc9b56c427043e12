"""Sign-in as the daemon sets it up: the provider, the first admin, and a change of `auth.type`.

At the first start there are no people, so somebody must be able to become the first admin.

Another `auth.type` than at the last start removes everybody who could sign in. An operator must confirm that, and it
happens before anybody can sign in. Sessions are removed first, from their own file; the rest is one transaction with
the record of the new type. If the process crashes between the two, people sign in again, and the next start asks again.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from reconciler.auth import changes
from reconciler.auth.accounts import Accounts
from reconciler.auth.oidc.discovery import ProviderUnfit, ProviderUnreachable
from reconciler.auth.oidc.provider import Provider, ProviderConfiguration
from reconciler.auth.sign_in import SigningIn
from reconciler.model import clock, errors, ids
from reconciler.model.clock import Clock, rfc3339
from reconciler.model.directory import Amendment, Audited, Directory, User
from reconciler.model.errors import Refused
from reconciler.ops import databases
from reconciler.settings.models import Settings
from reconciler.store.contract import Operations, Store

log = logging.getLogger(__name__)

CALLBACK = "/oidc/redirect"  # the interface, Authentication, OpenID Connect sign-in, 2
SIGNED_OUT = "/signed-out"


def build_provider(settings: Settings) -> Provider:
    """Build the client of the provider that proves who people are."""
    oidc = settings.auth.oidc
    configuration = ProviderConfiguration(
        issuer=oidc.issuer,
        client_id=oidc.oauth2_client_id,
        client_secret=oidc.oauth2_client_secret.get_secret_value(),
        scopes=oidc.scopes,
        redirect_uri=f"{settings.web_url}{CALLBACK}",
        signed_out_uri=f"{settings.web_url}{SIGNED_OUT}",
        proxy=settings.outbound.proxy,
        ca_file=settings.outbound.ca_file,
        # Scopes that the operator wrote down are asked for as they are: a provider may refuse any other.
        wants_groups="scopes" not in oidc.model_fields_set,
    )
    return Provider(configuration, clock=clock.now, monotonic=time.monotonic)


async def look_at_provider(check: Callable[[], Awaitable[None]], settings: Settings) -> None:
    """Log where people sign in, and warn if the provider cannot be used now. It may work a moment later, and keys work
    meanwhile.
    """
    web_url = settings.web_url
    log.info("People sign in at %s; the provider must know %s%s as redirect URI.", web_url, web_url, CALLBACK)
    if "web_url" not in settings.model_fields_set and settings.listen.port != urlsplit(web_url).port:
        log.warning(
            "webURL is not set, and %s is not where the service listens: set it to the address that people type, where "
            "the provider sends them back to.",
            web_url,
        )
    try:
        await check()
    except (ProviderUnreachable, ProviderUnfit) as problem:
        log.warning("Nobody can sign in at this moment: %s", problem.message)
    else:
        log.info("The provider %s answers and can be used.", settings.auth.oidc.issuer)


async def check_provider(settings: Settings) -> None:
    """Check the provider, if there is one, before people lose their access. Raises Refused if nobody could sign in."""
    if settings.auth.type != "oidc":
        return
    asked = build_provider(settings)
    try:
        await asked.check()
    except (ProviderUnreachable, ProviderUnfit) as problem:
        reason = problem.message.removesuffix(".")
        raise Refused(f"Nothing was removed, since nobody could sign in afterwards: {reason}.") from None
    finally:
        await asked.close()


START = "~start"  # locked instead of a project, which cannot have this name
START_SECONDS = 60.0


@contextlib.asynccontextmanager
async def one_at_a_time(store: Store) -> AsyncIterator[None]:
    """Keep other replicas that start from the same steps meanwhile. Raises Refused, StoreFault."""
    async with contextlib.AsyncExitStack() as held:
        try:
            await held.enter_async_context(store.locked(START, seconds=START_SECONDS))
        except TimeoutError:
            raise Refused("Another replica has been starting for a minute; look at its log, and start again.") from None
        yield


NAME = "admin"
FILE = "initial-admin-password"
PASSWORD_BYTES = 24  # of randomness: 32 characters


async def ensure_first_admin(accounts: Accounts, signing_in: SigningIn, *, state_dir: Path, clock: Clock) -> None:
    """Create the organization admin if there is none, and return the file with the password. The file is written first:
    if the process crashes in between, the password is unused, and the next start writes another. Raises Refused if it
    cannot be written, StoreFault.
    """
    users = accounts.directory.users
    if any(user.organization_admin for user in users.values()):
        return
    if NAME in users:
        # People were created while nobody had to sign in: a restart must not give any of them more permissions.
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
        "`reconciler user password`, and remove the file.",
        NAME,
        path,
    )


def _write(path: Path, password: str) -> None:
    """Write the file under another name first, so that its mode is right before it has content, and sync it before the
    password is used. A link in its place is replaced, not followed.
    """
    temporary = path.with_name(f"{path.name}.new")
    databases.write_new_file(temporary, f"{password}\n".encode())
    temporary.replace(path)
    databases.force_to_disk(path.parent)


OF_OLD = "local"  # what a store with people was used with before stores recorded it
OPTION = "--confirm-auth-change"


async def settle_auth(
    accounts: Accounts,
    store: Store,
    operations: Operations,
    *,
    configured: str,
    is_confirmed: bool,
    check: Callable[[], Awaitable[None]],
) -> None:
    """Change the store to this type. `check` is called before anything is removed, and raises Refused if nobody could
    sign in. Raises Refused if people would be removed without confirmation, what `check` raises, StoreFault.
    """
    directory = accounts.directory
    recorded = await store.auth_type()
    was = recorded or (OF_OLD if directory.users else configured)
    sessions = await operations.sessions()
    if was != configured:
        counts = _counts(directory)
        has_anybody = any(counts.values())
        told = zip(("people", "memberships", "invitations", "keys"), counts.values(), strict=True)
        what = ", ".join(f"{name}: {count:,}" for name, count in (*told, ("sessions", len(sessions))))
        if has_anybody and not is_confirmed:
            raise errors.Refused(
                f"auth.type is {configured}, and was {was} the last time: starting so removes everybody who could sign "
                f"in and all that lets somebody in ({what}), but no resource; set it back, or start once with {OPTION}."
            )
        if has_anybody:
            await check()
        await operations.remove_sessions([row.digest for row in sessions])
        if has_anybody:
            decide = partial(_without_anybody, was=was, configured=configured)
            await accounts.amend(decide, actor="settings", request=None)
            log.warning("auth.type is %s now and was %s; removed %s.", configured, was, what)
            return
    if recorded != configured:
        await store.put_auth_type(configured)


def _counts(directory: Directory) -> dict[str, int]:
    return {
        "users": len(directory.users),
        "members": sum(map(len, directory.members.values())),
        "invitations": len(directory.invitations),
        "keys": len(directory.keys),
    }


def _without_anybody(directory: Directory, *, was: str, configured: str) -> Amendment:
    """Remove all people and stored keys; projects and resources stay."""
    detail = {"before": was, "after": configured, **_counts(directory)}
    return Amendment(
        Audited("configured", "Authentication", configured, detail=detail),
        removed_users=tuple(user for _, user in sorted(directory.users.items())),
        revoked_keys=tuple(key for _, key in sorted(directory.keys.items())),
        ended_invitations=tuple(one for _, one in sorted(directory.invitations.items())),
        auth_type=configured,
    )


async def sign_out_others(accounts: Accounts, operations: Operations, *, issuer: str) -> None:
    """End the sessions of people of another provider: the operator may not trust it any more. They keep their roles,
    and cannot sign in. Raises StoreFault.
    """
    users = ((row.digest, accounts.directory.user(row.user)) for row in await operations.sessions())
    others = [digest for digest, user in users if user and user.identity and user.identity.issuer != issuer]
    if others:
        await operations.remove_sessions(others)
        log.warning("auth.oidc.issuer is another one: %d sessions of people whom it does not know ended.", len(others))
