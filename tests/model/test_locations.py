"""Positions of values and keys, in both syntaxes."""

import pytest

from reconciler.model import documents
from reconciler.model.documents import DocumentError, Syntax
from reconciler.model.positions import FILE_LIMITS
from reconciler.model.values import Pointer

YAML = """\
# a comment
apiVersion: service/v1
metadata: {name: "a", labels: {tier: '2'}}
spec:
  parameters:
    - name: port
      value: !!int 99
    -
      name: é
      value:
      - x
---
---
&base
common: &common
  type: webhook
spec: *common
? long
: - *common
"""


@pytest.mark.parametrize(
    ("index", "pointer", "place", "key"),
    [
        (0, (), (2, 1), (2, 1)),
        (0, ("apiVersion",), (2, 13), (2, 1)),
        (0, ("metadata",), (3, 11), (3, 1)),
        (0, ("metadata", "name"), (3, 18), (3, 12)),
        (0, ("metadata", "labels", "tier"), (3, 38), (3, 32)),
        (0, ("spec",), (5, 3), (4, 1)),
        (0, ("spec", "parameters"), (6, 5), (5, 3)),
        (0, ("spec", "parameters", 0), (6, 7), (6, 7)),
        (0, ("spec", "parameters", 0, "value"), (7, 14), (7, 7)),
        (0, ("spec", "parameters", 1, "name"), (9, 13), (9, 7)),
        (0, ("spec", "parameters", 1, "value"), (11, 7), (10, 7)),
        (0, ("spec", "parameters", 1, "value", 0), (11, 9), (11, 9)),
        # what is not there: the nearest ancestor
        (0, ("spec", "type"), (5, 3), (4, 1)),
        (0, ("spec", "parameters", 7, "value"), (6, 5), (5, 3)),
        (0, ("apiVersion", "x"), (2, 13), (2, 1)),
        (0, ("nothing", "at", "all"), (2, 1), (2, 1)),
        # an alias stands where it is used; what is inside it, where it is written
        (2, (), (14, 1), (14, 1)),
        (2, ("common",), (15, 9), (15, 1)),
        (2, ("common", "type"), (16, 9), (16, 3)),
        (2, ("spec",), (17, 7), (17, 1)),
        (2, ("spec", "type"), (16, 9), (16, 3)),
        (2, ("long",), (19, 3), (18, 3)),
        (2, ("long", 0), (19, 5), (19, 5)),
        (2, ("long", 0, "type"), (16, 9), (16, 3)),
        # no such document
        (9, ("a",), (1, 1), (1, 1)),
    ],
)
def test_yaml_values_and_keys_are_found(
    index: int, pointer: Pointer, place: tuple[int, int], key: tuple[int, int]
) -> None:
    locations = documents.locate(YAML.encode(), syntax=Syntax.YAML, limits=FILE_LIMITS)

    assert locations.of(index, pointer) == place
    assert locations.of(index, pointer, at_key=True) == key


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    ("pointer", "place", "key"),
    [
        ((), (2, 1), (2, 1)),
        (("é", 0), (2, 8), (2, 8)),
        (("é", 1), (3, 2), (3, 2)),
        (("é", 1, "a"), (3, 8), (3, 3)),
        (("é", 1, "a", "b"), (3, 8), (3, 3)),
        (("é", 2), (2, 7), (2, 2)),
        (("c/\n",), (4, 11), (4, 2)),
    ],
)
def test_json_values_and_keys_are_found(
    pointer: Pointer, place: tuple[int, int], key: tuple[int, int], line_end: str
) -> None:
    text = '\ufeff\n{"é": [1,\n {"a": null}],\n "c\\/\\n": "x"}\n'.replace("\n", line_end)
    locations = documents.locate(text.encode(), syntax=Syntax.JSON, limits=FILE_LIMITS)

    assert locations.of(0, pointer) == place
    assert locations.of(0, pointer, at_key=True) == key


@pytest.mark.parametrize("syntax", list(Syntax))
@pytest.mark.parametrize("data", [b"", b" \n"])
def test_an_empty_text_has_no_places_but_its_start(data: bytes, syntax: Syntax) -> None:
    assert documents.locate(data, syntax=syntax, limits=FILE_LIMITS).of(0, ("a",)) == (1, 1)


@pytest.mark.parametrize(
    ("syntax", "data", "place"),
    [
        (Syntax.YAML, b"[1\n", (2, 1)),
        *[(syntax, b"[\xff", (1, 2)) for syntax in Syntax],
        *[(syntax, b"[" * 101, (1, 101)) for syntax in Syntax],
    ],
)
def test_a_text_that_cannot_be_read_cannot_be_located(data: bytes, place: tuple[int, int], syntax: Syntax) -> None:
    with pytest.raises(DocumentError) as caught:
        documents.locate(data, syntax=syntax, limits=FILE_LIMITS)
    assert (caught.value.line, caught.value.column) == place
