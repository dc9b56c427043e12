"""What `queue status` says of records that no Configuration took: how many, and which Configurations do not deliver."""

from reconciler.cli import delivers, words
from reconciler.cli.answers import answer_at, answer_objects, answer_text
from reconciler.cli.client import Client
from reconciler.model.values import Value

MOST = 5  # Configurations that are named
PAGE = 1000  # of those that are asked for, once


def unrouted_note(client: Client, records: int) -> list[str]:
    """The lines; nothing when every record was taken."""
    if not records:
        return []
    listed = answer_objects(client.get("resources", "Configuration", query={"limit": str(PAGE)}).get("resources"))
    return unrouted_lines(records, listed)


def unrouted_lines(records: int, configurations: list[dict[str, Value]]) -> list[str]:
    """How many there were, then a line for each Configuration that does not deliver: first those that look as if they
    were to, each part in the order of names.
    """
    first = f"{words.counted(records, 'record')} {'was' if records == 1 else 'were'} taken by no Configuration"
    silent = [one for one in configurations if delivers.delivers_reason(one)]
    silent.sort(key=lambda one: (not delivers.is_delivery_wanted(one, {}), _name(one)))
    found = [f"Configuration/{_name(one)} does not deliver: {delivers.delivers_reason(one)}" for one in silent[:MOST]]
    more = len(silent) - len(found)
    return [first, *found, *([f"{more} more {'does' if more == 1 else 'do'} not deliver"] if more else [])]


def _name(resource: Value) -> str:
    return answer_text(answer_at(resource, "metadata"), "name")
