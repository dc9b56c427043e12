"""What `queue status` says of records that no Configuration took: how many, and which Configurations do not deliver."""

from reconciler.cli import delivers, words
from reconciler.cli.answers import at, objects, text
from reconciler.cli.client import Client
from reconciler.documents.values import Value

MOST = 5  # Configurations that are named
PAGE = 1000  # of those that are asked for, once


def told(client: Client, records: int) -> list[str]:
    """The lines; nothing when every record was taken."""
    if not records:
        return []
    listed = objects(client.get("resources", "Configuration", query={"limit": str(PAGE)}).get("resources"))
    return lines(records, listed)


def lines(records: int, configurations: list[dict[str, Value]]) -> list[str]:
    """How many there were, then a line for each Configuration that does not deliver: first those that look as if they
    were to, each part in the order of names.
    """
    first = f"{words.counted(records, 'record')} {'was' if records == 1 else 'were'} taken by no Configuration"
    silent = [one for one in configurations if delivers.why_not(one)]
    silent.sort(key=lambda one: (not delivers.is_wanted(one, {}), _name(one)))
    found = [f"Configuration/{_name(one)} does not deliver: {delivers.why_not(one)}" for one in silent[:MOST]]
    more = len(silent) - len(found)
    return [first, *found, *([f"{more} more {'does' if more == 1 else 'do'} not deliver"] if more else [])]


def _name(resource: Value) -> str:
    return text(at(resource, "metadata"), "name")
