"""`plan --config`: which entries are planned, and how those of one project are judged together."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.cli.conftest import Outcome, Program
from tests.cli.test_plan import Planned, configuration, destination
from tests.repositories import Repository

URL = "https://git.example.com/team/t.git"
SETTINGS = f"""
repositories:
  - {{name: shared, url: "{URL}", path: shared}}
  - {{name: apps, url: "{URL}", path: apps}}
"""


WORDS = ("flow-stopped", "unresolved")  # of `--fail-on`


def document(kind: str, name: str, **spec: object) -> str:
    return json.dumps({"apiVersion": "service/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})


def own_type(*values: str) -> str:
    level = {"name": "level", "type": "enum", "validValues": [*values]}
    return document("DestinationType", "own", parameters=[level])


def own(name: str, level: str) -> str:
    return document("Destination", name, type="own", parameters=[{"name": "level", "value": level}])


Files = Mapping[str, str | None]
BASE: Files = {
    "shared/own.yaml": own_type("low", "high"),
    "shared/some.yaml": destination("some"),
    "apps/d.yaml": own("d", "low"),
    "apps/another.yaml": destination("another"),
}


class Work:
    """A checkout whose base and head are these files."""

    def __init__(self, alone: Program) -> None:
        self.alone = alone
        self.repository = Repository.init(alone.folder / "work")
        alone.write("settings.yaml", SETTINGS)

    def write(self, files: Files) -> None:
        for path, content in files.items():
            if content is None:
                self.repository.remove(path)
            else:
                self.repository.write(path, content)
        self.repository.commit()

    def plan(self, head: Files, *arguments: str, base: Files = BASE) -> Outcome:
        self.write(base)
        self.repository.git("switch", "--quiet", "-c", "change")
        self.write(head)
        return self.alone("plan", "work", "--config", "settings.yaml", *arguments)


@pytest.fixture
def work(alone: Program) -> Work:
    return Work(alone)


def statuses(outcome: Outcome) -> dict[str, dict[str, str]]:
    found = Planned(outcome)
    return {entry["name"]: found.statuses(number) for number, entry in enumerate(found.entries)}


@pytest.mark.parametrize(
    ("head", "shared", "apps"),
    [
        pytest.param({"apps/e.yaml": own("e", "middle")}, {}, {"Destination e": "invalid"}, id="a wrong value"),
        pytest.param({"apps/e.yaml": own("e", "high")}, {}, {"Destination e": "created"}, id="a right value"),
        pytest.param(
            {"shared/own.yaml": own_type("middle"), "apps/d.yaml": own("d", "middle")},
            {"DestinationType own": "configured"},
            {"Destination d": "configured"},
            id="both change",
        ),
        pytest.param(
            {"shared/own.yaml": own_type("high")},
            {"DestinationType own": "configured"},
            {"Destination d": "invalid"},
            id="a type that its users do not fit",
        ),
        pytest.param({"shared/own.yaml": None}, {"DestinationType own": "in-use"}, {}, id="a type in use goes"),
        pytest.param(
            {"shared/own.yaml": None, "apps/d.yaml": None},
            {"DestinationType own": "deleted"},
            {"Destination d": "deleted"},
            id="both go",
        ),
        pytest.param(
            {"shared/new.yaml": destination("new"), "apps/web.yaml": configuration("web", "new")},
            {"Destination new": "created"},
            {"Configuration web": "created"},
            id="one refers to the other",
        ),
        pytest.param(
            {"shared/new.yaml": destination("new", port=0), "apps/web.yaml": configuration("web", "new")},
            {"Destination new": "invalid"},
            {"Configuration web": "invalid"},
            id="one refers to what is refused",
        ),
        pytest.param({"apps/d.yaml": None, "shared/d.yaml": own("d", "low")}, {}, {}, id="it moves to another entry"),
        pytest.param(
            {"apps/d.yaml": None, "shared/d.yaml": own("d", "high")},
            {"Destination d": "configured"},
            {},
            id="it moves and changes",
        ),
        pytest.param(
            {"apps/new.yaml": destination("new"), "shared/new.yaml": destination("new", port=1)},
            {"Destination new": "forbidden"},
            {"Destination new": "created"},
            id="both have a new one",
        ),
        pytest.param({"shared/d.yaml": own("d", "low")}, {}, {}, id="another has the same"),
        pytest.param({"shared/d.yaml": own("d", "high")}, {"Destination d": "forbidden"}, {}, id="another has another"),
    ],
)
def test_entries_of_one_project_are_judged_together(
    work: Work, head: Files, shared: dict[str, str], apps: dict[str, str]
) -> None:
    assert statuses(work.plan(head, "-o", "json")) == {"shared": shared, "apps": apps}


def test_a_resource_that_passes_to_another_entry_is_noted(work: Work) -> None:
    told = work.plan({"apps/d.yaml": None, "shared/d.yaml": own("d", "high")}).out
    assert "  note: Destination d passed to the repository shared.\n" in told


def test_one_that_another_entry_has_says_whose_it_is(work: Work) -> None:
    found = Planned(work.plan({"shared/d.yaml": own("d", "high")}, "-o", "json"))
    assert "apps" in found.of("d")["reason"]


def test_what_was_wrong_before_in_another_entry_stays_so_and_fails_nothing(work: Work) -> None:
    base = {**BASE, "apps/bad.yaml": own("bad", "middle")}
    outcome = work.plan({"shared/own.yaml": own_type("low", "high", "higher")}, "--fail-on", "invalid", base=base)
    assert (outcome.code, "1 already in trouble" in outcome.out) == (0, True)


def test_a_deletion_that_is_held_keeps_what_it_refers_to(work: Work) -> None:
    more = {f"apps/{number}.yaml": own(f"d{number}", "low") for number in range(5)}
    gone = dict.fromkeys((*more, "apps/d.yaml"))
    head: Files = {"shared/own.yaml": None, **gone}
    found = Planned(work.plan(head, "--whole", "-o", "json", base={**BASE, **more}))
    assert {one["held"] for one in found.entries[1]["statuses"]} == {True}
    assert found.statuses(0) == {"DestinationType own": "in-use"}


def test_what_is_not_held_after_all_is_kept_by_what_refers_to_it(work: Work) -> None:
    """The other entry has the Configuration first; only once that turns out to be invalid, this one's is created."""
    base = {
        "shared/one.yaml": destination("siem"),
        "apps/bad.yaml": destination("bad", port=0),
        "apps/web.yaml": configuration("web", "siem", "bad"),
    }
    found = Planned(work.plan({"shared/one.yaml": configuration("web", "siem")}, "--whole", "-o", "json", base=base))
    assert found.statuses(0) == {"Configuration web": "created", "Destination siem": "in-use"}
    assert found.statuses(1) == {"Configuration web": "invalid", "Destination bad": "invalid"}


