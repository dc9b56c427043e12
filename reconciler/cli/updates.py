"""What `apply` and `delete` did, for a person: one line for each resource, its place, and why."""

import re
from collections import Counter

from reconciler.cli import delivers, exits, output, statuses, tables
from reconciler.cli.answers import answer_at, answer_identity, answer_lines, answer_objects, answer_strings, answer_text
from reconciler.cli.sending import FoundResources
from reconciler.model.text import visible
from reconciler.model.values import Value

NOT_STORED = frozenset({"invalid", "error", "in-use", "forbidden", "not-found", "deprecated"})
STORED = frozenset({"created", "configured", "unchanged"})
WHY_IN_NOTES = frozenset({"in-use", "forbidden", "deprecated"})
# How the service names what has no file: by its position in the request, counted from 0.
ITEM = re.compile(r"\bitem ([0-9]{1,9})\b")
ELSEWHERE = " is given more than once, also at "


def report_updates(answer: dict[str, Value], *, sent: list[FoundResources], dry_run: bool, colour: bool) -> int:
    """Print one line for each status, with reasons beneath; the exit code."""
    updates = answer_objects(answer.get("updates"))
    # One status for each resource, in the order of the request: so each has its file.
    places = [found.place for found in sent] if len(updates) == len(sent) else [""] * len(updates)
    known = {_key(found.value): answer_at(found.value, "spec") for found in sent}
    remark = " (dry run)" if dry_run else ""
    for update, place in zip(updates, places, strict=True):
        missing = _missing(update)
        told = f"{remark}, incomplete" if missing else remark
        output.write(_head(update, place=place, remark=told, colour=colour) + _why(update))
        reasons = [*(answer_lines(update, "reason") or missing or _undelivered(update, known)), *_notes(update)]
        output.write("\n" + "".join(f"  {visible(_elsewhere(line, places))}\n" for line in reasons))
    counts = Counter(answer_text(update, "status") for update in updates)
    output.note(statuses.counted(counts) + remark)
    return exits.NOT_STORED if NOT_STORED & counts.keys() else exits.OK


def _head(update: Value, *, place: str, remark: str, colour: bool) -> str:
    status = answer_text(update, "status")
    shown = tables.word(status) if colour else visible(status)
    where = f" ({visible(place)})" if place and status in NOT_STORED else ""
    return f"{visible(answer_identity(answer_at(update, 'resource')))} {shown}{remark}{where}"


def _missing(update: Value) -> list[str]:
    """What is stored although it is not whole yet: what it lacks."""
    stored = answer_text(update, "status") in STORED
    return answer_strings(answer_at(update, "resource", "status", "incomplete")) if stored else []


def _undelivered(update: Value, known: delivers.Specs) -> list[str]:
    """Why a Configuration that is stored does not deliver, where somebody seems to want that it does, or why an earlier
    version does.
    """
    resource = answer_at(update, "resource")
    if answer_text(update, "status") in STORED and (stale := delivers.stale(resource)):
        return [stale]
    reason = delivers.delivers_reason(resource) if answer_text(update, "status") in STORED else ""
    return [f"does not deliver: {reason}"] if reason and delivers.is_delivery_wanted(resource, known) else []


def _key(value: Value) -> tuple[str, str]:
    return answer_text(value, "kind"), answer_text(value, "metadata", "name")


def _why(update: Value) -> str:
    """Return why, for the statuses that bring no reason of their own: the last of their notes."""
    told = answer_strings(answer_at(update, "notes"))
    return visible(f": {told[-1]}") if told and answer_text(update, "status") in WHY_IN_NOTES else ""


def _notes(update: Value) -> list[str]:
    """What else to know, a line for each."""
    told = answer_strings(answer_at(update, "notes"))
    return [f"note: {note}" for note in (told[:-1] if answer_text(update, "status") in WHY_IN_NOTES else told)]


def refused(errors: tuple[str, ...], *, sent: list[FoundResources]) -> int:
    """Print why nothing was stored, one line for each reason with its place; the exit code."""
    for line in placed(errors, sent):
        output.note(line)
    output.note("error: nothing was stored")
    return exits.NOT_STORED


def placed(errors: tuple[str, ...], sent: list[FoundResources]) -> list[str]:
    """The errors of an atomic apply, each with the place of its resource in front."""
    places = [found.place for found in sent]
    # Of a name that is there several times, the first error belongs to the first, as both come in the request's order.
    waiting: dict[str, list[str]] = {}
    for found in sent:
        start = f"{answer_text(found.value, 'kind')} {answer_text(found.value, 'metadata', 'name')}: "
        waiting.setdefault(start, []).append(found.place)
    return [_placed(error, places, waiting) for error in errors]


def _placed(error: str, places: list[str], waiting: dict[str, list[str]]) -> str:
    which, colon, rest = error.partition(": ")
    item = ITEM.fullmatch(which)
    if item is not None:
        return _place(item, places) + colon + rest
    mine = waiting.get(which + colon) or []
    return f"{mine.pop(0)}: {_elsewhere(error, places)}" if mine else error


def _elsewhere(reason: str, places: list[str]) -> str:
    """The reason of a duplicate, with the places of the others."""
    before, words, after = reason.partition(ELSEWHERE)
    return before + words + ITEM.sub(lambda item: _place(item, places), after)


def _place(item: re.Match[str], places: list[str]) -> str:
    position = int(item[1])
    return (places[position] if position < len(places) else "") or item[0]
