"""The small parts: syntaxes by path, pointers, limits of bodies."""

import pytest

from reconciler.model import documents, positions, values
from reconciler.model.documents import Syntax
from reconciler.model.positions import TextLimits
from reconciler.model.values import Pointer


@pytest.mark.parametrize(
    ("path", "syntax"),
    [
        ("a.yaml", Syntax.YAML),
        ("teams/b.yml", Syntax.YAML),
        ("c.json", Syntax.JSON),
        ("d.yaml.json", Syntax.JSON),
        ("e.YAML", Syntax.YAML),
        ("e.Yml", Syntax.YAML),
        ("e.JSON", Syntax.JSON),
        ("f.yamlx", None),
        ("yaml", None),
        ("g.json/README", None),
        ("", None),
    ],
)
def test_the_ending_of_a_path_tells_the_syntax(path: str, syntax: Syntax | None) -> None:
    assert documents.syntax_of(path) is syntax


@pytest.mark.parametrize(
    ("pointer", "text"),
    [
        ((), ""),
        (("",), "/"),
        (("spec", "parameters", 0, "value"), "/spec/parameters/0/value"),
        (("a/b", "m~n", "~1"), "/a~1b/m~0n/~01"),
    ],
)
def test_pointers_are_written_as_rfc_6901_says(pointer: Pointer, text: str) -> None:
    assert values.pointer_text(pointer) == text


def test_a_body_holds_what_a_file_holds_wrapped_and_more_nodes_when_it_is_large() -> None:
    assert positions.limits_of_body(1000) == TextLimits(bytes=1000, depth=102, nodes=1_000_000, text=16 * 2**20)
    assert positions.limits_of_body(8 * 2**20) == TextLimits(bytes=8 * 2**20, depth=102, nodes=2**20, text=16 * 2**20)
    assert positions.limits_of_body(32 * 2**20) == TextLimits(bytes=32 * 2**20, depth=102, nodes=2**22, text=32 * 2**20)
