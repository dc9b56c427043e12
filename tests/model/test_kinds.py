"""Kinds: the forms in which paths and people write them."""

import pytest

from reconciler.model import names
from reconciler.model.names import KINDS

NAMES = [
    "AgentVersion",
    "Configuration",
    "Connector",
    "ConnectorType",
    "Destination",
    "DestinationType",
    "Extension",
    "ExtensionType",
    "Fleet",
    "Processor",
    "ProcessorType",
    "Source",
    "SourceType",
]


def test_the_kinds_are_these_in_this_order() -> None:
    assert [kind.name for kind in KINDS] == NAMES


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Destination", "Destination"),
        ("destination", "Destination"),
        ("destinations", "Destination"),
        ("DESTINATIONS", "Destination"),
        ("destination-types", "DestinationType"),
        ("destination-type", "DestinationType"),
        ("destinationtypes", "DestinationType"),
        ("DestinationType", "DestinationType"),
        ("Agent-Versions", "AgentVersion"),
        ("agentversion", "AgentVersion"),
        ("fleets", "Fleet"),
        ("notifications", None),
        ("Notification", None),
        ("dest-ination", None),
        ("destination_types", None),
        ("destinationss", None),
        (" destination", None),
        ("", None),
        ("ﬂeet", None),  # a ligature that some case foldings take apart
    ],
)
def test_a_kind_is_found_in_any_case_singular_or_plural_hyphened_or_not(text: str, name: str | None) -> None:
    found = names.find_kind(text)

    assert (found.name if found else None) == name


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_form_of_every_kind_leads_back_to_it(kind: names.Kind) -> None:
    forms = [kind.name, kind.plural, kind.hyphened, kind.plural.replace("-", ""), kind.plural.upper()]

    assert [names.find_kind(form) for form in forms] == [kind] * len(forms)


@pytest.mark.parametrize(("name", "known"), [("Destination", True), ("destination", False), ("Destinations", False)])
def test_documents_take_the_exact_spelling(name: str, known: bool) -> None:
    assert (names.exact_kind(name) is not None) == known
