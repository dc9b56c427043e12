"""Our templates and Go's own engine give the same bytes, or both refuse."""

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reconciler.collectors.templates import Template, TemplateFault
from reconciler.model import builtins, component_types
from reconciler.model.values import Value
from tests.providers import found

pytestmark = pytest.mark.providers

HELPERS: Mapping[str, Callable[..., object]] = {
    **dict.fromkeys(
        ("bpRenderOtelRetryOnFailureConfig", "bpRenderOtelSendingQueueConfig", "bpRenderStandardParsingOperator"),
        lambda *_: "helper: true",
    ),
    "bpDisabledCategoryMetrics": lambda *_: ["one", "two"],
}
VALUES: dict[str, Value] = {
    "text": 'a "b" \\ é',
    "empty": "",
    "number": 42,
    "float": 1.5,
    "yes": True,
    "no": False,
    "list": ["x", "y", "z"],
    "none": [],
    "map": {"b": "2", "a": "1"},
    "nested": {"list": [1, 2], "map": {"k": "v"}},
}


class Oracle:
    """The program in Go: one question a line, one answer a line."""

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def output(self, text: str, values: Mapping[str, Value]) -> str | None:
        """Return Go's output; None if it refuses."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"text": text, "values": values}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, str] = json.loads(self._process.stdout.readline())
        return answer.get("output")

    def stop(self) -> None:
        """End the program."""
        self._process.communicate(timeout=10)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    running = Oracle(found.template_oracle())
    yield running
    running.stop()


def ours(text: str, values: Mapping[str, Value]) -> str | None:
    try:
        return Template(text, HELPERS).output(values)
    except TemplateFault:
        return None


def templates() -> Iterator[tuple[str, str, dict[str, Value]]]:
    """Yield every template of a built-in type, with its defaults and with other values."""
    for key, document in builtins.built_in().items():
        spec = document["spec"]
        if not key.kind.endswith("Type") or not isinstance(spec, dict):
            continue
        definitions = component_types.read_definitions(spec)
        defaults: dict[str, Value] = {one.name: one.default for one in definitions if one.default is not None}
        for block, parts in spec.items():
            if isinstance(parts, dict):
                for part, text in parts.items():
                    yield f"{key.kind} {key.name} {block}.{part}", str(text), defaults


@pytest.mark.parametrize(("text", "values"), [pytest.param(*rest, id=name) for name, *rest in templates()])
def test_the_built_in_types(oracle: Oracle, text: str, values: dict[str, Value]) -> None:
    assert ours(text, values) == oracle.output(text, values)


@pytest.mark.parametrize(
    "text",
    [
        "{{.text}} {{.number}} {{.float}} {{.yes}} {{.list}} {{.map}} {{.nested}} {{.none}}",
        "{{.missing}}",
        "{{if .missing}}a{{end}}",
        "{{.nested.missing}}",
        "{{if .empty}}a{{else if .yes}}b{{else}}c{{end}}",
        "{{range .list}}{{.}},{{else}}none{{end}}{{range .none}}x{{else}}none{{end}}",
        "{{range $k, $v := .map}}{{$k}}={{$v}};{{end}}",
        "{{range $i, $v := .list}}{{if gt $i 0}}, {{end}}{{$v}}{{end}}",
        "{{with .map}}{{.a}}{{end}}{{with .empty}}x{{else}}y{{end}}",
        "{{$x := 1}}{{if .yes}}{{$x = 2}}{{end}}{{$x}}",
        "a {{- .text -}} b\n{{/* comment */ -}}\n c",
        "{{and .yes .text}} {{or .empty .text}} {{not .empty}} {{and .yes .no .missing}}",
        "{{eq .number 42}} {{eq .text 1}}",
        "{{eq .number 1 2 42}} {{ne .text \"a\"}} {{lt 1 2}} {{le 2 2}} {{ge 1 2}} {{gt 1.5 .float}}",
        "{{len .list}} {{len .text}} {{len .map}} {{len .number}}",
        "{{index .list 1}} {{index .map \"a\"}} {{index .nested \"list\" 0}}",
        "{{index .list 9}}",
        "{{index .map \"zz\"}}",
        "{{has \"x\" .list}} {{has 1 .nested.list}} {{has \"q\" .none}}",
        "{{quote .text}} {{quote .number .yes .list}} {{.text | quote}}",
        "{{replace \"b\" \"c\" .text}} {{.text | replace \"a\" \"\"}}",
        "{{nindent 4 .text}}|{{\"a\\nb\" | nindent 2}}",
        "{{int64 .number}} {{int64 \"17\"}} {{int64 .float}} {{int64 .yes}} {{int64 .text}}",
        "{{`raw {{ text`}} {{\"q\\\"uoted\"}} {{'a'}} {{0x1F}} {{1e3}} {{true}} {{nil}}",
        "{{(index .list 0) | quote}} {{.list | len | quote}}",
        "{{range .list}}{{if eq . \"y\"}}{{continue}}{{end}}{{.}}{{end}}{{range .list}}{{break}}{{end}}",
        "{{define \"inner\"}}<{{.}}>{{end}}{{template \"inner\" .text}}{{block \"u\" .number}}{{.}}{{end}}",
        "{{if}}", "{{end}}", "{{unknown .text}}", "{{.text", "{{range .number}}x{{end}}", "{{range .text}}x{{end}}",
    ],
)  # fmt: skip
def test_the_language(oracle: Oracle, text: str) -> None:
    assert ours(text, VALUES) == oracle.output(text, VALUES)


NAMES = st.sampled_from([f".{name}" for name in VALUES] + [".missing", "$", "3", '"x"', "true"])
CONDITIONS = st.one_of(
    NAMES,
    st.builds("not {}".format, NAMES),
    st.builds("{} {} {}".format, st.sampled_from(["and", "or", "eq", "ne", "gt"]), NAMES, NAMES),
    st.builds("has {} {}".format, NAMES, st.sampled_from([".list", ".none"])),
)
PRINTED = st.one_of(NAMES, st.builds("{} | quote".format, NAMES), st.builds("len {}".format, NAMES))
LEAVES = st.one_of(st.sampled_from(["a: b\n", "- ", " "]), st.builds("{{{{ {} }}}}".format, PRINTED))
TEMPLATES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("{{{{- if {} }}}}{}{{{{ else -}}}}{}{{{{ end }}}}".format, CONDITIONS, inner, inner),
        st.builds("{{{{range {}}}}}{}{{{{end}}}}".format, st.sampled_from([".list", ".map", ".none"]), inner),
    ),
    max_leaves=12,
)


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEMPLATES)
def test_random_templates(oracle: Oracle, text: str) -> None:
    assert ours(text, VALUES) == oracle.output(text, VALUES)
