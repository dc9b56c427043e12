"""Which files a plan without a server reads: enough of them, and few."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from reconciler.git import merging
from reconciler.model.desired import DocumentRules
from reconciler.model.names import Key
from reconciler.review import static
from reconciler.review.static import RelevantFiles
from tests.worlds import API_VERSIONS, HMAC_KEY, Mirror

RULES = DocumentRules(api_versions=API_VERSIONS, hmac_key=HMAC_KEY)


def document(kind: str, name: str, **spec: object) -> str:
    return json.dumps({"apiVersion": "service/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})


def destination(name: str, kind: str = "webhook") -> str:
    return document("Destination", name, type=kind)


def configuration(name: str, *names: str) -> str:
    return document("Configuration", name, destinations=[{"name": each} for each in names])


OTHERS = {f"other/{number}.yaml": destination(f"other-{number}") for number in range(20)}


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    return Mirror(tmp_path / "mirror.git")


def relevant(mirror: Mirror, before: Mapping[str, str], after: Mapping[str, str]) -> RelevantFiles:
    base = mirror.commit({**OTHERS, **before})
    head = mirror.propose({**OTHERS, **after}, onto=base)
    with merging.open_mirrors(mirror.path, None) as repository:
        merged = merging.merge(repository, base, head)
        changes = merged.merged.changes(merged.base.tree(""), merged.merged.tree(""), "")
        return static.find_relevant(merged.base, merged.merged, changes, merged.merged.files(""), rules=RULES)


def test_what_nothing_hangs_together_with_is_not_read(mirror: Mirror) -> None:
    files = {"a.yaml": destination("a")}
    found = relevant(mirror, files, {"a.yaml": destination("b")})
    assert found.only == frozenset({"a.yaml"})


def test_a_file_that_is_no_document_changes_or_goes(mirror: Mirror) -> None:
    files = {"README.md": "a", "Makefile": "b", "a.yaml": destination("a")}
    found = relevant(mirror, files, {"README.md": "c", "a.yaml": destination("a")})
    assert not found.held
    assert found.only == frozenset({"README.md", "Makefile"})


def test_whoever_refers_to_it_is_read_and_so_on_upwards(mirror: Mirror) -> None:
    files = {
        "type.yaml": document("DestinationType", "own", parameters=[]),
        "uses-type.yaml": destination("d", "own"),
        "uses-that.yaml": configuration("c", "d"),
    }
    changed = {**files, "type.yaml": document("DestinationType", "own", parameters=[{"name": "p", "type": "int"}])}
    assert relevant(mirror, files, changed).only == frozenset(files)


def test_what_it_refers_to_is_read_and_so_on_downwards_but_not_who_else_does(mirror: Mirror) -> None:
    files = {
        "type.yaml": document("DestinationType", "own", parameters=[]),
        "used.yaml": destination("d", "own"),
        "beside.yaml": configuration("beside", "d"),
        "changed.yaml": configuration("c"),
    }
    found = relevant(mirror, files, {**files, "changed.yaml": configuration("c", "d")})
    assert found.only == frozenset({"changed.yaml", "used.yaml", "type.yaml"})


def test_another_document_of_the_same_kind_and_name_is_read(mirror: Mirror) -> None:
    files = {"a.yaml": destination("a"), "z.yaml": destination("z")}
    assert relevant(mirror, files, {**files, "new.yaml": destination("z")}).only == frozenset({"new.yaml", "z.yaml"})


def test_another_document_with_the_same_id_is_read(mirror: Mirror) -> None:
    resource_id = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

    def with_id(name: str) -> str:
        found = json.loads(destination(name))
        found["metadata"]["id"] = resource_id
        return json.dumps(found)

    files = {"a.yaml": with_id("a")}
    assert relevant(mirror, files, {**files, "b.yaml": with_id("b")}).only == frozenset({"a.yaml", "b.yaml"})


@pytest.mark.parametrize(
    "written",
    [
        '"\\u0064estination-9"',
        '"\\x64estination-9"',
        '"destina\\\n    tion-9"',
        '"destina\\\r\n    tion-9"',
        '"destina\\\r    tion-9"',  # a line break of YAML by itself
        "&anchor destination-9",
        "'destination-9'",
        "!!str destination-9",
        "|-\n      destination-9",
        ">-\n      destination-9",
    ],
)
def test_a_name_is_found_however_yaml_writes_it(mirror: Mirror, written: str) -> None:
    text = f"apiVersion: service/v1\nkind: Destination\nmetadata:\n  name: {written}\nspec:\n  type: webhook\n"
    files = {"hidden.yaml": text, "c.yaml": configuration("c")}
    found = relevant(mirror, files, {**files, "c.yaml": configuration("c", "destination-9")})
    assert found.only == frozenset({"hidden.yaml", "c.yaml"})
    assert not found.missing


def test_a_name_that_json_writes_with_escapes_is_found(mirror: Mirror) -> None:
    text = destination("destination-9").replace('"destination-9"', '"\\u0064estination-9"')
    files = {"hidden.json": text, "c.yaml": configuration("c")}
    found = relevant(mirror, files, {**files, "c.yaml": configuration("c", "destination-9")})
    assert found.only == frozenset({"hidden.json", "c.yaml"})


def test_what_no_file_has_is_missing(mirror: Mirror) -> None:
    found = relevant(mirror, {}, {"c.yaml": configuration("c", "nowhere")})
    assert found.missing == {Key("Destination", "nowhere")}


def test_many_names_are_found_as_few_are(mirror: Mirror) -> None:
    names = [f"other-{number}" for number in range(20)] + [f"more-{number}" for number in range(static.FEW)]
    found = relevant(mirror, {}, {"c.yaml": configuration("c", *names)})
    assert found.only == frozenset({"c.yaml", *OTHERS})
    assert len(found.missing) == static.FEW


def test_a_name_that_is_only_part_of_another_word_is_none(mirror: Mirror) -> None:
    files = {"a.yaml": destination("a"), "long.yaml": destination("a-long.name_a")}
    assert relevant(mirror, files, {**files, "a.yaml": document("Destination", "a", type="nowhere")}).only == frozenset(
        {"a.yaml"}
    )
