"""`reconciler plan --collector`: a Collector's own `validate` for the configurations before and after a merge.

The caller chooses the program, but a proposal may come from anybody. So the program runs in an empty folder, with
limits on time, memory and files, and without our environment: `${env:NAME}` must not bring a secret into an error. It
does not get texts that name another provider (`${file:...}`, `${https:...}`) or that we cannot parse: it would read
files of this machine, or use the network. It starts no component.
"""

import contextlib
import re
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from itertools import chain
from os import killpg
from pathlib import Path
from typing import Final

import msgspec

from reconciler.model import documents, positions
from reconciler.model.errors import Refused
from reconciler.model.plan import Plan, PlanEntry, PlanPlace, PlanRendering
from reconciler.model.text import counted
from reconciler.model.values import Value

SECONDS: Final = 10  # for one run
TOGETHER: Final = 300.0  # seconds for all of them
MEMORY: Final = 4 * 1024**3  # bytes of address space; the runtime of Go reserves much more than it uses
FILE: Final = 1024**2  # bytes of each file that it writes, and of its output
OUTPUT: Final = 16 * 1024  # bytes of the output that are read

STAND_IN: Final = "http://localhost:4317"
"""The value of variables without a default, if the Collector refuses empty ones."""

_VARIABLE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(:-[-A-Za-z0-9_.:/ ]*)?\}")
_REFERENCE: Final = re.compile(r"(?<!\$)(?:\$\$)*\$\{")  # `$$` stands for `$`
_ID: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*/[-A-Za-z0-9_.]*[A-Za-z0-9]")
_BEGINNING: Final = re.compile(r"^(?:Error: )?(?:failed to get config: cannot unmarshal the configuration: )?")
_SAYS_NOTHING: Final = re.compile(r"decoding failed due to the following error\(s\):$")
OVERDUE: Final = f"`validate` takes more than {SECONDS} s"


def validated(plan: Plan, program: Path) -> Plan:
    """Return the plan with the program's errors as violations. Raises Refused if the program cannot be run."""
    deadline = time.monotonic() + TOGETHER
    entries = tuple(_entry(entry, program.resolve(), deadline) for entry in plan.entries)
    return msgspec.structs.replace(plan, entries=entries)


def _entry(entry: PlanEntry, program: Path, deadline: float) -> PlanEntry:
    found = []
    skipped: dict[str, list[str]] = {}
    for one in entry.renderings:
        if one.new is None:
            found.append(one)
        elif time.monotonic() > deadline:
            skipped.setdefault("the Collector takes too long", []).append(one.name)
            found.append(one)
        elif why := _unfit(one.new):
            skipped.setdefault(why, []).append(one.name)
            found.append(one)
        else:
            found.append(_rendering(one, program))
    notes = [
        f"{counted(len(names), 'Configuration')} not validated, {names[0]} for instance: {why}."
        for why, names in skipped.items()
    ]
    return msgspec.structs.replace(entry, renderings=tuple(found), notes=(*entry.notes, *notes))


def _unfit(text: str) -> str:
    """Return why the program must not get a text; '' if all its references are variables."""
    try:
        read = documents.read(text.encode(errors="replace"), syntax=documents.Syntax.YAML, limits=positions.FILE_LIMITS)
    except documents.DocumentError:
        return "it cannot be read as YAML here"
    strings = [text, *(found for document in read for found in _strings(document.value))]
    return "it has a reference, `${...}`, that is no variable" if any(map(_reads, strings)) else ""


def _strings(value: Value) -> Iterator[str]:
    """Yield the strings in a value, keys too, in decoded form: the program resolves references after decoding."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from chain.from_iterable(map(_strings, value))
    elif isinstance(value, dict):
        yield from chain(value, *map(_strings, value.values()))


def _reads(text: str) -> bool:
    """Return True if a reference remains when the variables are replaced, by an empty value or another."""
    return any(_REFERENCE.search(_VARIABLE.sub(value, text)) for value in ("", "x"))


def _rendering(one: PlanRendering, program: Path) -> PlanRendering:
    said = _refusal(one.new or "", program)
    if not said:
        return one
    before = "" if one.old is None or _unfit(one.old) else _refusal(one.old, program)
    was_so = {*said.splitlines()} <= {*before.splitlines()}
    found = _placed(said, one.components, one.at)
    told = tuple(f"{at}: the Collector says: {text}" if at else f"the Collector says: {text}" for at, text in found)
    return msgspec.structs.replace(one, violations=told, existing=was_so)


def _placed(
    said: str, components: Mapping[str, PlanPlace], whole: PlanPlace | None
) -> Iterator[tuple[PlanPlace | None, str]]:
    """Divide the Collector's output by the components that its lines name, each with its place."""
    place, told = whole, list[str]()
    for line in filter(None, (_BEGINNING.sub("", line).strip() for line in said.split("\n"))):
        named = next(filter(None, (components.get(found) for found in _ID.findall(line))), None)
        if _SAYS_NOTHING.search(line) and named is None:
            continue
        if named is not None and told:
            yield place, "; ".join(told)
            told = []
        place = named or place
        told.append(_SAYS_NOTHING.sub("", line).rstrip(": "))
    if told:
        yield place, "; ".join(told)


def _refusal(text: str, program: Path) -> str:
    """Return the program's error for a configuration, '' if it has none. Raises Refused."""
    names = {name for name, default in _VARIABLE.findall(text) if not default}
    said = _run(text, program, {})
    return _run(text, program, dict.fromkeys(names, STAND_IN)) if said and names else said


def _run(text: str, program: Path, variables: Mapping[str, str]) -> str:
    """Run `validate` once; '' if it accepts. Raises Refused."""
    with tempfile.TemporaryDirectory(prefix="reconciler-validate-") as folder:
        file, output = Path(folder, "collector.yaml"), Path(folder, "output")
        file.write_text(text, encoding="utf-8", errors="replace")
        with output.open("wb") as written:
            try:
                process = subprocess.Popen(
                    [program, "validate", f"--config=file:{file}"],
                    stdin=subprocess.DEVNULL,
                    stdout=written,
                    stderr=subprocess.STDOUT,
                    cwd=folder,
                    env={**variables, "HOME": folder, "TMPDIR": folder},
                    start_new_session=True,
                )
            except OSError as error:
                raise Refused(f"--collector {program}: {error.strerror}") from None
            try:
                _limit(process.pid)
                code = process.wait(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                return OVERDUE
            finally:
                if process.poll() is None:
                    killpg(process.pid, signal.SIGKILL)
                    process.wait()
        if code == 0:
            return ""
        with output.open("rb") as said:
            told = said.read(OUTPUT).decode("utf-8", "replace")
    return told.strip().replace(folder, "") or f"`validate` ends with {code}"


def _limit(process: int) -> None:
    """Set the limits when it runs: with threads, no Python code may run between fork and exec."""
    for what, most in (
        (resource.RLIMIT_CPU, SECONDS),
        (resource.RLIMIT_AS, MEMORY),
        (resource.RLIMIT_FSIZE, FILE),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(ProcessLookupError):  # it has ended
            _, hard = resource.prlimit(process, what)
            bounded = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.prlimit(process, what, (bounded, bounded))
