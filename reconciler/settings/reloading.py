"""What a running service takes over from settings that were read again, and what waits for a restart. Pure."""

from collections.abc import Collection, Iterator

from pydantic import BaseModel

from reconciler.model.errors import Refused
from reconciler.settings.models import Settings

TAKEN_OVER = frozenset({"repositories", "log.level"})
NAMED = 5  # a message names this many repositories, and counts the rest
TLS = frozenset({"tls.certFile", "tls.keyFile"})  # another certificate is taken over; whether there is TLS is not


def need_restart(running: Settings, fresh: Settings) -> tuple[str, ...]:
    """The keys, dotted, whose fresh values count only after a restart, in the order of the reference.

    `running` are the settings of the start: a change that waits is told again at each reload.
    """
    stays = (running.tls.cert_file is None) == (fresh.tls.cert_file is None)
    taken_over = TAKEN_OVER | TLS if stays else TAKEN_OVER
    return tuple(key for key in _changed(running, fresh, "") if key not in taken_over)


def check_repositories(followed: Collection[str], fresh: Settings) -> None:
    """Refuse fresh settings without a repository while some are `followed`: a file that was cut off, or a section that
    was lost, looks the same, and would give all that Git owns to the API.
    """
    if followed and not fresh.repositories:
        more = f" and {len(followed) - NAMED} more" if len(followed) > NAMED else ""
        names = ", ".join(sorted(followed)[:NAMED]) + more
        raise Refused(
            f"`repositories` is empty, and {names} would be followed no more; name one, or restart the service to "
            "follow none."
        )


def _changed(running: BaseModel, fresh: BaseModel, prefix: str) -> Iterator[str]:
    for name, field in type(fresh).model_fields.items():
        old, new = getattr(running, name), getattr(fresh, name)
        key = f"{prefix}{field.alias or name}"
        if isinstance(old, BaseModel) and isinstance(new, BaseModel):
            yield from _changed(old, new, f"{key}.")
        elif old != new:
            yield key
