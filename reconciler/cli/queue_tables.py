"""Deliveries as a table, and beneath it what needs somebody: why something waits, the last failure, what is lost."""

from datetime import UTC, datetime, timedelta

from reconciler.cli import tables, words
from reconciler.cli.answers import answer_at, answer_lines, answer_number, answer_text
from reconciler.cli.tables import Column
from reconciler.model.text import visible
from reconciler.model.values import Value

UNITS = ("kB", "MB", "GB", "TB")
UNUSED = "unused"  # the state of what has nothing else to tell: no Configuration delivers to it
QUARANTINE = "in the folder `quarantine` of its queue, beneath `queues` in the service's `stateDir`"
ANSWER_LINES = 5  # of what an endpoint answered; the API has more of it


def render_queues(deliveries: list[dict[str, Value]], *, now: datetime, wide: bool, colour: bool) -> str:
    """The table, then a line or more for each that is in trouble; nothing when there are none."""
    if not deliveries:
        return ""
    table = tables.table_of(COLUMNS, deliveries, wide=wide, colour=colour)
    trouble = [visible(line) + "\n" for one in deliveries for line in _beneath(one, now=now)]
    return table + ("\n" + "".join(trouble) if trouble else "")


def size_text(number: Value) -> str:
    """Bytes for a person: `0 B`, `190 kB`, `1.4 GB`, a thousand to each step."""
    value, unit = float(number) if isinstance(number, int) else 0.0, "B"
    for larger in UNITS:
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.1f} {unit}" if value < 10 and unit != "B" else f"{value:.0f} {unit}"


def _state(delivery: Value) -> str:
    return UNUSED if _is_unused(delivery) and _is_calm(delivery) else answer_text(delivery, "state")


def _counted(number: str) -> str:
    return "" if number == "0" else number


def _is_unused(delivery: Value) -> bool:
    return answer_at(delivery, "configurations") == []


def _is_calm(delivery: Value) -> bool:
    return answer_text(delivery, "state") in {"idle", "sending"}


def _beneath(delivery: Value, *, now: datetime) -> list[str]:
    return [*_trouble(delivery, now=now), *_losses(delivery)]


def _losses(delivery: Value) -> list[str]:
    """What the disk damaged, and what was dropped: nobody hears of it anywhere else."""
    name, found = answer_text(delivery, "destination"), []
    if damaged := answer_number(delivery, "queue", "quarantined"):
        told = f"{words.counted(damaged, 'damaged file')} {'was' if damaged == 1 else 'were'} put aside, {QUARANTINE}"
        found.append(f"{name}: {told}; what can be read of {'it' if damaged == 1 else 'them'} is sent as ever")
    if lost := answer_number(delivery, "queue", "lost"):
        told = f"{words.counted(lost, 'batch', 'batches')} could not be read since the start of the service"
        found.append(f"{name}: {told}, and {'is lost with its' if lost == 1 else 'are lost with their'} records")
    if dropped := answer_number(delivery, "counts", "dropped"):
        told = f"{words.counted(dropped, 'record')} {'was' if dropped == 1 else 'were'} dropped since the start of the"
        found.append(f"{name}: {told} service (`on_full`): its queue was full, or the disk took nothing")
    return found


def _trouble(delivery: Value, *, now: datetime) -> list[str]:
    """What the service says of its state, and of a failure that nothing has succeeded after."""
    name, message = answer_text(delivery, "destination"), answer_text(delivery, "message")
    found = [_named(name, message)] if message else []
    if answer_at(delivery, "window", "open") is False:
        found += _until(name, answer_text(delivery, "window", "next"), now=now)
    if _is_unused(delivery) and not (message and _is_calm(delivery)) and answer_text(delivery, "state") != "orphaned":
        found.append(f"{name}: no Configuration delivers to it any more")
    if answer_at(delivery, "lastFailure") is None or _is_over(delivery):
        return found
    cause = answer_text(delivery, "lastFailure", "cause")
    if cause and cause not in message:
        found.append(_named(name, cause))
    answer = answer_lines(delivery, "lastFailure", "answer")
    return [*found, *(f"  {line}" for line in answer[:ANSWER_LINES])]


def _until(name: str, opens: str, *, now: datetime) -> list[str]:
    """When the window opens: the hour alone where that can mean one time only."""
    try:
        moment = datetime.fromisoformat(opens).astimezone(UTC)
    except ValueError:
        return []
    form = "%H:%M" if moment - now < timedelta(days=1) else "%Y-%m-%d %H:%M"
    return [f"{name}: its window is closed until {moment.strftime(form)} UTC"]


def _named(name: str, sentence: str) -> str:
    """The sentence with the name in front, unless it says itself whom it is about."""
    return sentence if sentence.startswith(f"The destination {name} ") else f"{name}: {sentence}"


def _is_over(delivery: Value) -> bool:
    # Instants of one form are in the order of their texts.
    return answer_text(delivery, "lastSuccess") > answer_text(delivery, "lastFailure", "at")


COLUMNS = (
    Column("DESTINATION", lambda delivery: answer_text(delivery, "destination"), kept=True),
    Column("STATE", _state, kept=True),
    Column("BATCHES", lambda delivery: answer_text(delivery, "queue", "batches"), kept=True, wide=True),
    Column("RECORDS", lambda delivery: answer_text(delivery, "queue", "records"), kept=True),
    Column("SIZE", lambda delivery: size_text(answer_at(delivery, "queue", "bytes")), kept=True),
    Column("OLDEST", lambda delivery: words.moment_text(answer_text(delivery, "queue", "oldest"))),
    Column("DEAD LETTERS", lambda delivery: _counted(answer_text(delivery, "deadLetters", "batches"))),
    Column("LAST FAILURE", lambda delivery: words.moment_text(answer_text(delivery, "lastFailure", "at"))),
)
