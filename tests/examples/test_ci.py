"""The files in examples/ci and .pre-commit-hooks.yaml are what their services take, and call what there is."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.cli.main import program
from reconciler.git import file_selection
from tests.cli import forking
from tests.examples import forge
from tests.examples.forge import Forge
from tests.repositories import Repository

ROOT = Path(__file__).parents[2]
CI = ROOT / "examples" / "ci"
FILES = {"github": "github/plan.yml", "gitlab": "gitlab/plan.gitlab-ci.yml", "gitea": "gitea/plan.yml"}
HOOKS = ROOT / ".pre-commit-hooks.yaml"
PROGRAM = Path(sys.executable).with_name("reconciler")
SECRETS = {"COMMENT_TOKEN", "RECONCILER_COMMENT_TOKEN"}
INSTALL = 'pip install "git+https://git.example.org/reconciler.git@v0.1.0"'
EVERY = pytest.mark.parametrize("kind", FILES)
WORKFLOWS = pytest.mark.parametrize("kind", ["github", "gitea"])

SETTINGS = """
repositories:
  - {name: staging, url: "https://git.example.org/team/telemetry.git", include: [/fleets/, /staging/], project: staging}
  - {name: production, url: "https://git.example.org/team/telemetry.git", path: fleets, project: production}
  - {name: other, url: "https://git.example.org/team/other.git"}
"""
FLEET = "apiVersion: service/v1\nkind: Fleet\nmetadata: {name: NAME}\n"
INVALID = "apiVersion: service/v1\nkind: Fleet\nmetadata: {name: NAME}\nspec: []\n"


def read(path: Path) -> Any:
    """YAML whose scalars are all text, so that `on` stays a word."""
    return yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)  # noqa: S506 - makes text alone


def steps(kind: str) -> list[dict[str, Any]]:
    """The steps of a workflow's one job."""
    (job,) = read(CI / FILES[kind])["jobs"].values()
    return list(job["steps"])


def scripts(kind: str) -> list[str]:
    """Return what a job runs, in order."""
    if kind == "gitlab":
        (job,) = read(CI / FILES[kind]).values()
        return [*job["before_script"], *job["script"]]
    return [step["run"] for step in steps(kind) if "run" in step]


def plans(kind: str) -> list[list[str]]:
    """The arguments of each `reconciler plan`."""
    lines = [line for script in scripts(kind) for line in script.splitlines()]
    calls = [re.sub(r"\s*(>|\|\|).*", "", line) for line in lines if line.startswith("reconciler plan")]
    return [shlex.split(call)[2:] for call in calls]


def parsed(arguments: list[str]) -> dict[str, Any]:
    """Return what the command would make of arguments; a usage error for what it does not take."""
    command = program.get_command(click.Context(program), "plan")
    assert command is not None, "there is no `reconciler plan`"
    return command.make_context("reconciler plan", arguments).params


@EVERY
def test_the_options_of_the_plan_exist(kind: str) -> None:
    calls = plans(kind)
    assert len(calls) == len([script for script in scripts(kind) if "reconciler plan" in script])
    for call in calls:
        parsed(call)


@EVERY
def test_only_an_invalid_resource_fails_the_job(kind: str) -> None:
    *before, last = plans(kind)
    assert last[last.index("--fail-on") + 1 :] == ["invalid"]
    assert all("--fail-on" not in call and "--detailed-exitcode" not in call for call in before)


@EVERY
def test_a_collector_may_validate_the_plan(kind: str, tmp_path: Path) -> None:
    """With the lines that are commented out, and the option that they name."""
    written = (CI / FILES[kind]).read_text(encoding="utf-8")
    (option,) = re.findall(r"the option `(--collector [^`]+)`", written)
    begin = written.index("- name: Collector") if kind != "gitlab" else written.index("# - curl") + 2
    lines = re.sub(r"(?m)^ *# ", "", written[begin:].partition("\n\n" if kind != "gitlab" else "\n    # In a")[0])
    (shown,) = yaml.safe_load(lines) if kind != "gitlab" else [{"run": "\n".join(yaml.safe_load(lines))}]
    program = tmp_path / "otelcol"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    path = option.split()[1].strip('"')
    assert path in shown["run"]
    subprocess.run(["bash", "-n"], input=shown["run"].encode(), check=True)
    for call in plans(kind):
        assert parsed([*call, "--collector", str(program)])["collector"] == program


