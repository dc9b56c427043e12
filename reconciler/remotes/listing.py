"""What a repository on this machine lists, asked of `git upload-pack`, which `git ls-remote` would start there: the
program in between is half of what a look costs.

Belongs here: the question and the answer, which are `ls-refs` of gitprotocol-v2(5). Pure. Does not: running git, and
whom else to ask when there is no such answer (`looking`).
"""

from collections.abc import Iterable, Iterator

from reconciler.git.refs import OBJECT_ID, PEELED, Listing

COMMAND = ("upload-pack", "--stateless-rpc", "--")
LENGTH_CHARACTERS = 4  # in hexadecimal digits, of a line with its length
DELIMITER, END = b"0001", b"0000"


def listing_request(names: Iterable[str]) -> bytes:
    """Where refs of these full names are, with what tags and symbolic refs lead to; longer names come, too."""
    asked = b"".join(_line(f"ref-prefix {name}") for name in names)
    return _line("command=ls-refs") + DELIMITER + _line("peel") + _line("symrefs") + asked + END


def parse_listing(output: bytes) -> Listing:
    """What it says. Raises ValueError for anything else."""
    found = Listing({}, {})
    for line in _lines(output):
        object_id, name, *rest = line.split(" ")
        found.refs[name] = object_id
        for attribute in rest:
            what, _, value = attribute.partition(":")
            if what == "peeled":
                found.refs[name + PEELED] = value
            elif what == "symref-target":
                found.symbolic[name] = value
    if not all(map(OBJECT_ID.fullmatch, found.refs.values())):
        raise ValueError("not the id of an object")
    return found


def _line(text: str) -> bytes:
    line = f"{text}\n".encode("utf-8", "surrogateescape")
    return b"%04x" % (len(line) + LENGTH_CHARACTERS) + line


def _lines(output: bytes) -> Iterator[str]:
    """The lines up to the end, which must be there, and nothing behind it."""
    at = 0
    while (length := output[at : at + LENGTH_CHARACTERS]) != END:
        end = at + int(length, base=16)
        if end <= at + LENGTH_CHARACTERS or end > len(output):
            raise ValueError("not a whole line")
        yield output[at + LENGTH_CHARACTERS : end].decode("utf-8", "surrogateescape").removesuffix("\n")
        at = end
    if at + len(END) != len(output):
        raise ValueError("more than an answer")
