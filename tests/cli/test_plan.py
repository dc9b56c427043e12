"""`plan` without a server: which sides it compares, what it says of each resource, and how it ends."""

import json
import shlex
from typing import Any

import pytest

from tests import canaries
from tests.cli.conftest import Outcome, Program
from tests.repositories import Repository

FIELDS = ("path", "difference", "old", "new")


def destination(name: str, *, port: int = 443, **parameters: object) -> str:
    given = {"hostname": "logs.example.com", "port": port, **parameters}
    listed = [{"name": key, "value": value} for key, value in given.items()]
    spec = {"type": "webhook", "parameters": listed}
    return json.dumps({"apiVersion": "service/v1", "kind": "Destination", "metadata": {"name": name}, "spec": spec})


def configuration(name: str, *destinations: str) -> str:
    spec = {"destinations": [{"name": each} for each in destinations]}
    return json.dumps({"apiVersion": "service/v1", "kind": "Configuration", "metadata": {"name": name}, "spec": spec})


@pytest.fixture
def repository(alone: Program) -> Repository:
    """Three resources on main, and a branch to change them on."""
    made = Repository.init(alone.folder / "work")
    made.write("team/a.yaml", destination("a"))
    made.write("team/b.yaml", destination("b"))
    made.write("web.yaml", configuration("web", "a"))
    made.commit()
    made.git("switch", "--quiet", "-c", "change")
    return made


class Planned:
    """A plan as JSON, by resource."""

    def __init__(self, outcome: Outcome) -> None:
        assert outcome.code == 0, outcome.err
        self.document = json.loads(outcome.out)
        self.entries: list[dict[str, Any]] = self.document["entries"]

    def statuses(self, entry: int = 0) -> dict[str, str]:
        return {
            f"{one.get('kind')} {one.get('name')}": one["status"] for one in self.entries[entry].get("statuses", [])
        }

    def of(self, name: str) -> dict[str, Any]:
        [found] = [one for entry in self.entries for one in entry["statuses"] if one.get("name") == name]
        return dict(found)

    def fields(self, name: str) -> list[tuple[Any, ...]]:
        return [tuple(one.get(each) for each in FIELDS) for one in self.of(name).get("fields", [])]


def planned(alone: Program, *arguments: str) -> Planned:
    return Planned(alone("plan", "work", "-o", "json", *arguments))


@pytest.mark.parametrize(("asked", "coloured"), [([], False), (["--color", "always"], True)])
def test_colour_is_for_terminals_and_for_those_who_insist(
    alone: Program, repository: Repository, *, asked: list[str], coloured: bool
) -> None:
    repository.write("team/c.yaml", destination("c"))
    repository.commit()
    assert ("\x1b[" in alone("plan", "work", *asked).out) is coloured


def test_what_changed_is_told_field_by_field_with_its_place_and_what_depends_on_it(
    alone: Program, repository: Repository
) -> None:
    repository.write("team/a.yaml", destination("a", port=8443))
    repository.write("team/c.yaml", destination("c"))
    repository.remove("team/b.yaml")
    head = repository.commit()
    found = planned(alone)
    assert found.statuses() == {"Destination b": "deleted", "Destination a": "configured", "Destination c": "created"}
    assert found.fields("a") == [("spec.parameters[port].value", "changed", 443, 8443)]
    column = destination("a", port=8443).index("8443") + 1
    assert found.of("a")["fields"][0]["at"] == {"path": "team/a.yaml", "line": 1, "column": column}
    assert found.of("a")["dependants"] == [{"kind": "Configuration", "name": "web"}]
    assert found.document["head"] == {"ref": "change", "commit": head}
    assert found.document["base"] == {"ref": "main", "commit": repository.head("main")}
    assert found.entries[0]["unchanged"] == 1


def test_a_file_that_moved_changes_nothing(alone: Program, repository: Repository) -> None:
    repository.move("team/a.yaml", "elsewhere/renamed.yaml")
    repository.commit()
    assert planned(alone).statuses() == {}
    assert "no changes" in alone("plan", "work").out.splitlines()[0]


def test_parameters_in_another_order_are_a_change_of_order(alone: Program, repository: Repository) -> None:
    document = json.loads(destination("a"))
    document["spec"]["parameters"].reverse()
    repository.write("team/a.yaml", json.dumps(document))
    repository.commit()
    assert planned(alone).fields("a") == [("spec.parameters", "reordered", ["hostname", "port"], ["port", "hostname"])]