@EVERY
def test_every_script_is_one(kind: str) -> None:
    for script in scripts(kind):
        subprocess.run(["bash", "-n"], input=script.encode(), check=True)


@EVERY
def test_the_program_comes_from_an_address_and_not_by_a_name_that_is_taken_at_the_registry(kind: str) -> None:
    installs = [line for script in scripts(kind) for line in script.splitlines() if "pip " in line]
    assert installs == [INSTALL]


@EVERY
def test_nothing_of_the_pull_request_is_written_into_a_script(kind: str) -> None:
    assert [script for script in scripts(kind) if "${{" in script] == []


@WORKFLOWS
def test_a_workflow_has_the_least_rights(kind: str) -> None:
    workflow = read(CI / FILES[kind])
    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write"}
    assert set(workflow["on"]) == {"pull_request"}
    assert all("permissions" not in job for job in workflow["jobs"].values())
    used = [step["uses"].partition("@")[0] for step in steps(kind) if "uses" in step]
    assert used == ["actions/setup-python", "actions/checkout"]


@WORKFLOWS
def test_the_token_is_for_one_step_alone(kind: str) -> None:
    (job,) = read(CI / FILES[kind])["jobs"].values()
    assert not SECRETS & set(job["env"])
    assert [step["name"] for step in steps(kind) if "token" in str(step.get("env"))] == ["Comment"]
    assert [step["with"]["persist-credentials"] for step in steps(kind) if "checkout" in step.get("uses", "")] == [
        "false"
    ]


@WORKFLOWS
def test_the_program_is_installed_before_there_is_anything_of_the_pull_request(kind: str) -> None:
    order = [step["uses"].partition("@")[0] if "uses" in step else step["run"] for step in steps(kind)]
    assert order.index(INSTALL) < order.index("actions/checkout")


@EVERY
def test_it_is_told_where_the_files_go(kind: str) -> None:
    """The comment at the top says where to copy the script, and that is where the job looks for it."""
    head = re.sub(r"\n# ?", " ", (CI / FILES[kind]).read_text(encoding="utf-8").partition("\nname:")[0])
    (place,) = {found for script in scripts(kind) for found in re.findall(r"python3 -I (\S+)", script)}
    assert f"examples/ci/comment.py to {place}" in head


@pytest.fixture
def server(kind: str) -> Iterator[Forge]:
    with forge.running(kind) as running:
        yield running


@pytest.fixture
def checkout(tmp_path: Path) -> Repository:
    """A clone at a pull request that adds a Fleet, with the script where the jobs look for it."""
    source = Repository.init(tmp_path / "source")
    source.write("fleets/edge.yaml", FLEET.replace("NAME", "edge"))
    source.write(".reconciler/config.yaml", SETTINGS)
    source.commit()
    source.git("switch", "--quiet", "--create", "change")
    source.write("fleets/core.yaml", FLEET.replace("NAME", "core"))
    for folder in (".github", ".gitlab", ".gitea"):
        source.write(f"{folder}/comment.py", (CI / "comment.py").read_bytes())
    source.commit()
    clone = Repository(tmp_path / "clone")
    source.git("clone", "--quiet", "--branch=change", str(source.path), str(clone.path))
    clone.git("remote", "add", "forge", "git@git.example.org:Team/Telemetry.git")
    return clone


