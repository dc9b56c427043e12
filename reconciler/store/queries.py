"""The statements of `queries.sql`, by name. The file is the one place that holds SQL besides the migrations, here and
in `reconciler.operations`.
"""

import functools
import re
from collections.abc import Mapping
from importlib import resources


@functools.cache
def load_queries(package: str = "reconciler.store") -> Mapping[str, str]:
    """Every named statement of a package's file."""
    text = (resources.files(package) / "queries.sql").read_text(encoding="utf-8")
    return parse_queries(text)


def parse_queries(text: str) -> dict[str, str]:
    """Statements by name: each follows a line `-- name: <name>` and ends at its semicolon."""
    statements: dict[str, str] = {}
    for name, statement in re.findall(r"^-- name: (\w+)\n(.*?);$", text, flags=re.MULTILINE | re.DOTALL):
        if name in statements:
            raise ValueError(f"the statement {name} stands twice")
        statements[name] = statement
    return statements
