"""A line for a shell that asks for an operation, with the values of its examples.

Belongs here: quoting, and which header says who asks. Does not: running it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

SERVER = "$SERVICE_SERVER"
KEY = '-H "Authorization: Bearer $SERVICE_API_KEY"'
PERSON = '--user "$SERVICE_USER"'  # curl asks for the password
OF_PEOPLE = frozenset({"changeMyPassword", "setNotificationStatus"})
JSON = "application/json"


def curl(
    *, method: str, path: str, operation: Mapping[str, Any], parameters: Sequence[Mapping[str, Any]], public: bool
) -> str:
    """The line; `parameters` are those of the path and the operation, written out."""
    here = re.sub(r"\{(\w+)\}", lambda found: _in_path(found[1], parameters), path)
    asked = [
        f"{one['name']}={_quoted(example(one))}" for one in parameters if one["in"] == "query" and one.get("required")
    ]
    query = f"?{'&'.join(asked)}" if asked else ""
    words = ["curl"]
    if method != "get":
        words += ["-X", method.upper()]
    if not public:
        words.append(PERSON if operation["operationId"] in OF_PEOPLE else KEY)
    words.append(f'"{SERVER}{here}{query}"')
    body = operation.get("requestBody", {}).get("content", {}).get(JSON)
    if body is not None:
        words += ["-H", f'"Content-Type: {JSON}"', "-d", _in_shell(example(body))]
    return " ".join(words)


def example(told: Mapping[str, Any]) -> Any:
    """The first example of a parameter or a body; None where there is none."""
    if "example" in told:
        return told["example"]
    return next((one.get("value") for one in told.get("examples", {}).values()), None)


def _in_path(name: str, parameters: Sequence[Mapping[str, Any]]) -> str:
    return next(_quoted(example(one)) for one in parameters if one["in"] == "path" and one["name"] == name)


def _quoted(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return quote(text, safe=":")


def _in_shell(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
    return "'" + text.replace("'", "'\\''") + "'"
