"""The parts that the daemon is made of, each built from the settings and those below it, and ended after those above.

Belongs here: that order. Does not: what the parts do, signals, listening (`daemon`).
"""

import asyncio
import contextlib
import hashlib
import json
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import schemas
from reconciler import clock
from reconciler.access.principals import DEFAULT_PROJECT, LOCAL
from reconciler.accounts import Accounts
from reconciler.applying import Applier, Limits
from reconciler.daemon import certificates, delivering, following, headers
from reconciler.daemon.delivering import Delivering
from reconciler.daemon.ending import Bound
from reconciler.daemon.services import Services
from reconciler.delivery.limiting import Rates, Room
from reconciler.reading.client import Reader
from reconciler.reconciling.repositories import Environment, Repositories
from reconciler.remotes.following import Remotes
from reconciler.reviewing.asking import Reviewing
from reconciler.secrets import available, sources
from reconciler.settings.models import Settings
from reconciler.signing_in import SigningIn
from reconciler.store.sqlite import SqliteStore


class Parts(NamedTuple):
    """What is up."""

    services: Services
    repositories: Repositories
    delivery: Delivering


@contextlib.asynccontextmanager
async def built(
    settings: Settings, bound: Bound, *, listeners: Sequence[socket.socket], environment: Mapping[str, str]
) -> AsyncIterator[Parts]:
    """Store, reader, applier, repositories and delivery; stopped in the opposite order.

    `listeners` are the service's own, to which nothing is delivered. Raises Refused, StoreFault.
    """
    path = Path(settings.store.url.removeprefix("sqlite:///"))
    store = await asyncio.to_thread(SqliteStore, path)
    reader = Reader()
    try:
        accounts = Accounts(store, await store.directory(), clock=clock.now)
        await accounts.ensure_project(DEFAULT_PROJECT)
        await reader.start()
        limits = Limits(api_versions=settings.api.accepted_versions, max_resources=settings.api.max_resources)
        secrets = partial(available.of, sources.configured(settings, environment=environment))
        applier = Applier(store, reader, store_path=str(path), limits=limits, secrets=secrets, clock=clock.now)
        repositories = Repositories(_surroundings(settings, store=store, applier=applier, accounts=accounts))
        signing_in = SigningIn(accounts)
        try:
            async with delivering.delivering(settings, listeners, applier=applier, environment=environment) as delivery:
                services = Services(
                    store=store,
                    applier=applier,
                    repositories=repositories,
                    reviewing=Reviewing(repositories, store=store, applier=applier, clock=clock.now),
                    accounts=accounts,
                    signing_in=signing_in,
                    clock=clock.now,
                    api_key="" if settings.api_key is None else settings.api_key.get_secret_value(),
                    max_body_bytes=settings.api.max_body_bytes,
                    deliveries=delivery.manager,
                    rates=Rates(settings.delivery.records_per_second),
                    room=Room(settings.delivery.max_in_flight_bytes),
                    anybody=LOCAL if settings.auth.type == "none" else None,
                    web_url=settings.web_url,
                    trusted_proxies=settings.trusted_proxies,
                    headers=headers.security(
                        tls=certificates.configured(settings) is not None, web_url=settings.web_url
                    ),
                )
                yield Parts(services, repositories, delivery)
        finally:
            signing_in.close()
            await repositories.stop()
            await accounts.touch()
    finally:
        bound.begin()
        await bound.waits("the reader", reader.stop())
        await bound.waits("a write to the store", store.close())


def _surroundings(settings: Settings, *, store: SqliteStore, applier: Applier, accounts: Accounts) -> Environment:
    return Environment(
        store=store,
        applier=applier,
        remotes=Remotes(following.places(settings), clock=asyncio.get_running_loop().time),
        ensure_project=accounts.ensure_project,
        api_versions=settings.api.accepted_versions,
        schemas=_schemas_digest(),
        clock=clock.now,
    )


def _schemas_digest() -> str:
    """A digest of what documents are judged by: new schemas or built-in types read every file again."""
    shaping = {name: schemas.load(name) for name in sorted(schemas.names())}
    digest = hashlib.sha256(json.dumps(shaping, sort_keys=True).encode())
    for name, document in sorted(schemas.built_in()):
        digest.update(name.encode() + b"\0" + document)
    return digest.hexdigest()
