"""Which resources a command means: `KIND NAME...`, or `KIND/NAME...`."""

import click

from reconciler.cli.kind_argument import known_kind
from reconciler.model.names import Key


def target_keys(kind: str, names: tuple[str, ...]) -> list[Key]:
    """The resources that were named, each once, in the order given; none when only a kind was."""
    if "/" not in kind:
        found = known_kind(kind).name
        return [Key(found, name) for name in dict.fromkeys(names)]
    pairs = [word.partition("/") for word in (kind, *names)]
    if not all(slash for _, slash, _ in pairs):
        raise click.UsageError("write either KIND NAME... or KIND/NAME..., not both")
    return list(dict.fromkeys(Key(known_kind(word).name, name) for word, _, name in pairs))


def target_key(kind: str, name: str | None) -> Key:
    """The one resource that was named."""
    found = target_keys(kind, () if name is None else (name,))
    if len(found) != 1:
        raise click.UsageError("give KIND and NAME, or KIND/NAME")
    return found[0]
