"""JSON text to plain values.

Belongs here: the standard library's parser with hooks, and the checks that come before it. Does not: positions of
violations; when anything is wrong, `json_walk` goes over the text again, slowly, and says what and where.
"""

import json
import re
from itertools import accumulate
from typing import Final, NoReturn

from reconciler.documents import json_walk, scalars
from reconciler.documents.limits import Limits
from reconciler.documents.locations import Locations, Recorder
from reconciler.documents.positions import Position, refusal
from reconciler.documents.values import Document, Value

_SPACE: Final = dict.fromkeys(map(ord, " \t\n\r"))
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def _unique(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise scalars.Unfit("a key is there twice")
    return fields


def _no_number(_word: str) -> NoReturn:
    raise scalars.Unfit("infinity and not-a-number are not JSON")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_int=scalars.integer,
    parse_float=scalars.fraction,
    parse_constant=_no_number,
)


def documents(text: str, *, limits: Limits) -> list[Document]:
    """The one document of the text, or none when it is only white space."""
    place = json_walk.first_place(text)
    if place is None:
        return []
    if not _fits(text, limits):
        json_walk.walk(text, limits=limits)
    try:
        value: Value = _DECODER.decode(text)
    except (ValueError, scalars.Unfit):
        _explain(text, limits)
    if _SURROGATE.search(text) and json_walk.lone_surrogate(text, 0) is not None:
        _explain(text, limits)
    return [Document(value, 0, place.line, place.column)]


def locate(text: str, *, limits: Limits) -> Locations:
    """The positions of everything in the text."""
    recorder = Recorder()
    if json_walk.first_place(text) is not None:
        json_walk.walk(text, limits=limits, recorder=recorder)
    return recorder.finish()


def _explain(text: str, limits: Limits) -> NoReturn:
    json_walk.walk(text, limits=limits)
    raise refusal("is not valid JSON", Position(1, 1))


def _fits(text: str, limits: Limits) -> bool:
    """Whether the text is surely within the limits, found without building anything; else the walk has to tell.

    The first answer is for the many small texts: with so few marks, wherever they stand, nothing can be exceeded. Only
    else are the strings taken out, so that the marks that remain are the structure's own. Text that is not JSON may
    get either answer, but the parser never meets more levels than were counted here.
    """
    if len(text) * 4 > limits.text and len(text.encode()) > limits.text:
        return False  # escapes only make strings shorter, so nothing less needs a closer look
    opening = text.count("[") + text.count("{")
    if opening <= limits.depth and opening + text.count(",") + text.count(":") < limits.nodes:
        return True
    bare = _without_strings(text).translate(_SPACE)
    opening = bare.count("[") + bare.count("{")
    if bare.count("]") + bare.count("}") != opening:
        return False
    # Each item but the first follows a comma, each field's value a colon; the first ones are the containers' own.
    nodes = 1 + bare.count(",") + bare.count(":") + opening - bare.count("[]") - bare.count("{}")
    if nodes > limits.nodes:
        return False
    depths = accumulate(map(_STEPS.__getitem__, bare.encode().translate(None, _NO_BRACKETS)))
    return max(depths, default=0) <= limits.depth


def _without_strings(text: str) -> str:
    """The text with a single quote mark in the place of each string."""
    unescaped = text.replace("\\\\", "").replace('\\"', "")
    return '"'.join(unescaped.split('"')[::2])
