"""Explaining in pieces tells what the library tells at once, and no more than somebody reads."""

from typing import Any

from hypothesis import given

from reconciler.model import component_types, type_checks, type_definitions, validators
from reconciler.model.component_types import Definition
from reconciler.model.values import Value
from reconciler.model.violations import Violation
from tests.model.types import GIVEN, types


def told(found: tuple[Violation, ...]) -> list[Any]:
    """Each once; what is said of a name that is not known is the caller's. Of a key without a character the library
    tells where its mapping is.
    """
    pointers = {one: tuple(step for step in one.pointer if step != "") for one in found}
    return sorted({(repr(at), one.at_key, "" if one.at_key else one.message) for one, at in pointers.items()})


@given(types(), GIVEN)
def test_the_pieces_tell_what_the_whole_does(definitions: list[Definition], listed: list[Value]) -> None:
    component_type = component_types.compiled("t", definitions)
    values = type_checks.canonical_parameters(listed, component_type)
    rules = component_type.rules
    assert told(type_definitions.explain_violations(rules, values)) == told(validators.broken(rules, dict(values)))


def test_no_more_is_told_than_a_reason_holds() -> None:
    definition = Definition(index=0, name="p", type="enums", valid_values=("a",))
    rules = component_types.compiled("t", [definition]).rules
    found = type_definitions.explain_violations(rules, {"p": ["x"] * 5_000})
    assert [one.pointer for one in found] == [("p", number) for number in range(type_definitions.MOST)]
