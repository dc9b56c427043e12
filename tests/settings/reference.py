"""The settings as rows of a table, made from the classes: what docs/settings.md has to say."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from reconciler.settings import loading
from reconciler.settings.models import Settings
from reconciler.settings.scalars import Address, Allowed

# Defaults that depend on the machine or on other keys.
COMPUTED = {
    "stateDir": "`$STATE_DIRECTORY` (set by systemd), else `/var/lib/reconciler` for root, "
    "else `$XDG_STATE_HOME/reconciler` or `~/.local/state/reconciler`",
    "store.url": "`sqlite:///<stateDir>/store.db`",
    "replica.name": "the host name",
}

# Values that many settings take are explained once on the page.
EXPLAINED = {
    "a duration such as 250ms, 10s, 5m or 1h": "a [duration](#values)",
    'an absolute path, or "" for none': 'a [path](#values), or ""',
    "an absolute path": "a [path](#values)",
    "a list, each a network such as 10.0.0.0/8 or fd00::/8, without bits after the prefix, or one IP address; "
    "no name": "a list of [networks](#values)",
    "an http or https URL without a user or query": "a [web address](#values)",
    'an http or https URL without a user or query, or "" for none': 'a [web address](#values), or ""',
    'an http or https URL without a user or query, or ""': 'a [web address](#values), or ""',
    "1 to 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends": "a [name](#values)",
    "a string that is not empty": "not empty",
}


class Row(NamedTuple):
    """One setting, as the reference has it."""

    key: str
    meaning: str
    allowed: str
    default: str

    def __str__(self) -> str:
        return f"| `{self.key}` | {self.meaning} | {self.allowed} | {self.default} |"


def rows(topic: type[BaseModel] = Settings, prefix: str = "") -> Iterator[Row]:
    """Every key that a person may write, in the order of the classes."""
    known = loading.unknown_keys(topic)
    for name, field in topic.model_fields.items():
        key = field.alias or name
        if key not in known:
            continue
        section = loading.section_at(field.annotation)
        path = f"{prefix}{key}{'[]' if 'tuple' in str(field.annotation) and section else ''}"
        if section is None:
            takes = allowed(field)
            yield Row(path, field.description or "", EXPLAINED.get(takes, _short(takes)), default(path, field))
        else:
            yield from rows(section, f"{path}.")


def _short(takes: str) -> str:
    """Return the words for a number without its type, which the default shows."""
    return takes.replace("a whole number of bytes from", "bytes:").removeprefix("a whole number from ")


def allowed(field: FieldInfo) -> str:
    """Return what the field takes, in the words of its mistakes."""
    words = _words(field.metadata)
    if words:
        return words[-1]
    # A list: what each of its items takes.
    of_items = [word for item in get_args(field.annotation) for word in _words(getattr(item, "__metadata__", ()))]
    item = of_items[-1]
    return "a list of strings that are not empty" if item == "a string that is not empty" else f"a list, each {item}"


def _words(metadata: Iterable[object]) -> list[str]:
    return [extra.words for extra in metadata if isinstance(extra, Allowed)]


def default(path: str, field: FieldInfo) -> str:
    """Return what counts when the key is left out."""
    if path in COMPUTED:
        return COMPUTED[path]
    if field.is_required():
        return "required"
    return f"`{written(field.default, duration='duration' in allowed(field))}`"


def written(value: object, *, duration: bool = False) -> str:
    """The value as the file has it."""
    if duration and isinstance(value, float):
        return next(f"{value / size:g}{unit}" for unit, size in (("h", 3600), ("s", 1)) if value % size == 0)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[" + ", ".join(written(each) for each in value) + "]"
    if isinstance(value, Path | Address | int):
        return str(value)
    text = "" if value is None else getattr(value, "get_secret_value", lambda: value)()
    return text if isinstance(text, str) and text and "*" not in text else f'"{text}"'