@EVERY
def test_a_job_keeps_one_comment_and_fails_by_what_is_invalid(server: Forge, checkout: Repository) -> None:
    assert job(server, checkout) == 0
    [first] = server.texts()
    assert first.startswith("<!-- reconciler-plan: ")
    assert f"{server.url}/" in first  # a link to a line of the change
    again = "reconciler plan --config .reconciler/config.yaml --repository staging --repository production --base "
    assert f"\n{again}{checkout.head('origin/main')} --head {checkout.head()}\n" in first
    assert "core" in first
    assert [name for name in ("staging", "production", "other") if f"`{name}`" in first] == ["staging", "production"]
    checkout.write("fleets/wrong.yaml", INVALID.replace("NAME", "wrong"))
    checkout.commit()
    assert job(server, checkout) == 3
    [second] = server.texts()
    assert "2 invalid" in second.split("\n")[1]


@EVERY
def test_a_job_without_a_plan_says_so_in_the_comment_of_the_plan_before_and_fails(
    server: Forge, checkout: Repository, capfd: pytest.CaptureFixture[str]
) -> None:
    assert job(server, checkout) == 0
    checkout.write("fleets/edge.yaml", FLEET.replace("NAME", "edge-of-head"))
    checkout.commit()
    checkout.git("switch", "--quiet", "--detach", "origin/main")
    checkout.write("fleets/edge.yaml", FLEET.replace("NAME", "edge-of-base"))
    checkout.git("push", "--quiet", "--force", "origin", f"{checkout.commit()}:refs/heads/main")
    checkout.git("fetch", "--quiet", "origin")
    checkout.git("switch", "--quiet", "change")
    assert job(server, checkout) == 1
    [told] = server.texts()
    assert told.startswith(f"<!-- reconciler-plan: default -->\n### No plan for `{checkout.head()[:7]}`: ")
    assert "- `fleets/edge.yaml:3`" in told
    said = capfd.readouterr()
    assert "fleets/edge.yaml:3 conflicts" in said.err
    assert ("::error title=No plan" in said.out) is (server.kind == "github")


@pytest.mark.parametrize("kind", ["github"])
def test_a_job_of_a_fork_shows_the_plan_in_its_log(
    server: Forge, checkout: Repository, capfd: pytest.CaptureFixture[str]
) -> None:
    server.writable = False
    assert job(server, checkout) == 0
    said = capfd.readouterr().out
    assert "the token may not write one here" in said
    assert "Fleet core" in said
    assert server.texts() == []


def job(server: Forge, checkout: Repository) -> int:
    """Run a job's scripts one after the other as a runner does, without what sets up the machine; the exit code."""
    temporary = checkout.path.parent / "temporary"
    temporary.mkdir(exist_ok=True)
    forking.stand_in(PROGRAM, temporary)
    given = {
        "PATH": f"{temporary}:{PROGRAM.parent}:{os.environ['PATH']}",
        "HOME": str(temporary),
        "RUNNER_TEMP": str(temporary),
        "GITHUB_STEP_SUMMARY": str(temporary / "summary.md"),
        **server.environment(),
        **_variables(server, checkout),
    }
    if server.kind == "gitlab":  # all in one shell
        return _bash("\n".join(_without_setup(scripts("gitlab"))), {**given, "COMMENT_TOKEN": ""}, checkout)
    (whole,) = read(CI / FILES[server.kind])["jobs"].values()
    for step in whole["steps"]:
        if "run" in step and _without_setup([step["run"]]):
            variables = {name: _value(value, given) for name, value in {**whole["env"], **step.get("env", {})}.items()}
            if code := _bash(step["run"], {**given, **variables}, checkout):
                return code
    return 0


def _without_setup(found: list[str]) -> list[str]:
    return [script for script in found if script != INSTALL]


def _bash(script: str, environment: Mapping[str, str], checkout: Repository) -> int:
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script]
    return subprocess.run(command, env=dict(environment), cwd=checkout.path, check=False, timeout=60).returncode