def test_an_entry_that_refuses_all_of_a_commit_leaves_the_others_what_was(work: Work) -> None:
    settings = SETTINGS.replace("path: shared", "path: shared, atomic: true")
    work.alone.write("settings.yaml", settings)
    head = {"shared/own.yaml": own_type("high"), "shared/bad.yaml": destination("bad", port=0)}
    found = Planned(work.plan({**head, "apps/e.yaml": own("e", "low")}, "-o", "json"))
    assert found.entries[0]["refused"] is True
    assert found.statuses(1) == {"Destination e": "created"}


def test_a_flow_is_told_with_the_entry_of_its_configuration(work: Work) -> None:
    spec: dict[str, Any] = {"sources": [{"type": "otlp"}], "destinations": [{"name": "siem"}]}
    base = {"shared/siem.yaml": destination("siem"), "apps/web.yaml": document("Configuration", "web", **spec)}
    disabled = {**json.loads(destination("siem"))}
    disabled["spec"]["disabled"] = True
    found = Planned(work.plan({"shared/siem.yaml": json.dumps(disabled)}, "-o", "json", base=base))
    assert [[flow["change"] for flow in entry.get("flows", [])] for entry in found.entries] == [[], ["stopped"]]
    tripped = {word: work.alone("plan", "work", "--config", "settings.yaml", "--fail-on", word) for word in WORDS}
    assert {word: outcome.code for word, outcome in tripped.items()} == {"flow-stopped": 3, "unresolved": 0}


def test_one_entry_is_shown_and_judged_with_the_others(work: Work) -> None:
    head = {"apps/e.yaml": own("e", "middle"), "shared/new.yaml": destination("new")}
    assert statuses(work.plan(head, "-o", "json", "--repository", "apps")) == {"apps": {"Destination e": "invalid"}}


@pytest.mark.parametrize(
    "remote", ["git@git.example.com:Team/T.git", "ssh://git@git.example.com:2222/team/t", URL.removesuffix(".git")]
)
def test_entries_are_those_of_the_remote_and_another_is_noted(work: Work, remote: str) -> None:
    other = '  - {name: edge, url: "https://git.example.com/team/edge.git"}\n'
    work.alone.write("settings.yaml", SETTINGS + other)
    work.repository.git("remote", "add", "origin", remote)
    outcome = work.plan({"apps/e.yaml": own("e", "high")}, "-o", "json")
    assert outcome.err == "The repository edge has another remote and is left out.\n"
    assert statuses(outcome) == {"shared": {}, "apps": {"Destination e": "created"}}


def test_of_several_remotes_and_none_of_them_here_one_must_be_chosen(work: Work) -> None:
    other = '  - {name: edge, url: "https://git.example.com/team/edge.git"}\n'
    work.alone.write("settings.yaml", SETTINGS + other)
    outcome = work.plan({"apps/e.yaml": own("e", "high")})
    assert (outcome.code, "choose with --repository: shared, apps, edge" in outcome.err) == (1, True)


def test_an_entry_that_follows_a_tag_is_left_out(work: Work) -> None:
    work.alone.write("settings.yaml", SETTINGS + f'  - {{name: released, url: "{URL}", tag: v1}}\n')
    assert work.plan({}).err == "The repository released follows v1 and is left out.\n"
