"""The Go templates of types, evaluated within limits. The only module that imports gotpl.

Everybody who may store a type writes templates, so each template may be hostile. It has four limits:

- A sandbox: no attributes, no methods, and only the functions named here.
- A budget of iterations, calls and output, which gotpl counts.
- A budget of text that functions produce, because gotpl does not count text in variables.
- A limit on processor time for everything else, such as thousands of assignments, which gotpl does not count.
"""

import ctypes
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import gotpl

from reconciler.model.values import Value

MOST_TEMPLATE: Final = 200_000  # characters of one template; parsing takes some microseconds for each
MOST_OUTPUT: Final = 500_000  # characters of one template's output, and of all text from its functions
TIMES_GIVEN: Final = 4  # the estimated ratio of a function's text to that of its arguments
SECONDS: Final = 1.0  # of processor time for one template, so that other work of the machine does not count
AGAIN_SECONDS: Final = 0.1  # until an overdue template is ended again

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
    """Raised in the thread of an overdue template. `except Exception` does not catch it."""


class Template:
    """One parsed template. It may be evaluated many times, in one thread at a time."""

    def __init__(
        self, text: str, functions: Mapping[str, Callable[..., object]], seconds_left: float = SECONDS
    ) -> None:
        """Parse it. `functions` are those of its type; the functions of sprig that types use are added. Raises
        TemplateFault.
        """
        self._text = _Text()
        known = {**_refused(), **self._text.functions(), **self._text.counted(functions)}
        sandbox = gotpl.SandboxPolicy.strict(
            allow_functions=known, max_template_chars=MOST_TEMPLATE, default_budget=_BUDGET
        )
        with time_limit(min(SECONDS, seconds_left)):
            self._template = gotpl.Template(text, functions=known, missing_key="error", sandbox=sandbox)

    def output(self, values: Mapping[str, Value], seconds_left: float = SECONDS) -> str:
        """Evaluate it with these parameters. A parameter without a value is an error. Raises TemplateFault."""
        self._text.made = 0
        with time_limit(min(SECONDS, seconds_left)):
            return self._template.render(dict(values))


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TemplateFault if gotpl refuses the block, or if it takes longer. The block must do nothing else."""
    try:
        with _WATCHDOG.limit(seconds):
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


class _Watchdog:
    """Raises _Overdue in threads whose time is over. One thread watches all others."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._deadlines: dict[int, float] = {}  # by thread, by its clock
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start its thread unless it runs. A forked process does not have it."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._watch, name="templates", daemon=True)
            self._thread.start()

    @contextmanager
    def limit(self, seconds: float) -> Iterator[None]:
        """Raise _Overdue in this thread after so many of its seconds. A call into C ends first; all are short here."""
        self.start()
        thread = threading.get_ident()
        with self._changed:
            self._deadlines[thread] = _spent(thread) + seconds
            self._changed.notify()
        try:
            yield
        finally:
            try:
                self._end(thread)
            finally:  # _Overdue may have interrupted the first call
                self._end(thread)

    def _end(self, thread: int) -> None:
        """Remove the limit of a thread. An _Overdue that was raised before reaches the caller."""
        with self._lock:  # not `_changed`: an _Overdue between its lock and its block would leave it locked
            self._deadlines.pop(thread, None)

    def _watch(self) -> None:
        with self._changed:
            while True:
                left = {thread: deadline - _spent(thread) for thread, deadline in self._deadlines.items()}
                for thread in [one for one, seconds in left.items() if seconds <= 0]:
                    # Again later, because an exception in a finalizer is lost.
                    self._deadlines[thread] += AGAIN_SECONDS
                    left[thread] = AGAIN_SECONDS
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_Overdue))
                self._changed.wait(min(left.values(), default=None))


def _spent(thread: int) -> float:
    """Return the seconds of processor time that a thread has taken."""
    return time.clock_gettime(time.pthread_getcpuclockid(thread))


_WATCHDOG: Final = _Watchdog()


def start_watchdog() -> None:
    """Start the thread that ends overdue templates. Only needed where no thread can be started later: otherwise the
    first template starts it.
    """
    _WATCHDOG.start()


def _refused() -> dict[str, Callable[..., object]]:
    """Return replacements for gotpl's functions whose text has no bound: `printf "%999999999d"` fills the memory."""

    def refuse(*_: object) -> object:
        raise ValueError("is not available in types")

    return dict.fromkeys(("printf", "print", "println", "html", "js", "urlquery", "slice"), refuse)


class _Text:
    """The functions of sprig that types use, and the length of the text that they produced."""

    def __init__(self) -> None:
        self.made = 0

    def functions(self) -> dict[str, Callable[..., object]]:
        """Return the functions by name."""
        return {
            "has": _has,
            "quote": self._quote,
            "nindent": self._nindent,
            "replace": self._replace,
            "int64": integer,
        }

    def counted(self, functions: Mapping[str, Callable[..., object]]) -> dict[str, Callable[..., object]]:
        """Return functions of a type with their text counted: an estimate by the arguments before each call, the result
        after it. Lists and maps do not count: they are parameters, and no function makes larger ones.
        """
        return {name: self._counted(function) for name, function in functions.items()}

    def _counted(self, function: Callable[..., object]) -> Callable[..., object]:
        def call(*given: object) -> object:
            self._count(TIMES_GIVEN * sum(len(one) for one in given if isinstance(one, str)))
            made = function(*given)
            self._count(len(made) if isinstance(made, str) else 0)
            return made

        return call

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
    """Return sprig's `int64`: a number or its text; 0 for anything else."""
    if isinstance(value, (int, float)):
        return int(value)
    try:
        return int(str(value))
    except ValueError:
        return 0


_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _quoted(text: str) -> str:
    """Return Go's `%q` of a text whose control characters all have a letter."""
    return '"' + "".join(_ESCAPES.get(character, character) for character in text) + '"'


def _go_text(value: object) -> str:
    """Return Go's `%v` of a plain value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{' '.join(map(_go_text, value))}]"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{key}:{_go_text(one)}' for key, one in sorted(value.items()))}]"
    return "<nil>" if value is None else str(value)