def test_what_the_base_got_since_is_no_deletion(alone: Program, repository: Repository) -> None:
    repository.write("team/a.yaml", destination("a", port=8443))
    repository.commit()
    repository.switch("main")
    repository.write("team/new.yaml", destination("new"))
    repository.commit()
    repository.switch("change")
    found = planned(alone)
    assert found.statuses() == {"Destination a": "configured"}
    assert (found.document["behind"], found.document["ahead"]) == (1, 1)
    assert "main moved" in alone("plan", "work").out


def test_changes_of_both_sides_to_one_file_are_merged_in_memory(alone: Program, repository: Repository) -> None:
    repository.switch("main")
    lines = [destination(name) for name in ("x", "y", "z")]
    repository.write("many.yaml", "\n---\n".join(lines) + "\n")
    repository.commit()
    repository.git("switch", "--quiet", "-C", "change")
    repository.write("many.yaml", "\n---\n".join([destination("x", port=1), *lines[1:]]) + "\n")
    repository.commit()
    repository.switch("main")
    repository.write("many.yaml", "\n---\n".join([*lines[:2], destination("z", port=3)]) + "\n")
    repository.commit()
    repository.switch("change")
    before = sorted(path for path in (alone.folder / "work" / ".git").rglob("*"))
    assert planned(alone).statuses() == {"Destination x": "configured"}
    assert sorted(path for path in (alone.folder / "work" / ".git").rglob("*")) == before


def test_places_are_those_in_the_head_when_the_base_changed_the_file_too(
    alone: Program, repository: Repository
) -> None:
    lines = [destination(name) for name in ("w", "x", "y", "z")]
    repository.switch("main")
    repository.write("many.yaml", "\n---\n".join(lines) + "\n")
    repository.commit()
    repository.git("switch", "--quiet", "-C", "change")
    repository.write("many.yaml", "\n---\n".join([*lines[:3], destination("z", port=0)]) + "\n")
    repository.commit()
    repository.switch("main")
    repository.write("many.yaml", "# One line\n# and another\n" + "\n---\n".join(lines) + "\n")
    repository.commit()
    repository.switch("change")
    found = planned(alone).of("z")
    assert (found["status"], found["at"]["line"]) == ("invalid", 7)
    assert found["reason"].startswith("many.yaml:7:")


def test_a_conflict_names_the_files(alone: Program, repository: Repository) -> None:
    for branch, port in (("change", 1), ("main", 2)):
        repository.switch(branch)
        repository.write("team/a.yaml", destination("a", port=port))
        repository.commit()
    repository.switch("change")
    outcome = alone("plan", "work")
    assert outcome.code == 1
    assert "do not merge: team/a.yaml:1 conflicts; merge the base into the head and resolve it" in outcome.err
    assert outcome.out == ""
    assert alone("plan", "work", "-o", "json").out == ""


def test_without_a_plan_a_comment_and_a_log_of_a_job_say_so(alone: Program, repository: Repository) -> None:
    for branch, port in (("change", 1), ("main", 2)):
        repository.switch(branch)
        repository.write("team/a.yaml", destination("a", port=port))
        repository.commit()
    repository.switch("change")
    short = repository.head()[:7]
    why = "the two do not merge; merge the base into the head and resolve what conflicts"
    comment = alone("plan", "work", "-o", "markdown", "--marker", "prod")
    assert (comment.code, "error: the two do not merge: team/a.yaml" in comment.err) == (1, True)
    assert comment.out == f"<!-- reconciler-plan: prod -->\n### No plan for `{short}`: `{why}`\n\n- `team/a.yaml:1`\n"
    log = alone("plan", "work", "-o", "github", "--detailed-exitcode")
    assert (log.code, log.out) == (1, f"::error title=No plan for {short}::{why}%0Ateam/a.yaml:1\n")
    page = alone("plan", "work", "-o", "html")
    assert (page.code, f"<h1>No plan for {short}: {why}</h1>" in page.out) == (1, True)
    assert "<p>team/a.yaml:1</p>" in page.out
    gone = alone("plan", "work", "-o", "markdown", "--head", "`gone`")
    assert gone.code == 1
    assert gone.out.splitlines()[1].startswith("### No plan for `` `gone` ``: ``there is no commit '`gone`'; ")


def test_on_the_base_itself_it_says_how_to_plan_what_is_not_committed(alone: Program, repository: Repository) -> None:
    repository.switch("main")
    repository.write("team/a.yaml", destination("a", port=1))
    how = "so there is nothing to merge; with --worktree it plans what is not committed\n"
    assert how in alone("plan", "work").out
    assert "nothing to merge" not in alone("plan", "work", "--worktree").out


