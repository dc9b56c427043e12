"""The program as a whole: start, failures, exit codes, and what it never does."""

import os
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from reconciler.cli import main as main_module
from reconciler.cli.main import ENTRIES
from reconciler.cli.options import OrderedGroup
from reconciler.model import names
from reconciler.version import __version__
from tests.cli.conftest import PROGRAM, Program, Service

QUICK = 0.15  # seconds of CPU time: other processes on the machine take from what passes on a clock
TIMES = 2.5  # of the import of click alone, where the machine is so slow that this is more
PRINTS_MODULES = (
    "import sys; from reconciler.cli import main; main.main(); print(*sorted(sys.modules), file=sys.stderr)"
)


def children() -> float:
    """Seconds of CPU time of all processes that ended."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def test_version_is_quick(started: Program) -> None:
    def ours() -> float:
        before = children()
        assert started("version").out == f"client {__version__}\n"
        return children() - before

    def bare() -> float:
        before = children()
        subprocess.run([sys.executable, "-c", "import click"], check=True)
        return children() - before

    # The best of some: another process on the machine says nothing about this one.
    best, floor = (min(measure() for _ in range(5)) for measure in (ours, bare))
    assert best < max(QUICK, TIMES * floor)


def test_the_version_is_an_option_too(started: Program) -> None:
    assert started("--version") == (0, f"reconciler {__version__}\n", "")


def test_version_loads_no_heavy_library(alone: Program) -> None:
    command = [sys.executable, "-c", PRINTS_MODULES, "version"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True, cwd=alone.folder)
    loaded = {name.partition(".")[0] for name in ran.stderr.split()}
    heavy = {
        "httpx2",
        "pydantic",
        "pygit2",
        "rich",
        "yaml",
        "jsonschema_rs",
        "asyncio",
        "starlette",
    }
    assert loaded & heavy == set()


def test_version_says_the_servers_too(program: Program, service: Service) -> None:
    service.answer("GET /v1/version", "9.8.7")
    assert program("version") == (0, f"client {__version__}\nserver 9.8.7\n", "")


def subcommands() -> list[list[str]]:
    """Every command with a group above it."""
    found = {name: main_module.program.get_command(click.Context(main_module.program), name) for name in ENTRIES}
    return [[name, verb] for name, one in found.items() if isinstance(one, OrderedGroup) for verb in one.commands]


def test_help_is_there_for_every_command_in_whole_sentences() -> None:
    for words in ([], *([name] for name in ENTRIES), *subcommands()):
        shown = CliRunner().invoke(main_module.program, [*words, "--help"])
        assert (shown.exit_code, shown.stderr) == (0, ""), words
        assert shown.output.startswith("Usage: reconciler "), words
        assert "..." not in shown.output.partition("\nCommands:\n")[2], words


def test_an_installation_says_where_its_documentation_is(tmp_path: Path) -> None:
    assert main_module.documentation(tmp_path) is None
    (tmp_path / "share/reconciler/docs").mkdir(parents=True)
    told = f"The documentation, docs/ in messages, is in {tmp_path}/share/reconciler/docs"
    assert main_module.documentation(tmp_path) == told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["statu"], "'statu'. Did you mean 'status'?"),
        (["queue", "reply"], "'reply'. Did you mean 'replay'?"),
        (["qqq"], "'qqq'"),
    ],
)
def test_a_command_that_is_mistyped_is_told_the_nearest(alone: Program, arguments: list[str], told: str) -> None:
    outcome = alone(*arguments)
    assert (outcome.code, outcome.err.splitlines()[-1]) == (2, f"error: no such command {told}")


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["get"], ["history", "a", "b", "c"], ["apply"], ["apply", "-f", "missing"], ["delete"]]
)
def test_wrong_usage_ends_with_2(alone: Program, arguments: list[str]) -> None:
    outcome = alone(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    usage, advice, empty, error = outcome.err.splitlines()
    assert usage.startswith("Usage: reconciler ")
    assert advice.startswith("Try 'reconciler")
    assert empty == ""
    assert error.startswith("error: ")
    assert error[len("error: ")].islower()
    assert not error.endswith(".")


def test_a_server_that_is_not_there_is_one_sentence(alone: Program) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets the port
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert alone("get", "fleets", "--server", url) == (
            1,
            "",
            f"error: cannot reach {url}; is the service running there (`reconciler serve`), and is --server or "
            "SERVICE_SERVER right?\n",
        )


@pytest.mark.parametrize("server", ["127.0.0.1:3001", "ftp://a.example", "http://", "x"])
def test_a_server_that_is_no_url_is_one_sentence(alone: Program, server: str) -> None:
    outcome = alone("get", "fleets", "--server", server)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("error: the server must be a URL such as http://127.0.0.1:3001")


@pytest.mark.parametrize("body", [b"<html>", b"", b"[" * 100_000, b'"text"', b'{"errors": []}'])
@pytest.mark.parametrize("status", [200, 502])
def test_an_answer_of_something_else_is_one_sentence(
    program: Program, service: Service, body: bytes, status: int
) -> None:
    service.answer("GET /v1/resources/Fleet", body, status)
    outcome = program("get", "fleets", "x") if status == 200 else program("get", "fleets")
    if (status, body) != (200, b'{"errors": []}'):
        assert outcome.code == 1
        assert outcome.err.startswith("error: ")
        assert outcome.err.count("\n") == 1


def test_the_key_and_the_project_go_with_every_request(program: Program, service: Service) -> None:
    service.answer("GET /v1/resources/Fleet", {"resources": []})
    program("get", "fleets", "--api-key", "a" * 40, "--project", "web")
    program("get", "fleets", "--api-key", "b" * 40, SERVICE_PROJECT="shop")
    assert [(each.headers["authorization"], each.headers["x-service-project"]) for each in service.requests] == [
        (f"Bearer {'a' * 40}", "web"),
        (f"Bearer {'b' * 40}", "shop"),
    ]


def test_a_local_server_is_not_asked_through_a_proxy(program: Program, service: Service) -> None:
    service.answer("GET /v1/resources/Fleet", {"resources": []})
    assert program("get", "fleets", HTTP_PROXY="http://192.0.2.1:1", http_proxy="http://192.0.2.1:1").code == 0


def test_an_unexpected_failure_is_one_sentence_without_its_text(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(**_: object) -> None:
        raise RuntimeError("hush")

    monkeypatch.setattr(main_module.program, "main", broken)
    assert main_module.main() == 1
    assert capsys.readouterr().err == (
        "error: unexpected RuntimeError; set SERVICE_DEBUG=1 to see the stack trace, and report it\n"
    )


def test_a_trace_is_for_those_who_ask_and_acts_on_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(**_: object) -> None:
        raise RuntimeError("\x1b[2J\nerror: forged\u202e")

    monkeypatch.setattr(main_module.program, "main", broken)
    monkeypatch.setenv("SERVICE_DEBUG", "1")
    assert main_module.main() == 1
    first, *trace, forged, last = capsys.readouterr().err.splitlines()
    assert first == "  Traceback (most recent call last):"
    assert trace[-1] == "  RuntimeError: \\x1b[2J"
    assert forged == "  error: forged\\u202e"
    assert last.startswith("error: unexpected RuntimeError;")


def test_a_pipe_that_closes_is_quiet(program: Program, service: Service) -> None:
    many = [{"kind": "Fleet", "metadata": {"name": f"f{number}" + "x" * 50}} for number in range(5000)]
    service.answer("GET /v1/resources/Fleet", {"resources": many})
    with subprocess.Popen(
        [str(PROGRAM), "get", "fleets", "-o", "name"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=program.variables({}),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert (process.wait(timeout=30), process.stderr.read()) == (141, b"")


def test_a_pipe_that_is_closed_from_the_start_is_quiet(alone: Program) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        ran = subprocess.run(
            [str(PROGRAM), "--help"],
            stdout=write,
            stderr=subprocess.PIPE,
            env=alone.variables({}),
            timeout=30,
            check=False,
        )
    finally:
        os.close(write)
    assert ran.stderr == b""


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_unicode_gets_escapes(program: Program, service: Service, encoding: str) -> None:
    service.answer("GET /v1/resources/Fleet", {"resources": [{"kind": "Fleet", "metadata": {"name": "\u2603"}}]})
    assert program("get", "fleets", "-o", "name", PYTHONIOENCODING=encoding).out == "Fleet/\\u2603\n"


MODULES = "yaml json click pygit2 httpx2 jsonschema_rs pydantic string os re encodings sitecustomize"
PACKAGES = "schemas api reconciler"


def test_nothing_in_the_working_folder_is_imported(started: Program) -> None:
    for name in MODULES.split():
        started.write(f"{name}.py", "raise SystemExit('imported')\n")
    for name in PACKAGES.split():
        started.write(f"{name}/__init__.py", "raise SystemExit('imported')\n")
    started.write("fleets/a.yaml", "apiVersion: service/v1\nkind: Fleet\nmetadata: {name: a}\n")
    for arguments in (
        ("version",),
        ("schema", "Fleet"),
        ("validate", "fleets"),
        ("get", "fleets", "--server", "http://127.0.0.1:1"),
    ):
        outcome = started(*arguments)
        assert "imported" not in outcome.out + outcome.err
        assert outcome.code == (1 if "get" in arguments else 0), outcome


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("reconciler user ", ["list", "create", "change", "delete", "password"]),
        ("reconciler member set --role ", ["admin", "user", "viewer"]),
        ("reconciler key create --scope ", ["resources", "logs", "metrics", "raw"]),
    ],
)
def test_what_belongs_to_groups_is_completed(alone: Program, words: str, completed: list[str]) -> None:
    variables = {"_RECONCILER_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    assert alone(**variables).out.splitlines() == [f"plain,{word}" for word in completed]


@pytest.mark.parametrize("group", ["project", "member", "user", "key"])
def test_a_group_alone_says_what_it_has(alone: Program, group: str) -> None:
    outcome = alone(group)
    assert (outcome.code, outcome.out) == (2, "")
    lines = outcome.err.partition("Commands:\n")[2].splitlines()
    # What does not fit into a line goes on in the next one, further in.
    assert [line.split()[0] for line in lines if line[2:3].strip()] == [
        verb for name, verb in subcommands() if name == group
    ]


def test_the_list_of_commands_says_what_each_says(alone: Program) -> None:
    outcome = alone("--help")
    for name, entry in main_module.ENTRIES.items():
        assert f"  {name} " in outcome.out
        assert entry.summary.endswith(".")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(alone: Program, shell: str) -> None:
    outcome = alone(_RECONCILER_COMPLETE=f"{shell}_source")
    assert (outcome.code, outcome.err) == (0, "")
    assert "_RECONCILER_COMPLETE" in outcome.out


def test_kinds_are_completed(alone: Program) -> None:
    words = {"_RECONCILER_COMPLETE": "bash_complete", "COMP_WORDS": "reconciler get Dest", "COMP_CWORD": "2"}
    assert alone(**words).out == "plain,destinations\nplain,destination-types\n"
    every = alone(**{**words, "COMP_WORDS": "reconciler delete "}).out.splitlines()
    assert every == [f"plain,{kind.plural}" for kind in names.KINDS]


def test_an_interrupted_command_says_nothing(
    program: Program, service: Service, request: pytest.FixtureRequest
) -> None:
    import signal  # noqa: PLC0415

    service.answer("POST /v1/repositories/a/reconcile", {"run": "01H"}, 202)
    service.answer("GET /v1/runs/01H", {"run": {"phase": "running"}})
    # A job in a shell's background is started with interrupts ignored, and would hand that down.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    with subprocess.Popen(
        [str(PROGRAM), "reconcile", "a", "--wait"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=program.variables({}),
    ) as process:
        deadline = time.monotonic() + 20
        while len(service.requests) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err.strip()) == (130, b"", b"")


def test_tests_run_the_installed_program() -> None:
    assert Path(PROGRAM).is_file()
