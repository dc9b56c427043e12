"""The KIND argument: completed in the shell, judged, and turned into the spelling that paths use."""

import click

from reconciler.model import names
from reconciler.model.errors import Refused
from reconciler.model.names import Kind


def complete_kind(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The kinds that begin like what is typed, each once."""
    return [kind.plural for kind in names.KINDS if kind.plural.startswith(incomplete.lower())]


kind_argument = click.argument("kind", shell_complete=complete_kind)


def known_kind(text: str) -> Kind:
    """The kind that a person means. Raises Refused with the nearest one and all there are."""
    kind = names.find_kind(text)
    if kind is None:
        nearest = names.nearest_kind(text)
        hint = f", did you mean {nearest.name}" if nearest else ""
        raise Refused(f"there is no kind {text}{hint}; the kinds are {', '.join(each.name for each in names.KINDS)}")
    return kind