def test_head_is_shown_as_its_branch_and_on_none_as_its_commit(alone: Program, repository: Repository) -> None:
    repository.write("team/a.yaml", destination("a", port=1))
    head = repository.commit()
    into = f"into main ({repository.head('main')[:7]})"
    assert f"  merging change ({head[:7]}) {into}" in alone("plan", "work", "--head", "HEAD").out
    repository.git("checkout", "--quiet", "--detach")
    assert f"  merging {head[:7]} {into}" in alone("plan", "work").out


def test_without_common_history_it_says_how_to_get_it(alone: Program, repository: Repository) -> None:
    for number in range(3):
        repository.write("team/a.yaml", destination("a", port=1000 + number))
        repository.commit()
    repository.switch("main")
    repository.write("team/b.yaml", destination("b", port=1))
    repository.commit()
    url = (alone.folder / "work").as_uri()
    repository.git("clone", "--quiet", "--depth=1", "--no-single-branch", url, str(alone.folder / "shallow"))
    outcome = alone("plan", "shallow", "--base", "origin/main", "--head", "origin/change")
    assert outcome.code == 1
    assert "git fetch --unshallow" in outcome.err


def test_what_is_not_committed_is_planned_when_asked_for(alone: Program, repository: Repository) -> None:
    repository.write(".gitignore", "ignored.yaml\n")
    repository.write("team/a.yaml", destination("a", port=1))
    repository.write("new.yaml", destination("new"))
    repository.write("ignored.yaml", destination("ignored"))
    assert planned(alone).statuses() == {}
    found = planned(alone, "--worktree")
    assert found.statuses() == {"Destination a": "configured", "Destination new": "created"}
    assert found.document["head"]["worktree"] is True


def test_what_nobody_has_is_a_warning_and_with_strict_a_refusal(alone: Program, repository: Repository) -> None:
    repository.write("api.yaml", configuration("api", "a", "elsewhere"))
    repository.commit()
    found = planned(alone)
    assert found.statuses() == {"Configuration api": "created"}
    assert found.of("api")["unresolved"][0]["name"] == "elsewhere"
    assert planned(alone, "--strict").statuses() == {"Configuration api": "invalid"}
    assert alone("plan", "work", "--fail-on", "unresolved").code == 3


def test_what_is_deleted_and_still_referred_to_is_in_use(alone: Program, repository: Repository) -> None:
    repository.remove("team/a.yaml")
    repository.commit()
    found = planned(alone)
    assert found.statuses() == {"Destination a": "in-use"}
    assert "Configuration web" in found.of("a")["reason"]


def test_trouble_that_was_there_before_is_told_apart_and_fails_nothing(alone: Program, repository: Repository) -> None:
    repository.switch("main")
    repository.write("bad.yaml", destination("bad", port=0))
    repository.write("uses-bad.yaml", configuration("uses-bad", "bad", "a"))
    repository.commit()
    repository.git("switch", "--quiet", "-C", "change")
    repository.write("team/a.yaml", destination("a", port=8443))
    repository.commit()
    found = planned(alone)
    assert found.of("a")["status"] == "configured"
    assert {
        name for name in ("bad", "uses-bad") if any(one.get("name") == name for one in found.entries[0]["statuses"])
    }
    assert all(one["existing"] for one in found.entries[0]["statuses"] if one["status"] == "invalid")
    assert alone("plan", "work", "--fail-on", "invalid").code == 0


def test_a_note_is_a_warning_that_a_pipeline_may_fail_on(alone: Program, repository: Repository) -> None:
    spec = {"type": "otlp", "parameters": [{"name": "compresion", "value": "gzip"}]}
    document = {"apiVersion": "service/v1", "kind": "Destination", "metadata": {"name": "c"}, "spec": spec}
    repository.write("team/c.yaml", json.dumps(document))
    repository.commit()
    [note] = planned(alone).of("c")["notes"]
    assert note.startswith("team/c.yaml:1:")
    assert alone("plan", "work", "--fail-on", "warning").code == 3
    assert alone("plan", "work", "--fail-on", "invalid").code == 0


