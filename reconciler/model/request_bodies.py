"""The body of an apply or a delete: its resources, or why it is refused."""

from collections.abc import Sequence

from reconciler.model import documents, positions, values
from reconciler.model.error_codes import ErrorCode
from reconciler.model.values import Value, pointer_text

NODE_BYTES = 2  # of the shortest text with one more value: a shorter body need not be counted


class RequestRefused(Exception):
    """The request is answered with errors, one line for each problem, and nothing is stored."""

    def __init__(self, status: int, errors: Sequence[str], *codes: ErrorCode) -> None:
        super().__init__(errors)
        self.status = status
        self.body: dict[str, object] = {"errors": errors, "codes": codes or [_CODES[status]] * len(errors)}


_CODES = {400: ErrorCode.INVALID_REQUEST, 412: ErrorCode.VERSION_MISMATCH, 413: ErrorCode.TOO_LARGE}


def read_resources(body: bytes, *, max_resources: int, bare_array: bool) -> list[Value]:
    """Return the resources of a body, each a JSON object. A delete takes a bare array, and what an apply takes, too.
    Raises RequestRefused.
    """
    try:
        found = documents.read(body, syntax=documents.Syntax.JSON, limits=positions.limits_of_body(len(body)))
    except documents.DocumentError as error:
        raise RequestRefused(400, (f"body:{error.line}:{error.column}: {error.message}",)) from error
    value = found[0].value if found else None
    if bare_array and isinstance(value, list):
        prefix: tuple[str, ...] = ()
        items, problems = value, list[str]()
    else:
        prefix, (items, problems) = ("resources",), _wrapped(value, bare_array=bare_array)
    if len(items) > max_resources:
        raise RequestRefused(413, (f"The body holds {len(items):,} resources, over the limit of {max_resources:,}.",))
    wrong = [index for index, item in enumerate(items) if not isinstance(item, dict)]
    problems += [f"{pointer_text((*prefix, index))}: must be an object" for index in wrong]
    if problems:
        raise RequestRefused(400, tuple(problems))
    if len(body) > NODE_BYTES * positions.FILE_LIMITS.nodes:
        _check_sizes(items, prefix)
    return items


def _check_sizes(items: Sequence[Value], prefix: tuple[str, ...]) -> None:
    """No resource is larger than a file in Git may be: much of what is done with one takes memory in proportion."""
    large = [
        index for index, item in enumerate(items) if values.has_more_nodes_than(item, nodes=positions.FILE_LIMITS.nodes)
    ]
    told = f"holds more than {positions.FILE_LIMITS.nodes:,} values and keys; make several resources of it"
    if large:
        raise RequestRefused(413, tuple(f"{pointer_text((*prefix, index))}: {told}" for index in large))


def _wrapped(value: Value, *, bare_array: bool) -> tuple[list[Value], list[str]]:
    """The array in `{"resources": [...]}`, and what is wrong around it."""
    if not isinstance(value, dict):
        shape = "an array of resources" if bare_array else 'an object such as {"resources": [...]}'
        raise RequestRefused(400, (f"The body must be {shape}.",))
    problems = [
        f"{pointer_text((key,))}: unknown key; only `resources` is allowed" for key in value if key != "resources"
    ]
    items = value.get("resources")
    if "resources" not in value:
        problems.append("/resources: is required")
    elif not isinstance(items, list):
        problems.append("/resources: must be an array")
    return items if isinstance(items, list) else [], problems
