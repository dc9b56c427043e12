"""Short ways to read in tests: a value, a refusal, an outcome from a process of its own."""

import atexit
import functools
import json
import subprocess
import sys
import threading
from typing import NamedTuple

import pytest

from reconciler.model import documents
from reconciler.model.documents import DocumentError, Syntax
from reconciler.model.positions import FILE_LIMITS, TextLimits
from reconciler.model.values import Value

SECONDS = 60  # for one process, on a machine that is busy


class Refusal(NamedTuple):
    line: int
    column: int
    message: str


def values(text: str | bytes, *, syntax: Syntax = Syntax.YAML, limits: TextLimits = FILE_LIMITS) -> list[Value]:
    data = text.encode() if isinstance(text, str) else text
    return [document.value for document in documents.read(data, syntax=syntax, limits=limits)]


def value(text: str | bytes, *, syntax: Syntax = Syntax.YAML, limits: TextLimits = FILE_LIMITS) -> Value:
    (only,) = values(text, syntax=syntax, limits=limits)
    return only


def refusal(text: str | bytes, *, syntax: Syntax = Syntax.YAML, limits: TextLimits = FILE_LIMITS) -> Refusal:
    with pytest.raises(DocumentError) as caught:
        values(text, syntax=syntax, limits=limits)
    error = caught.value
    assert str(error) == error.message
    assert "\n" not in error.message
    return Refusal(error.line, error.column, error.message)


# Imports what reads once, and forks for each text: an answer, if there is one, and how that process ended.
_READERS = """
import json, os, resource, sys, traceback
from reconciler.model import documents as reading
from reconciler.model.positions import FILE_LIMITS as FILE

def answer(data, syntax):
    try:
        reading.locate(data, syntax=syntax, limits=FILE)
    except reading.DocumentError:
        pass
    try:
        return len(reading.read(data, syntax=syntax, limits=FILE))
    except reading.DocumentError as error:
        return [error.line, error.column, error.message]

while head := sys.stdin.buffer.readline():
    syntax, size = head.split()
    data = sys.stdin.buffer.read(int(size))
    process = os.fork()
    if not process:
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))  # bytes: a bomb must not take the machine with it
        try:
            print(json.dumps(answer(data, reading.Syntax(syntax.decode()))), flush=True)
            os._exit(0)
        except BaseException:
            print(json.dumps(traceback.format_exc()), flush=True)
            os._exit(1)
    print("ended", os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""


@functools.cache
def _readers() -> "subprocess.Popen[bytes]":
    process = subprocess.Popen([sys.executable, "-c", _READERS], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    atexit.register(process.communicate)
    return process


def outcome_of_a_process(data: bytes, *, syntax: Syntax) -> Refusal | int:
    """How reading (and locating) ends in a process of its own: a refusal, or so many documents; a crash fails."""
    readers = _readers()
    assert readers.stdin is not None
    assert readers.stdout is not None
    end = threading.Timer(SECONDS, readers.kill)  # whoever waits for a line that does not come finds no more lines
    end.start()
    try:
        readers.stdin.write(f"{syntax.value} {len(data)}\n".encode() + data)
        readers.stdin.flush()
        lines = [readers.stdout.readline()]
        while lines[-1] and not lines[-1].startswith(b"ended"):
            lines.append(readers.stdout.readline())
    finally:
        end.cancel()
    assert lines[-1] == b"ended 0\n", lines
    answer = json.loads(lines[0])
    return answer if isinstance(answer, int) else Refusal(*answer)
