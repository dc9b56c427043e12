"""`plan` leaves nothing out: contents, fields of what is invalid, what is new of it, renames, causes, unread files."""

import json

import pytest

from tests import canaries
from tests.cli.conftest import Program
from tests.cli.test_plan import Planned, configuration, destination, planned
from tests.repositories import Repository

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


@pytest.fixture
def repository(alone: Program) -> Repository:
    """Two resources on main, and a branch to change them on."""
    made = Repository.init(alone.folder / "work")
    made.write("a.yaml", destination("a"))
    made.write("web.yaml", configuration("web", "a"))
    made.commit()
    made.git("switch", "--quiet", "-c", "change")
    return made


def paths(found: Planned, name: str) -> list[tuple[str, str, object]]:
    fields = found.of(name)["fields"]
    return [(one["path"], one["difference"], one.get("new", one.get("old"))) for one in fields]


def rebased(repository: Repository, path: str, text: str) -> None:
    """Have a file on main, and begin the branch there."""
    repository.switch("main")
    repository.write(path, text)
    repository.commit()
    repository.git("switch", "--quiet", "-C", "change")


def test_a_created_resource_shows_all_that_it_holds_but_secrets(alone: Program, repository: Repository) -> None:
    headers = {"Authorization": f"{canaries.MARKER}token"}
    document = json.loads(destination("new", headers=headers))
    document["metadata"]["labels"] = {"team": "shop"}
    document["spec"]["processors"] = [{"type": "custom", "id": "first"}]
    repository.write("new.yaml", json.dumps(document))
    repository.commit()
    assert paths(planned(alone), "new") == [
        ("metadata.labels.team", "added", "shop"),
        ("spec.parameters[hostname].value", "added", "logs.example.com"),
        ("spec.parameters[port].value", "added", 443),
        ("spec.parameters[headers].value.Authorization", "added", "(sensitive)"),
        ("spec.processors[first].type", "added", "custom"),
        ("spec.type", "added", "webhook"),
    ]
    assert "      + spec.parameters[port].value: 443 (line 1)\n" in alone("plan", "work").out


def test_a_deleted_resource_shows_what_it_held(alone: Program, repository: Repository) -> None:
    repository.remove("web.yaml")
    repository.commit()
    found = planned(alone)
    assert paths(found, "web") == [("spec.destinations[a]", "removed", {"name": "a"})] or paths(found, "web") == [
        ("spec.destinations[a].name", "removed", "a")
    ]
    assert "      - spec.destinations[a]" in alone("plan", "work").out


def test_an_invalid_resource_shows_the_fields_that_change(alone: Program, repository: Repository) -> None:
    repository.write("a.yaml", destination("a", port=0, timeout=5))
    repository.commit()
    found = planned(alone)
    assert found.statuses() == {"Destination a": "invalid"}
    assert paths(found, "a") == [
        ("spec.parameters[port].value", "changed", 0),
        ("spec.parameters[timeout]", "added", {"name": "timeout", "value": 5}),
    ]


def test_a_violation_that_was_there_before_is_told_apart(alone: Program, repository: Repository) -> None:
    rebased(repository, "bad.yaml", destination("bad", port=0))
    repository.write("bad.yaml", "# One more line\n" + destination("bad", port=0, timeout=0))
    repository.commit()
    found = planned(alone).of("bad")
    old, new = found["reason"].split("\n")
    assert (found["reasonsBefore"], "existing" in found) == ([old], False)
    told = alone("plan", "work").out
    assert f"      ! {old} (was so before)\n" in told
    assert f"      ! {new}\n" in told
    assert alone("plan", "work", "--fail-on", "invalid").code == 3


def test_a_value_of_an_unknown_type_says_why_it_is_hidden(alone: Program, repository: Repository) -> None:
    def unknown(value: str) -> str:
        spec = {"type": "elsewhere", "parameters": [{"name": "p", "value": value}]}
        return json.dumps({"apiVersion": "service/v1", "kind": "Source", "metadata": {"name": "s"}, "spec": spec})

    rebased(repository, "s.yaml", unknown("x"))
    repository.write("s.yaml", unknown("y"))
    repository.commit()
    [field] = planned(alone).of("s")["fields"]
    assert (field["old"], field["new"]) == ("(hidden: type unknown)", "(hidden: type unknown, changed)")
    assert "~ spec.parameters[p].value: (hidden: type unknown, changed)" in alone("plan", "work").out


def test_a_reference_to_what_is_invalid_says_so(alone: Program, repository: Repository) -> None:
    repository.write("new.yaml", destination("new").replace('"metadata"', '"colour": 1, "metadata"'))
    repository.write("web.yaml", configuration("web", "new"))
    repository.commit()
    reason = planned(alone).of("web")["reason"]
    assert reason.endswith("the Destination new is invalid and not stored yet; mend that first")


