"""Short ways to read in tests: a value, a refusal, an outcome from a process of its own."""

import json
import subprocess
import sys
from typing import NamedTuple

import pytest

from reconciler.documents import reading
from reconciler.documents.limits import FILE, Limits
from reconciler.documents.reading import DocumentError, Syntax
from reconciler.documents.values import Value

SECONDS = 60  # for one process, on a machine that is busy


class Refusal(NamedTuple):
    line: int
    column: int
    message: str


def values(text: str | bytes, *, syntax: Syntax = Syntax.YAML, limits: Limits = FILE) -> list[Value]:
    data = text.encode() if isinstance(text, str) else text
    return [document.value for document in reading.read(data, syntax=syntax, limits=limits)]


def value(text: str | bytes, *, syntax: Syntax = Syntax.YAML, limits: Limits = FILE) -> Value:
    (only,) = values(text, syntax=syntax, limits=limits)
    return only


def refusal(text: str | bytes, *, syntax: Syntax = Syntax.YAML, limits: Limits = FILE) -> Refusal:
    with pytest.raises(DocumentError) as caught:
        values(text, syntax=syntax, limits=limits)
    error = caught.value
    assert str(error) == error.message
    assert "\n" not in error.message
    return Refusal(error.line, error.column, error.message)


_CHILD = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))  # bytes: a bomb must not take the machine with it
from reconciler.documents import reading
from reconciler.documents.limits import FILE
data, syntax = sys.stdin.buffer.read(), reading.Syntax(sys.argv[1])
try:
    reading.locate(data, syntax=syntax, limits=FILE)
except reading.DocumentError:
    pass
try:
    print(json.dumps(len(reading.read(data, syntax=syntax, limits=FILE))))
except reading.DocumentError as error:
    print(json.dumps([error.line, error.column, error.message]))
"""


def outcome_of_a_process(data: bytes, *, syntax: Syntax) -> Refusal | int:
    """How reading (and locating) ends in a process of its own: a refusal, or so many documents; a crash fails."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, syntax.value], input=data, capture_output=True, timeout=SECONDS, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    answer = json.loads(done.stdout)
    return answer if isinstance(answer, int) else Refusal(*answer)