def test_what_stood_in_the_base_before_a_rule_came_is_noted_and_not_refused(
    alone: Program, repository: Repository
) -> None:
    def type_of(**metadata: object) -> str:
        spec = {"parameters": [{"name": "a", "type": "strng"}]}
        document = {"apiVersion": "service/v1", "kind": "SourceType", "metadata": {"name": "old", **metadata}}
        return json.dumps({**document, "spec": spec})

    repository.switch("main")
    repository.write("old.yaml", type_of())
    source = {"apiVersion": "service/v1", "kind": "Source", "metadata": {"name": "s"}, "spec": {"type": "old"}}
    repository.write("s.yaml", json.dumps(source))
    repository.commit()
    repository.git("switch", "--quiet", "-C", "change")
    repository.write("s.yaml", json.dumps({**source, "metadata": {"name": "s", "description": "another"}}))
    repository.commit()
    assert planned(alone).statuses() == {"Source s": "configured"}
    repository.write("old.yaml", type_of(description="another"))
    repository.commit()
    found = planned(alone)
    assert found.of("old")["status"] == "invalid"
    assert "did you mean `string`?" in found.of("old")["reason"]


def test_a_bad_value_is_refused_with_its_place(alone: Program, repository: Repository) -> None:
    repository.write("team/a.yaml", destination("a", port=0))
    repository.commit()
    found = planned(alone)
    assert found.statuses() == {"Destination a": "invalid"}
    assert found.of("a")["reason"].startswith("team/a.yaml:1:")
    assert alone("plan", "work", "--fail-on", "created, invalid").code == 3


def test_how_it_ends_says_whether_anything_would_change(alone: Program, repository: Repository) -> None:
    assert alone("plan", "work").code == 0
    assert alone("plan", "work", "--detailed-exitcode").code == 0
    repository.write("team/a.yaml", destination("a", port=1))
    repository.commit()
    assert alone("plan", "work").code == 0
    assert alone("plan", "work", "--detailed-exitcode").code == 2
    assert alone("plan", "work", "--detailed-exitcode", "--fail-on", "configured").code == 3
    assert alone("plan", "work", "--detailed-exitcode", "--base", "no-such").code == 1
    assert alone("plan", "work", "--no-such-option").code == 2
    wrong = alone("plan", "work", "--detailed-exitcode", "--no-such-option")
    assert (wrong.code, "no such option" in wrong.err.lower()) == (1, True)
    assert alone("plan", "work", "--detailed-exitcode", "--fail-on", "nonsense").code == 1


@pytest.mark.usefixtures("repository")
@pytest.mark.parametrize(
    "arguments",
    [
        ("--fail-on", "nonsense"),
        ("--worktree", "--head", "main"),
        ("--repository", "a"),
        ("--path", "team", "--config", "settings.yaml"),
        ("--link", "https://forge.example"),
        ("--link", "javascript:{path}"),
        ("--server", "http://127.0.0.1:1", "--worktree"),
        ("--server", "http://127.0.0.1:1"),
    ],
)
def test_options_that_do_not_go_together_are_refused(alone: Program, arguments: tuple[str, ...]) -> None:
    assert alone("plan", "work", *arguments).code == 2


def test_a_folder_alone_is_planned(alone: Program, repository: Repository) -> None:
    for environment in ("staging", "production"):
        repository.write(f"{environment}/x.yaml", destination("x"))
    repository.commit()
    repository.branch("base-of-both")
    repository.write("staging/x.yaml", destination("x", port=1))
    repository.commit()
    for folder, statuses in (("production", {}), ("./staging/", {"Destination x": "configured"})):
        found = planned(alone, "--base", "base-of-both", "--path", folder)
        assert ([entry["name"] for entry in found.entries], found.statuses(0)) == ([folder.strip("./")], statuses)


def test_a_folder_that_neither_side_has_is_no_plan_without_changes(alone: Program, repository: Repository) -> None:
    repository.write("staging/x.yaml", destination("x"))
    repository.commit()
    outcome = alone("plan", "work", "--path", "stagin")
    told = "error: neither side has the folder stagin of stagin; correct --path or the settings\n"
    assert (outcome.code, outcome.err) == (1, told)


SETTINGS = """
repositories:
  - {name: staging, url: "https://git.example.com/t.git", path: team, project: staging, branch: main}
  - {name: production, url: "https://git.example.com/t.git", path: team, project: production, branch: production}
  - {name: everything, url: "https://git.example.com/t.git", project: all, allow: {kinds: [Configuration]}}
"""


