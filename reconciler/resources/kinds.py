"""The kinds of resources and how they are spelled.

Belongs here: names of kinds. Does not: their fields (the schemas) and what they refer to.
"""

import difflib
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind: `name` is how documents spell it, `plural` is its form in paths."""

    name: str  # DestinationType
    plural: str  # destination-types

    @property
    def hyphened(self) -> str:
        """The singular in small letters, words apart: `destination-type`."""
        return self.plural.removesuffix("s")


_COMPONENTS = ("Source", "Processor", "Connector", "Destination", "Extension")
_NAMES = (*_COMPONENTS, *(f"{name}Type" for name in _COMPONENTS), "Configuration", "Fleet", "AgentVersion")


def _kind(name: str) -> Kind:
    return Kind(name=name, plural=re.sub("(?<=[a-z])(?=[A-Z])", "-", name).lower() + "s")


def _forms(kind: Kind) -> tuple[str, ...]:
    hyphened = (kind.hyphened, kind.plural)
    return (*hyphened, *(form.replace("-", "") for form in hyphened))


KINDS: tuple[Kind, ...] = tuple(sorted((_kind(name) for name in _NAMES), key=lambda kind: kind.name))

_BY_NAME = {kind.name: kind for kind in KINDS}
_BY_FORM = {form: kind for kind in KINDS for form in _forms(kind)}


def exact(name: str) -> Kind | None:
    """The kind that documents spell so."""
    return _BY_NAME.get(name)


def find(text: str) -> Kind | None:
    """The kind that a path or a person means: any case, singular or plural, hyphened or not."""
    return _BY_FORM.get(text.lower())


def nearest(text: str) -> Kind | None:
    """The kind that somebody who mistyped may have meant; None when nothing is near."""
    close = difflib.get_close_matches(text.lower(), _BY_FORM, n=1, cutoff=0.8)
    return _BY_FORM[close[0]] if close else None
