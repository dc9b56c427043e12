"""examples/ci/comment.py keeps one comment with the plan at a pull request, and is no danger to anything else there."""

import contextlib
import functools
import importlib.util
import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.cli.conftest import Outcome
from tests.examples import forge
from tests.examples.forge import Answer, Forge

SCRIPT = Path(__file__).parents[2] / "examples" / "ci" / "comment.py"
MARKER = "<!-- reconciler-plan: telemetry -->"
PLAN = f"{MARKER}\nPlan for 3f2a1c9: +1\n\n```\n+ Fleet edge “é”\n```\n"
NEXT = PLAN.replace("3f2a1c9: +1", "77ab01c: no changes")
EVERY = pytest.mark.parametrize("kind", ["github", "gitlab", "gitea"])


@pytest.fixture
def server(kind: str) -> Iterator[Forge]:
    with forge.running(kind) as running:
        yield running


@pytest.fixture
def github() -> Iterator[Forge]:
    with forge.running("github") as running:
        yield running


def comment(server: Forge, folder: Path, plan: str | bytes = PLAN, **environment: str) -> Outcome:
    """Run the script's main function; whatever it says, the token is not in it."""
    out, err = io.StringIO(), io.StringIO()
    variables = {"COMMENT_TOKEN": forge.TOKEN, **server.environment(), **environment}
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = module().main([server.kind, str(written(plan, folder))], variables)
    said = Outcome(code, out.getvalue(), err.getvalue())
    assert forge.TOKEN not in said.out + said.err
    return said


