"""What JSON Schema has no word for, and asks of a text by the name of a `format`.

Belongs here: yes or no about one text. Does not: which parameters have a format (`parameter_types`), nor messages.
"""

from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

import schemas
from reconciler.documents import limits, reading

YAML = "yaml"
TIMEZONE = "timezone"


def is_yaml(text: str) -> bool:
    """Whether the text parses as YAML, and is no larger than a file may be.

    Tags and merge keys, which no resource may have, are its reader's business.
    """
    try:
        reading.locate(text.encode(), syntax=reading.Syntax.YAML, limits=limits.FILE)
    except reading.DocumentError:
        return False
    return True


def is_timezone(text: str) -> bool:
    """Whether the text is the name of a time zone in IANA's database; upper and lower case differ."""
    return text in _time_zones()


@cache
def _time_zones() -> frozenset[str]:
    return schemas.time_zones()


FORMATS: Mapping[str, Callable[[str], bool]] = MappingProxyType({YAML: is_yaml, TIMEZONE: is_timezone})
