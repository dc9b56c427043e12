"""Which variables of the environment a project may refer to. Pure: names in, names out.

A pattern is a name in which `*` stands for any characters and `<PROJECT>` for the project, in upper case with `_` for
`-`. Two underscores behind it keep the patterns of two projects apart, since no project's name has two dashes in a row.
"""

import fnmatch
import re
from collections.abc import Iterable

from reconciler.model import secret_references
from reconciler.model.secret_references import SecretReference, SecretSource

PROJECT = "<PROJECT>"


def allowed_variables(names: Iterable[str], *, patterns: Iterable[str], project: str) -> frozenset[str]:
    """Those of the names that match a pattern and can be written in a reference; never the service's own.

    `patterns` are of the shape that the settings take: letters, digits, `_`, `*` and `<PROJECT>`.
    """
    written = project.upper().replace("-", "_")
    own = [re.compile(fnmatch.translate(pattern.replace(PROJECT, written))).match for pattern in patterns]
    # The patterns first: at each look of each repository nearly all of the environment is left out by them.
    return frozenset(name for name in names if any(match(name) for match in own) and _may_be_named(name))


def _may_be_named(name: str) -> bool:
    is_reserved = secret_references.is_reserved(SecretReference(SecretSource.ENV, name))
    return secret_references.is_env_name(name) and not is_reserved
