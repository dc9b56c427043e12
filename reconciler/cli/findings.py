"""What `validate` says, each at its place: a violation or a warning, as a line and as JSON.

Belongs here: their form and their order. Does not: the rules, nor which of them is only a warning.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from reconciler.model.positions import Locations
from reconciler.model.values import Value, pointer_text
from reconciler.model.violations import Violation

FIELDS = ("path", "line", "column", "pointer", "message")


@dataclass(frozen=True, slots=True, order=True)
class FoundViolation:
    """A violation, or a warning, at its place. They sort by place, one like the other."""

    path: str
    line: int
    column: int
    pointer: str
    message: str
    warning: bool = False

    def __str__(self) -> str:
        warning, pointer = "warning: " if self.warning else "", f"{self.pointer}: " if self.pointer else ""
        return f"{self.path}:{self.line}:{self.column}: {warning}{pointer}{self.message}"

    def as_value(self) -> dict[str, Value]:
        """As JSON has it, in a list of violations or in one of warnings."""
        return {name: getattr(self, name) for name in FIELDS}


@dataclass(frozen=True, slots=True)
class FindingPlaces:
    """Where things stand in one file."""

    path: str
    locations: Locations

    def of(self, violations: Iterable[Violation], *, index: int, warning: bool = False) -> Iterator[FoundViolation]:
        """What is said of the document of this index, at its places."""
        for violation in violations:
            at = self.locations.of(index, violation.pointer, at_key=violation.at_key)
            pointer = pointer_text(violation.pointer)
            yield FoundViolation(self.path, at.line, at.column, pointer, violation.message, warning)