def test_the_repositories_of_a_settings_file_are_planned_as_they_are_set(
    alone: Program, repository: Repository
) -> None:
    alone.write("settings.yaml", SETTINGS)
    repository.write("team/a.yaml", destination("a", port=1))
    repository.write("web.yaml", configuration("web"))
    repository.commit()
    outcome = alone("plan", "work", "-o", "json", "--config", "settings.yaml")
    assert outcome.err == "The repository production follows production and is left out.\n"
    found = Planned(outcome)
    assert [(entry["name"], entry["project"]) for entry in found.entries] == [
        ("staging", "staging"),
        ("everything", "all"),
    ]
    assert found.statuses(0) == {"Destination a": "configured"}
    # There the destinations are not allowed, so what names one was never stored.
    assert found.statuses(1) == {"Destination a": "forbidden", "Configuration web": "created"}
    assert alone("plan", "work", "--config", "settings.yaml", "--repository", "none").code == 1


def test_a_repository_of_a_settings_file_with_a_folder_that_neither_side_has_is_no_plan(
    alone: Program, repository: Repository
) -> None:
    alone.write("settings.yaml", SETTINGS.replace("path: team", "path: teem"))
    repository.write("web.yaml", configuration("web"))
    repository.commit()
    outcome = alone("plan", "work", "--config", "settings.yaml", "--repository", "staging")
    told = "error: neither side has the folder teem of staging; correct --path or the settings\n"
    assert (outcome.code, outcome.out, outcome.err) == (1, "", told)


def test_places_lead_to_the_forge_by_the_remote_by_the_settings_or_by_an_option(
    alone: Program, repository: Repository
) -> None:
    repository.remove("team/b.yaml")
    repository.commit()
    base = repository.head("main")
    assert "link" not in planned(alone).entries[0]
    repository.git("remote", "add", "origin", "https://token:x@github.com/shop/t.git")
    assert planned(alone).entries[0]["link"] == "https://github.com/shop/t/blob/{commit}/{path}#L{line}"
    told = alone("plan", "work", "-o", "markdown").out
    assert f"[`team/b.yaml:1`](https://github.com/shop/t/blob/{base}/team/b.yaml#L1)" in told
    told = alone("plan", "work", "-o", "markdown", "--link", "https://forge.example/{commit}/{path}").out
    assert f"[`team/b.yaml:1`](https://forge.example/{base}/team/b.yaml)" in told
    entry = '{name: a, url: "https://github.com/shop/t", webURL: "https://gitea.example/shop/own"}'
    alone.write("settings.yaml", f"repositories:\n  - {entry}\n")
    found = planned(alone, "--config", "settings.yaml").entries[0]
    assert found["link"] == "https://gitea.example/shop/own/src/commit/{commit}/{path}#L{line}"
    alone.write("settings.yaml", f"repositories:\n  - {entry.replace('https://gitea.example/shop/own', 'none')}\n")
    assert "link" not in planned(alone, "--config", "settings.yaml").entries[0]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--base", "main", "--head", "HEAD"),
        ("--config", "settings.yaml"),
        ("--config", "settings.yaml", "--repository", "staging", "--whole", "--strict"),
        ("--path", "team", "--worktree"),
    ],
)
def test_the_command_at_the_end_makes_the_same_plan_again(
    alone: Program, repository: Repository, arguments: tuple[str, ...]
) -> None:
    alone.write("settings.yaml", SETTINGS)
    repository.write("team/a.yaml", destination("a", port=1))
    repository.commit()
    lines = alone("plan", "work", *arguments).out.splitlines()
    assert lines[-2] == "To make this plan again:"
    program, *words = shlex.split(lines[-1])
    assert program == "reconciler"
    again = alone(*words).out.splitlines()
    assert [line for line in again if "merging" not in line] == [line for line in lines if "merging" not in line]
    # The branch moves, and the plan is that of the commits.
    repository.write("team/a.yaml", destination("a", port=2))
    repository.commit()
    if "--worktree" not in arguments:
        assert alone(*words).out.splitlines() == again
    assert alone("plan", "work", *arguments, "-o", "markdown").out.endswith("work\n```\n")


