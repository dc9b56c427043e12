"""Which parameters say where the data of a component goes, its secrets along with it.

Belongs here: comparing two versions of a component in that. Does not: what follows from a difference (`restoring`).

Of a webhook, which the service executes, the parameters are known. What another type does with its parameters is known
to nobody here: any text may be an address, or hold one. Harmless are only values that the type's author has bounded (a
number, true or false, a choice) and values that the author calls secrets, and these only when their names do not sound
like a place. So a secret rather has to be sent once too often than goes where nobody meant it to.
"""

import re

from reconciler.documents.values import Value
from reconciler.resources import conforming
from reconciler.resources.component_types import ComponentType, same
from reconciler.resources.definitions import Definition
from reconciler.resources.keys import Key
from reconciler.resources.references import WEBHOOK

WEBHOOK_PARAMETERS = frozenset(
    {
        "scheme",
        "hostname",
        "port",
        "path",
        "insecure_skip_verify",
        "ca_file",
        "mutual_tls",
        "cert_file",
        "key_file",
    }
)
ROUTING_KEYS = frozenset({"host", ":authority"})
"""Of a map of headers: what a shared server goes by when it chooses who gets a request."""

_BOUNDED = frozenset({"int", "bool", "enum", "enums", "timezone"})
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+s?(?![a-z])")
_PLACE = re.compile(
    "account|addr|address(es)?|authority|brokers?|bucket|ca|cert(ificates?)?|cluster|connection|database|datacenter|"
    "destination|dns|domain|dsn|endpoints?|environment|gateway|host|hostname|hosts|index|insecure|ip|location|mtls|"
    "mutual|namespace|network|path|peer|ports?|project|protocol|proxy|realm|region|remote|route|scheme|servers?|site|"
    "skip|socket|ssl|stream|subdomain|targets?|tenant|tls|topic|transport|ur[il]s?|verify|workspace|zone"
)
_RUN_TOGETHER = re.compile("addr|domain|endpoint|host|proxy|server|uris?$|url")  # `webhookurl`; not `security`


def changed(
    before: list[Value], after: list[Value], *, type_key: Key, component_type: ComponentType | None
) -> tuple[str, ...]:
    """The parameters that say where data goes and differ after defaults, sorted.

    `(sensitive)` in both versions is the same value. A secret that is sent again differs even when it is equal: that it
    is must not show.
    """
    old = _relevant(before, type_key, component_type)
    new = _relevant(after, type_key, component_type)
    names = old.keys() | new.keys()
    return tuple(sorted(name for name in names if not _is_same(name, old, new)))


def _is_same(name: str, old: dict[str, Value], new: dict[str, Value]) -> bool:
    return name in old and name in new and same(old[name], new[name])


def _relevant(given: list[Value], type_key: Key, component_type: ComponentType | None) -> dict[str, Value]:
    """The values that say where data goes, by name; of a map that does not, the keys that do."""
    if component_type is None:
        return _by_name(given)
    found: dict[str, Value] = {}
    for name, value in conforming.settled(given, component_type).items():
        if _says_where(name, type_key, component_type.definitions.get(name)):
            found[name] = value
        elif isinstance(value, dict):
            found |= {f"{name}/{key}": each for key, each in value.items() if key.lower() in ROUTING_KEYS}
    return found


def _by_name(given: list[Value]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for parameter in given:
        name = parameter.get("name") if isinstance(parameter, dict) else None
        if isinstance(parameter, dict) and isinstance(name, str):
            found.setdefault(name, parameter.get("value"))
    return found


def _says_where(name: str, type_key: Key, definition: Definition | None) -> bool:
    if type_key == WEBHOOK:
        return name in WEBHOOK_PARAMETERS
    if definition is None or not (definition.sensitive or _is_bounded(definition)):
        return True
    words = [word.lower() for word in _WORD.findall(name)]
    return any(_PLACE.fullmatch(word) or _RUN_TOGETHER.search(word) for word in words)


def _is_bounded(definition: Definition) -> bool:
    return definition.type in _BOUNDED and not definition.creatable