def _variables(server: Forge, checkout: Repository) -> dict[str, str]:
    """Return what GitLab sets for a job, and what the job sets from that."""
    if server.kind != "gitlab":
        return {}
    given = {
        "CI_PROJECT_ID": str(forge.PROJECT),
        "CI_PROJECT_URL": f"{server.url}/{forge.REPOSITORY}",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": "",
        "CI_COMMIT_SHA": checkout.head(),
        "RECONCILER_COMMENT_TOKEN": forge.TOKEN,
    }
    (written,) = read(CI / FILES["gitlab"]).values()
    own = {
        name: value.replace("$CI_PROJECT_URL", given["CI_PROJECT_URL"]) for name, value in written["variables"].items()
    }
    return {**given, **own}


def _value(written: str, given: Mapping[str, str]) -> str:
    """Return what a runner makes of a value in `env`."""
    known = {
        "github.base_ref": "main",
        "github.token": forge.TOKEN,
        "github.event.number": given["PULL_REQUEST"],
        "github.server_url": given["GITHUB_API_URL"].partition("/api")[0],
        "github.repository": given["GITHUB_REPOSITORY"],
    }
    return re.sub(r"\$\{\{ ([\w.]+) \}\}", lambda found: known[found[1]], written)


def hook(identity: str) -> dict[str, Any]:
    (found,) = [one for one in read(HOOKS) if one["id"] == identity]
    return dict(found)


def test_every_hook_has_what_pre_commit_needs() -> None:
    hooks = read(HOOKS)
    assert [one["id"] for one in hooks] == ["reconciler-validate", "reconciler-plan"]
    for one in hooks:
        assert {"id", "name", "entry", "language"} <= set(one)
        assert one["language"] == "python"
        assert one["entry"].split()[0] in _scripts_of_the_project()


def _scripts_of_the_project() -> set[str]:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[project.scripts]\n")[2]
    return {line.split(" = ")[0] for line in text.partition("\n[")[0].splitlines() if line}


PARTS = st.sampled_from(["teams", ".github", "a.yaml", ".hidden", "x", "yaml"])
NAMES = st.sampled_from(["a.yaml", "b.yml", "c.json", ".pre-commit-config.yaml", "README.md", "yaml", "d.yaml.txt"])


@given(st.lists(PARTS, max_size=3), NAMES)
def test_the_validating_hook_takes_the_files_that_the_service_reads(folders: list[str], name: str) -> None:
    path = "/".join([*folders, name])
    chosen = hook("reconciler-validate")
    taken = re.search(chosen["files"], path) is not None and re.search(chosen["exclude"], path) is None
    assert taken == file_selection.is_considered(path, file_selection.IgnoreRules({}))


def test_the_validating_hook_finds_what_is_wrong(checkout: Repository) -> None:
    entry = hook("reconciler-validate")["entry"]
    assert _entry(entry, checkout, "fleets/edge.yaml", "fleets/core.yaml") == 0
    checkout.write("fleets/wrong.yaml", INVALID.replace("NAME", "wrong"))
    assert _entry(entry, checkout, "fleets/edge.yaml", "fleets/wrong.yaml") == 3


def test_the_planning_hook_fails_by_what_is_not_committed(checkout: Repository) -> None:
    planning = hook("reconciler-plan")
    assert (planning["always_run"], planning["pass_filenames"]) == ("true", "false")
    assert _entry(planning["entry"], checkout) == 0
    checkout.write("fleets/wrong.yaml", INVALID.replace("NAME", "wrong"))
    assert _entry(planning["entry"], checkout) == 3


def _entry(entry: str, checkout: Repository, *paths: str) -> int:
    command, *arguments = shlex.split(entry)
    program, environment = PROGRAM.with_name(command), forking.without_start(os.environ)
    given = [*arguments, *paths]
    return forking.run(program, given, stdin=b"", folder=checkout.path, environment=environment, seconds=60).returncode
