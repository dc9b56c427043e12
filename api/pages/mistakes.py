"""What is wrong with a form, as its page shows it: each sentence beside its field, and all of them on top.

Belongs here: the value. Does not: what is wrong.
"""

from typing import NamedTuple


class Mistake(NamedTuple):
    """`field` is the id of an input on the page; empty for the form as a whole."""

    field: str
    sentence: str
