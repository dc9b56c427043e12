"""Query parameters: each known one at most once and with a value of its type. Which ones exist, each handler says.

A write refuses parameters that it does not know (`?dryrun=true` must not apply); a read ignores them.
"""

from urllib.parse import parse_qsl

from api import errors

MOST = 100  # parameters in one query
BOOLEANS = {"true": True, "1": True, "false": False, "0": False}


class Query:
    """The parameters of one request. Problems are gathered, so that one answer names all of them: see `check`."""

    def __init__(self, text: bytes, *, known: frozenset[str], strict: bool) -> None:
        self.problems: list[str] = []
        self.values: dict[str, str] = {}
        if text:
            self._fill(_pairs(text), known=known, strict=strict)

    def _fill(self, pairs: list[tuple[str, str]], *, known: frozenset[str], strict: bool) -> None:
        unknown: set[str] = set()
        twice: set[str] = set()
        for name, value in pairs:
            if name not in known:
                unknown.add(name)
            elif name in self.values:
                twice.add(name)
            else:
                self.values[name] = value
        self.problems += [f"The query parameter `{name}` is given more than once." for name in sorted(twice)]
        if strict:
            self.problems += [_unknown(name, known) for name in sorted(unknown)]

    def boolean(self, name: str) -> bool:
        """A boolean; false when it is not given."""
        value = self.values.get(name, "false")
        if value not in BOOLEANS:
            self.problems.append(f"The query parameter `{name}` is not one of `true`, `false`, `1` and `0`.")
        return BOOLEANS.get(value, False)

    def choice(self, name: str, value: str) -> bool:
        """Whether a parameter that takes one value has it; false when it is not given."""
        if self.values.get(name, value) != value:
            self.problems.append(f"The query parameter `{name}` takes `{value}` alone.")
        return self.values.get(name) == value

    def integer(self, name: str, *, lowest: int, highest: int, default: int) -> int:
        """An integer in decimal digits."""
        value = self.values.get(name)
        if value is None:
            return default
        # isdigit alone would let Arabic digits in, and int alone `+1`, ` 1` and `1_0`.
        if value.isascii() and value.isdigit() and len(value) <= len(str(highest)) and lowest <= int(value) <= highest:
            return int(value)
        self.problems.append(f"The query parameter `{name}` is not an integer from {lowest} to {highest}.")
        return default

    def text(self, name: str) -> str | None:
        """Text, or None."""
        return self.values.get(name)

    def check(self) -> None:
        """Raises `BadRequest` when any parameter had a problem."""
        if self.problems:
            raise errors.BadRequest(*self.problems)


def none_known(text: bytes) -> None:
    """A write that takes no parameters. Raises `BadRequest`."""
    if text:
        Query(text, known=frozenset(), strict=True).check()


def _pairs(text: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text.decode("ascii"), keep_blank_values=True, max_num_fields=MOST, errors="strict")
    except ValueError:
        raise errors.BadRequest(f"The query is not at most {MOST} parameters in percent-encoded UTF-8.") from None


def _unknown(name: str, known: frozenset[str]) -> str:
    if not known:
        return f"The query parameter `{name}` is not known here: there are none."
    names = ", ".join(f"`{one}`" for one in sorted(known))
    return f"The query parameter `{name}` is not known here: there {'is' if len(known) == 1 else 'are'} {names}."