def job(server: Forge, folder: Path, plan: str) -> Outcome:
    """Run the script as a job does."""
    done = subprocess.run(
        [sys.executable, "-I", str(SCRIPT), server.kind, str(written(plan, folder))],
        env={"COMMENT_TOKEN": forge.TOKEN, **server.environment()},
        capture_output=True,
        timeout=60,
        check=False,
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


def written(plan: str | bytes, folder: Path) -> Path:
    """The file with it."""
    file = folder / "plan.md"
    file.write_bytes(plan if isinstance(plan, bytes) else plan.encode())
    return file


@EVERY
def test_the_first_plan_is_a_new_comment(server: Forge, tmp_path: Path) -> None:
    server.add("ana", "Please look at this.")
    assert job(server, tmp_path, PLAN) == (0, "The plan is in a new comment.\n", "")
    assert server.texts() == ["Please look at this.", PLAN]


@EVERY
def test_the_next_plan_replaces_it(server: Forge, tmp_path: Path) -> None:
    comment(server, tmp_path)
    server.add("ana", "Thanks.")
    assert comment(server, tmp_path, NEXT) == (0, "The plan is in the comment that was there.\n", "")
    assert server.texts() == [NEXT, "Thanks."]
    assert server.writes() == ["POST", forge.EDITS[server.kind]]


@EVERY
def test_it_is_found_on_a_late_page(server: Forge, tmp_path: Path) -> None:
    for number in range(230):
        server.add("ana", f"Remark {number}")
    comment(server, tmp_path)
    comment(server, tmp_path, NEXT)
    assert server.texts()[-2:] == ["Remark 229", NEXT]
    pages = [one.page for one in server.requests if one.path == forge.LISTS[server.kind] and one.method == "GET"]
    assert pages == ([1, 1] if server.kind == "gitea" else [1, 2, 3, 1, 2, 3])


@EVERY
def test_a_stranger_with_our_marker_is_left_alone(server: Forge, tmp_path: Path) -> None:
    theirs = [PLAN, f"> {MARKER}\nThis one?", f"Look:\n{MARKER}"]
    server.add("mallory", theirs[0])
    server.add("ana", theirs[1])
    server.add(forge.ME[server.kind], theirs[2])  # another job's, which only quotes the marker
    comment(server, tmp_path)
    comment(server, tmp_path, NEXT)
    assert server.texts() == [*theirs, NEXT]


@EVERY
def test_each_key_has_a_comment_of_its_own(server: Forge, tmp_path: Path) -> None:
    other = PLAN.replace("telemetry", "telemetry-2")
    for plan in (PLAN, other, PLAN, other):
        comment(server, tmp_path, plan)
    assert server.texts() == [PLAN, other]


@EVERY
def test_a_token_that_may_not_write_is_a_warning(server: Forge, tmp_path: Path) -> None:
    server.writable = False
    said = comment(server, tmp_path)
    assert (said.code, said.err, server.texts()) == (0, "", [])
    start = "warning: " if server.kind == "gitlab" else "::warning::"
    assert said.out.startswith(f"{start}the plan is not in a comment: the token may not write one here")
    assert server.writes() == ["POST"]


@EVERY
@pytest.mark.parametrize("token", ["", "canary-token-that-ended"])
def test_no_token_or_one_that_ended_is_a_warning(server: Forge, tmp_path: Path, token: str) -> None:
    said = comment(server, tmp_path, COMMENT_TOKEN=token)
    assert (said.code, said.err, server.writes()) == (0, "", [])
    assert "warning" in said.out
    assert "canary" not in said.out


@EVERY
def test_a_token_that_may_not_ask_whose_it_is_finds_the_comment_by_its_marker(server: Forge, tmp_path: Path) -> None:
    server.add("mallory", PLAN)
    for plan in (PLAN, NEXT):
        server.faults = [Answer(403, {"message": "token does not have the scope"})]
        assert comment(server, tmp_path, plan).code == 0
    assert server.texts() == [PLAN, NEXT]


@EVERY
def test_it_waits_as_long_as_the_forge_asks(server: Forge, tmp_path: Path) -> None:
    server.faults = [Answer(429, "Too many", {"Retry-After": "0"}), Answer(503, "", {"Retry-After": "0"})]
    assert comment(server, tmp_path).code == 0
    assert server.texts() == [PLAN]


def test_a_rate_limit_that_is_a_403_is_waited_for(github: Forge, tmp_path: Path) -> None:
    github.faults = [Answer(403, {"message": "secondary rate limit"}, {"Retry-After": "0"})]
    assert comment(github, tmp_path).code == 0
    assert github.texts() == [PLAN]


@EVERY
def test_a_comment_whose_answer_was_lost_is_not_made_twice(server: Forge, tmp_path: Path) -> None:
    server.losing = 1
    assert comment(server, tmp_path) == (0, "The plan is in the comment that was there.\n", "")
    assert server.texts() == [PLAN]


def test_a_forge_that_stays_broken_is_an_error_after_five_times(github: Forge, tmp_path: Path) -> None:
    github.faults = [Answer(500, f"panic: {forge.TOKEN}", {"Retry-After": "0"})] * 9
    assert comment(github, tmp_path) == (1, "", "error: the forge answered 500, 5 times; run the job again\n")
    assert len(github.requests) == 5


def test_pauses_grow_and_are_bounded() -> None:
    script = module()
    assert [script.pause(attempt, None) for attempt in range(4)] == [1, 2, 4, 8]
    assert script.pause(0, 86_400) == script.SECONDS_BETWEEN
    assert script.pause(9, None) == script.SECONDS_BETWEEN
    assert script.seconds("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert script.seconds("soon") is None


def test_a_forge_that_wants_longer_than_there_is_time_is_an_error(github: Forge) -> None:
    github.faults = [Answer(429, "", {"Retry-After": "86400"})]
    script = module()
    there = script.github(github.environment(), forge.TOKEN)
    with pytest.raises(script.Failed, match=r"^the forge answered 429; run the job again$"):
        script.keep(there, PLAN, until=script.time.monotonic() + 10)


def test_nothing_is_followed_to_where_a_redirect_leads(github: Forge, tmp_path: Path) -> None:
    with forge.running("github") as other:
        github.faults = [Answer(307, "", {"Location": f"{other.url}/api/graphql"})]
        said = comment(github, tmp_path)
        assert (said.code, said.out) == (1, "")
        assert said.err.startswith("error: the forge answered 307; ")
        assert other.requests == []


@pytest.mark.parametrize("answer", ["<html>Sign in</html>", "[" * 100_000, '{"data": null}', '"text"'])
def test_an_answer_that_is_none_is_an_error(github: Forge, tmp_path: Path, answer: str) -> None:
    github.faults = [Answer(200, answer)]
    said = comment(github, tmp_path)
    assert (said.code, said.out, github.writes()) == (1, "", [])
    assert said.err.startswith("error: the forge ")


@pytest.mark.parametrize("status", [400, 409, 422])
def test_a_comment_that_is_refused_is_an_error(github: Forge, tmp_path: Path, status: int) -> None:
    github.faults = [Answer(200, {"data": {"viewer": {"login": "x"}}}), Answer(200, []), Answer(status, {})]
    said = comment(github, tmp_path)
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith(f"error: the forge answered {status}; ")


def test_a_server_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    script = module()
    monkeypatch.setattr(script, "pause", lambda *_: 0)
    there = script.gitea({"GITHUB_API_URL": "http://127.0.0.1:9", "GITHUB_REPOSITORY": "a/b", "PULL_REQUEST": "1"}, "t")
    with pytest.raises(script.Failed, match="does not answer, 5 times"):
        script.keep(there, PLAN, until=script.time.monotonic() + 30)


@pytest.mark.parametrize(
    "plan", ["", "Plan for 3f2a1c9: +1\n", f" {MARKER}\n", "<!-- reconciler-plan: -->\n", b"\xff\n"]
)
def test_what_is_no_plan_is_not_posted(github: Forge, tmp_path: Path, plan: str | bytes) -> None:
    said = comment(github, tmp_path, plan)
    assert (said.code, github.requests) == (1, [])
    assert "is no plan in Markdown; make it with `reconciler plan --output markdown`" in said.err


def test_a_plan_that_is_too_long_is_not_posted(github: Forge, tmp_path: Path) -> None:
    said = comment(github, tmp_path, PLAN + "x" * 5_000_000)
    assert (said.code, github.requests) == (1, [])
    assert "--limit" in said.err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GITHUB_API_URL", "file:///etc"),
        ("GITHUB_API_URL", "https://a@example.com/"),
        ("GITHUB_GRAPHQL_URL", ""),
        ("GITHUB_REPOSITORY", "team/../../user"),
        ("PULL_REQUEST", "7/../8"),
        ("COMMENT_TOKEN", "two\nlines"),
    ],
)
def test_an_environment_that_is_none_is_an_error(github: Forge, tmp_path: Path, name: str, value: str) -> None:
    said = comment(github, tmp_path, **{name: value})
    assert (said.code, said.out, github.requests) == (1, "", [])
    assert said.err.startswith(f"error: {name} is not ")
    assert "two" not in said.err


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    missing = str(tmp_path / "plan.md")
    done = subprocess.run([sys.executable, "-I", str(SCRIPT), "github", missing], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"error: {missing}: No such file or directory\n".encode())


def test_no_line_is_a_command_to_gitlab(tmp_path: Path) -> None:
    """GitLab obeys lines such as `/merge` in whatever is posted."""
    with forge.running("gitlab") as server:
        comment(server, tmp_path, f"{MARKER}\n/merge\n```\n/close\n```\na /b\n/approve")
        assert server.texts() == [f"{MARKER}\n /merge\n```\n /close\n```\na /b\n /approve"]


@functools.cache
def module() -> ModuleType:
    """The script, in this process."""
    spec = importlib.util.spec_from_file_location("comment_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found  # dataclasses look it up
    spec.loader.exec_module(found)
    return found