def test_with_whole_it_says_that_deletions_would_be_held(alone: Program, repository: Repository) -> None:
    repository.switch("main")
    for number in range(6):
        repository.write(f"more/{number}.yaml", destination(f"more-{number}"))
    repository.commit()
    repository.git("switch", "--quiet", "-C", "change")
    repository.remove("more")
    repository.commit()
    assert len(planned(alone).statuses()) == 6
    found = planned(alone, "--whole")
    gone = [(f"more-{number}", "deleted", True) for number in range(6)]
    assert [(one["name"], one["status"], one["held"]) for one in found.entries[0]["statuses"]] == gone
    assert "6" in found.entries[0]["notes"][0]
    assert (found.entries[0]["held"], found.entries[0]["unchanged"]) == (6, 3)
    outcome = alone("plan", "work", "--whole", "--detailed-exitcode")
    assert (outcome.code, outcome.out.splitlines()[0].partition(": ")[2]) == (2, "-6, 6 held, 3 unchanged")
    assert "  - Destination more-5 held (more/5.yaml:1)\n" in outcome.out
    assert (
        "- `Destination more-5` in `more/5.yaml:1`: `held`\n" in alone("plan", "work", "--whole", "-o", "markdown").out
    )
    assert alone("plan", "work", "--whole", "--fail-on", "deleted").code == 3
    assert alone("plan", "work", "--whole", "--fail-on", "held").code == 3
    marks = alone("plan", "work", "--whole", "-o", "github").out
    assert "::warning title=Reconciler plan::Nothing is deleted: 6 of 9" in marks
    assert (
        "::warning file=more/5.yaml,line=1,col=1,title=Destination more-5 held::Merging would delete it; it " in marks
    )


def test_no_secret_is_in_any_skin(alone: Program, repository: Repository) -> None:
    repository.switch("main")
    repository.write("s.yaml", destination("s", headers={"Authorization": f"{canaries.MARKER}old", "X": "same"}))
    repository.commit()
    repository.git("switch", "--quiet", "-C", "change")
    repository.write("s.yaml", destination("s", headers={"Authorization": f"{canaries.MARKER}new", "X": "same"}))
    repository.write("t.yaml", destination("t", headers={"Authorization": f"{canaries.MARKER}other"}))
    repository.commit()
    [field] = planned(alone).of("s")["fields"]
    assert (field["path"], field["new"], field["sensitive"]) == (
        "spec.parameters[headers].value.Authorization",
        "(sensitive, changed)",
        True,
    )
    for form in ("text", "markdown", "json", "github", "html"):
        outcome = alone("plan", "work", "-o", form)  # the program's fixture looks for canaries
        assert outcome.code == 0


def test_a_checkout_that_holds_our_own_modules_is_data(alone: Program, repository: Repository) -> None:
    trap = "raise SystemExit('the checkout was run')\n"
    for path in (
        "yaml.py",
        "api/__init__.py",
        "schemas/__init__.py",
        "reconciler/__init__.py",
        "click.py",
        "sitecustomize.py",
    ):
        repository.write(path, trap)
    repository.write("team/a.yaml", destination("a", port=1))
    repository.commit()
    started = Program(alone.folder / "work", dict(alone.environment), is_started=True)
    outcome = started("plan", "-o", "json", ".")
    assert Planned(outcome).statuses() == {"Destination a": "configured"}


def test_a_value_of_any_size_is_cut(alone: Program, repository: Repository) -> None:
    raw = {"raw": "x: |\n" + "  x: 1\n" * 130_000}
    document = {"apiVersion": "service/v1", "kind": "Configuration", "metadata": {"name": "web"}, "spec": raw}
    repository.write("web.yaml", json.dumps(document))
    repository.commit()
    [field] = [one for one in planned(alone).of("web")["fields"] if one["path"] == "spec.raw"]
    assert field["new"]["bytes"] == len(json.dumps(raw["raw"]))
    assert len(json.dumps(field)) < 10_000
    for form in ("text", "markdown", "github"):
        assert len(alone("plan", "work", "-o", form).out.encode()) < 65_536


def test_who_owns_the_files_is_told_as_the_base_says(alone: Program, repository: Repository) -> None:
    repository.switch("main")
    repository.write(".github/CODEOWNERS", "/team/ @acme/telemetry\n")
    repository.commit()
    repository.git("switch", "--quiet", "-C", "change")
    repository.write(".github/CODEOWNERS", "* @nobody\n")
    repository.write("team/a.yaml", destination("a", port=1))
    repository.commit()
    assert planned(alone).of("a")["owners"] == ["@acme/telemetry"]


def test_no_server_is_asked_because_of_a_variable(alone: Program, repository: Repository) -> None:
    repository.write("team/a.yaml", destination("a", port=1))
    repository.commit()
    outcome = alone("plan", "work", "-o", "json", SERVICE_SERVER="http://127.0.0.1:1")
    assert Planned(outcome).statuses() == {"Destination a": "configured"}
