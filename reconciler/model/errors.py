"""Exceptions of the product, named by what the caller does next.

    ReconcilerError
    ├── Refused     give up and tell a person: the same input gives the same answer
    └── Transient   try again, with backoff

The raiser decides which it is; one place obeys. Exceptions with more to say (a position, a state) are subclasses in
the module that raises them. Every message is one sentence for a person: it names the resource or file and what to do,
and holds no secret. What it quotes is visible (`text.visible`): messages go to logs, terminals, answers and the store.
"""

from reconciler.model import text


class ReconcilerError(Exception):
    """Any failure that the product foresees."""

    def __init__(self, message: str) -> None:
        self.message = text.visible_lines(message)
        super().__init__(self.message)


class Refused(ReconcilerError):
    """The input, the settings or a permission is wrong; only a person can change that."""


class Transient(ReconcilerError):
    """Something outside failed (disk, network, process); retry with backoff."""