def test_another_name_for_an_equal_spec_is_one_line_with_its_referrers(alone: Program, repository: Repository) -> None:
    rebased(repository, "a.yaml", destination("a", headers={"Authorization": f"{canaries.MARKER}token"}))
    repository.remove("a.yaml")
    repository.write("b.yaml", destination("b", headers={"Authorization": f"{canaries.MARKER}token"}))
    repository.write("web.yaml", configuration("web", "b"))
    repository.commit()
    found = planned(alone)
    assert (found.of("a")["renamed"], found.of("b")["renamed"]) == ("b", "a")
    for form, lines in (
        (
            "text",
            "  + Destination b created, was a before, with an equal spec (b.yaml:1)\n"
            "      # affects: Configuration web\n",
        ),
        (
            "markdown",
            "- `Destination b` in `b.yaml:1`: `created, was a before, with an equal spec`\n\n"
            "```diff\n# affects: Configuration web\n```\n",
        ),
    ):
        told = alone("plan", "work", "-o", form).out
        assert lines in told
        assert "Destination a" not in told
    assert alone("plan", "work", "--fail-on", "deleted").code == 3


def test_a_resource_with_another_name_shows_what_else_differs(alone: Program, repository: Repository) -> None:
    renamed = json.loads(destination("b"))
    renamed["metadata"]["labels"] = {"team": "shop"}
    repository.move("a.yaml", "b.yaml")
    repository.write("b.yaml", json.dumps(renamed))
    repository.write("web.yaml", configuration("web", "b"))
    repository.commit()
    found = planned(alone)
    assert paths(found, "b") == [("metadata.labels", "added", {"team": "shop"})]
    assert "fields" not in found.of("a")


def test_violations_of_one_cause_are_told_once(alone: Program, repository: Repository) -> None:
    for number in range(4):
        repository.write(f"more/{number}.yaml", destination(f"d{number}", port=0))
    repository.write("other.yaml", destination("other", timeout=0))
    repository.commit()
    text = alone("plan", "work").out
    cause = "4 resources, of one cause\n  ! /spec/parameters/1/value: is less than 1\n"
    assert f"{cause}  ! Destination d0 invalid (more/0.yaml:1)\n" in text
    assert text.count("is less than 1") == 2
    assert (
        "\n4 resources, of one cause\n\n```diff\n! /spec/parameters/1/value: is less than 1\n```\n"
        in alone("plan", "work", "-o", "markdown").out
    )
    marks = [line for line in alone("plan", "work", "-o", "github").out.splitlines() if line.startswith("::error")]
    assert len(marks) == 2
    assert "%0Athe same holds for Destination d1, Destination d2, Destination d3" in marks[0]


def test_files_that_look_like_resources_and_are_not_read_are_named(alone: Program, repository: Repository) -> None:
    repository.write("empty.yaml", "# nothing\n")
    repository.write("large.yaml", LFS)
    repository.link("link.yaml", "a.yaml")
    repository.link("README", "a.yaml")
    repository.write("drafts/.serviceignore", "*\n")
    repository.write("drafts/b.yaml", destination("b"))
    repository.write("other.yaml", "just: text\n")
    repository.commit()
    assert planned(alone).entries[0]["notes"] == [
        "drafts/.serviceignore says which files count, and changes.",
        "empty.yaml is not read: it is empty.",
        "large.yaml is not read: it is a pointer of Git LFS, which is not followed.",
        "link.yaml is not read: it is a symbolic link, which is not followed.",
    ]
    repository.switch("main")
    repository.git("merge", "--quiet", "--no-edit", "change")
    repository.git("switch", "--quiet", "-C", "change")
    repository.write("a.yaml", destination("a", port=1))
    repository.commit()
    assert "notes" not in planned(alone).entries[0]


def test_contents_of_many_resources_are_bounded_and_the_rest_is_counted(alone: Program, repository: Repository) -> None:
    labels = {f"label-{number}": "x" for number in range(200)}
    fleets = [
        {"apiVersion": "service/v1", "kind": "Fleet", "metadata": {"name": f"f{number}", "labels": labels}}
        for number in range(110)
    ]
    repository.write("fleets.yaml", "\n---\n".join(map(json.dumps, fleets)))
    repository.commit()
    statuses = planned(alone).entries[0]["statuses"]
    shown = [len(one.get("fields", ())) for one in statuses]
    assert sum(shown) == 20_000
    assert sum(shown) + sum(one.get("fieldsLeftOut", 0) for one in statuses) == 110 * 200
