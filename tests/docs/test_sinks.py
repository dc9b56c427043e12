"""Text for people leaves by two doors that escape it: `cli/output.py` for commands, `ops/logging.py` for log lines."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRINTING = {"echo", "secho", "echo_via_pager", "confirm", "prompt", "pause", "progressbar", "clear", "edit", "style"}
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}
HANDLING = {
    "addHandler",
    "basicConfig",
    "captureWarnings",
    "config",
    "dictConfig",
    "FileHandler",
    "fileConfig",
    "Formatter",
    "handlers",
    "lastResort",
    "StreamHandler",
}
TERMINAL = "reconciler/cli/output.py"
LOG = "reconciler/ops/logging.py"


def modules(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """The product's modules in the folders, each with its path from the root."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def uses(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Return what a module does beside its door: the line, the door, the name."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="print" as name)):
                yield node.lineno, TERMINAL, name
            case ast.Attribute(value=ast.Name(id="sys"), attr=name) if name in STREAMS:
                yield node.lineno, TERMINAL, f"sys.{name}"
            case ast.Attribute(value=ast.Name(id="click"), attr=name) if name in PRINTING:
                yield node.lineno, TERMINAL, f"click.{name}"
            case ast.Attribute(value=ast.Name(id="traceback"), attr=name) if name.startswith("print_"):
                yield node.lineno, TERMINAL, f"traceback.{name}"
            case ast.Attribute(value=ast.Name(id="logging"), attr=name) if name in HANDLING:
                yield node.lineno, LOG, f"logging.{name}"
            case ast.Call(func=ast.Attribute(attr="addHandler" as name)):
                yield node.lineno, LOG, name
            case ast.ImportFrom(module="sys" | "click" | "logging" | "traceback" as module, names=names):
                found = STREAMS | PRINTING | HANDLING | {"print_exc", "print_exception"}
                yield from (
                    (node.lineno, LOG if module == "logging" else TERMINAL, f"{module}.{each.name}")
                    for each in names
                    if each.name in found
                )
            case _:
                pass


def test_text_leaves_by_the_doors_alone() -> None:
    found = [
        f"{path}:{line}: {name}, which {door} alone may use"
        for path, tree in modules("reconciler", "api", "schemas")
        for line, door, name in uses(tree)
        if path != door and not (path == LOG and name == "sys.stderr")  # where log lines go, unless told otherwise
    ]
    assert found == []


def test_loggers_are_named_after_their_modules() -> None:
    """So that each is below `reconciler` or `api`, whose records the one handler gets."""
    found = [
        f"{path}:{node.lineno}"
        for path, tree in modules("reconciler", "api", "schemas")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "getLogger"
        if path not in {LOG, "reconciler/cli/demo.py"} and ast.unparse(node) != "logging.getLogger(__name__)"
    ]
    assert found == []


def test_text_is_made_visible_by_the_one_function() -> None:
    """`isprintable` may refuse input; to escape by it, or by a codec, would be a second rule."""
    found = [
        f"{path}:{node.lineno}"
        for path, tree in modules("reconciler", "api")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value == "unicode_escape" and path != "reconciler/model/text.py"
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("print('a')", "print"),
        ("import sys\nsys.stdout.write('a')", "sys.stdout"),
        ("import sys\nprint('a', file=sys.stderr)", "sys.stderr"),
        ("import click\nclick.echo('a')", "click.echo"),
        ("from click import secho", "click.secho"),
        ("from sys import stdout", "sys.stdout"),
        ("import logging\nlogging.basicConfig()", "logging.basicConfig"),
        ("log.addHandler(x)", "addHandler"),
        ("import traceback\ntraceback.print_exc()", "traceback.print_exc"),
    ],
)
def test_what_goes_by_another_way_is_found(source: str, name: str) -> None:
    assert name in [found for _, _, found in uses(ast.parse(source))]
