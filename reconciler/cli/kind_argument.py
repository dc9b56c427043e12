"""The KIND argument: completed in the shell, judged, and turned into the spelling that paths use."""

import click

from reconciler.errors import Refused
from reconciler.resources import kinds
from reconciler.resources.kinds import Kind


def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:  # noqa: ARG001
    """The kinds that begin like what is typed, each once."""
    return [kind.plural for kind in kinds.KINDS if kind.plural.startswith(incomplete.lower())]


kind_argument = click.argument("kind", shell_complete=complete)


def known(text: str) -> Kind:
    """The kind that a person means. Raises Refused with the nearest one and all there are."""
    kind = kinds.find(text)
    if kind is None:
        nearest = kinds.nearest(text)
        hint = f", did you mean {nearest.name}" if nearest else ""
        raise Refused(f"there is no kind {text}{hint}; the kinds are {', '.join(each.name for each in kinds.KINDS)}")
    return kind
