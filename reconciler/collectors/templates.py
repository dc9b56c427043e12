"""The Go templates of types, evaluated within limits. The only module that imports gotpl.

Whoever may store a type writes templates, so a template is hostile until it has ended. Four limits hold it:

- A sandbox: no attributes, no methods, no functions but those named here.
- A budget of iterations, calls and output, which gotpl counts.
- A budget of text that functions make. gotpl does not see a text that doubles in a variable.
- A time limit for the rest, such as a loop over thousands of assignments, which counts as nothing.
"""

import ctypes
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import gotpl

from reconciler.model.values import Value

MOST_TEMPLATE: Final = 200_000  # characters of one template; parsing takes some microseconds for each
MOST_OUTPUT: Final = 500_000  # characters of one template's output, and of all that its functions make
SECONDS: Final = 1.0  # for one template, by the clock

_BUDGET: Final = gotpl.ExecutionBudget(
    max_output_chars=MOST_OUTPUT, max_iterations=20_000, max_template_depth=50, max_function_calls=20_000
)
_MISSING: Final = re.compile(r"missing key or attribute '(.*)'$")
_PLACE: Final = re.compile(r"^template:.*?:\d+:\d+: (?:executing \"[^\"]*\": )?|^template:\d+:\d+: ")


class TemplateFault(Exception):
    """A template cannot be evaluated. `line` counts from 1, 0 if unknown; `parameter` is one without a value, or ''."""

    def __init__(self, message: str, *, line: int = 0, parameter: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.parameter = parameter


class _Overdue(BaseException):
    """Raised in the thread of a template that takes too long. No `except Exception` on the way catches it."""


class Template:
    """One parsed template, which may be evaluated many times, in one thread at a time."""

    def __init__(self, text: str, functions: Mapping[str, Callable[..., object]]) -> None:
        """Parse it. `functions` are those of its type; the few of sprig that types use are added. Raises
        TemplateFault.
        """
        self._text = _Text()
        known = {**_refused(), **self._text.functions(), **functions}
        sandbox = gotpl.SandboxPolicy.strict(
            allow_functions=known, max_template_chars=MOST_TEMPLATE, default_budget=_BUDGET
        )
        with _limits(SECONDS):
            self._template = gotpl.Template(text, functions=known, missing_key="error", sandbox=sandbox)

    def output(self, values: Mapping[str, Value]) -> str:
        """Evaluate it for these parameters; a parameter without a value is an error. Raises TemplateFault."""
        self._text.made = 0
        with _limits(SECONDS):
            return self._template.render(dict(values))


@contextmanager
def _limits(seconds: float) -> Iterator[None]:
    try:
        with _time_limit(seconds):
            yield
    except _Overdue:
        raise TemplateFault(f"takes more than {seconds:g} s") from None
    except gotpl.TemplateError as error:
        raise _fault(error) from None
    except RecursionError:
        raise TemplateFault("is nested too deep") from None


def _fault(error: gotpl.TemplateError) -> TemplateFault:
    line = getattr(error, "line", None) or 0
    message = _PLACE.sub("", str(error))
    missing = _MISSING.search(message)
    if missing is not None:
        return TemplateFault(f"the parameter `{missing[1]}` has no value", line=line, parameter=missing[1])
    return TemplateFault(message, line=line)


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise _Overdue in this thread after so many seconds. A call into C, which is short here, ends first."""
    lock, ended = threading.Lock(), False
    thread = ctypes.c_ulong(threading.get_ident())

    def end() -> None:
        with lock:
            if not ended:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(_Overdue))

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:  # from here on nothing is raised; what was raised before reaches the caller
            ended = True


def _refused() -> dict[str, Callable[..., object]]:
    """gotpl's own functions that make text without a bound: `printf "%999999999d"` fills the memory."""

    def refuse(*_: object) -> object:
        raise ValueError("is not available in types")

    return dict.fromkeys(("printf", "print", "println", "html", "js", "urlquery", "slice"), refuse)


class _Text:
    """The functions of sprig that types use, and the text that they made so far."""

    def __init__(self) -> None:
        self.made = 0

    def functions(self) -> dict[str, Callable[..., object]]:
        """By name."""
        return {
            "has": _has,
            "quote": self._quote,
            "nindent": self._nindent,
            "replace": self._replace,
            "int64": integer,
        }

    def _count(self, characters: int) -> None:
        self.made += characters
        if self.made > MOST_OUTPUT:
            raise ValueError(f"makes more than {MOST_OUTPUT:,} characters")

    def _quote(self, *given: object) -> str:
        texts = [_go_text(one) for one in given if one is not None]
        self._count(2 * sum(map(len, texts)))
        return " ".join(_quoted(text) for text in texts)

    def _nindent(self, width: object, text: object) -> str:
        lines = _go_text(text).split("\n")
        spaces = min(integer(width), MOST_OUTPUT)
        self._count(len(lines) * spaces + len(_go_text(text)))
        return "\n" + "\n".join(" " * spaces + line for line in lines)

    def _replace(self, old: object, new: object, text: object) -> str:
        given, old_text, new_text = _go_text(text), _go_text(old), _go_text(new)
        self._count(len(given) + given.count(old_text) * len(new_text))
        return given.replace(old_text, new_text)


def _has(needle: object, among: object) -> bool:
    return isinstance(among, Sequence) and not isinstance(among, str) and needle in among


def integer(value: object) -> int:
    """sprig's `int64`: a number or its text; 0 for anything else."""
    if isinstance(value, (int, float)):
        return int(value)
    try:
        return int(str(value))
    except ValueError:
        return 0


_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _quoted(text: str) -> str:
    """Go's `%q`, for text without control characters beyond those that have a letter."""
    return '"' + "".join(_ESCAPES.get(character, character) for character in text) + '"'


def _go_text(value: object) -> str:
    """Go's `%v` of a plain value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{' '.join(map(_go_text, value))}]"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_go_text(one)}' for key, one in sorted(value.items()))}]"
    return "<nil>" if value is None else str(value)
