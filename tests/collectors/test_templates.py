"""Templates give what Go would give, and hostile ones end in time without harm."""

import json
import time

import pytest

from reconciler.collectors import templates
from reconciler.collectors.templates import Template, TemplateFault
from reconciler.model.values import Value

MANY: Value = [*range(1000)]


def output(template: str, /, **values: Value) -> str:
    return Template(template, {"bpGrow": grow}).output(values)


def grow(*given: object) -> str:
    return json.dumps([given] * 5)


def test_the_language() -> None:
    text = '{{if and .on (ne .x "b")}}{{range $i, $v := .list}}{{$i}}={{$v}} {{end}}{{else}}no{{end}}{{index .map "k"}}'
    assert output(text, on=True, x="a", list=["p", "q"], map={"k": 7}) == "0=p 1=q 7"
    assert output(text, on=False, x="a", list=[], map={"k": 1.5}) == "no1.5"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{{if has "a" .list}}yes{{end}}', "yes"),
        ("{{quote .text}}", '"a \\"b\\" \\\\"'),
        ("{{quote .list 1}}", '"[a b]" "1"'),
        ('{{replace "b" "c" .text}}', 'a "c" \\'),
        ("{{nindent 2 .lines}}", "\n  x\n  y"),
        ("{{int64 .number}}", "42"),
    ],
)
def test_the_functions_of_sprig(text: str, expected: str) -> None:
    assert output(text, list=["a", "b"], text='a "b" \\', lines="x\ny", number="42") == expected


def test_a_parameter_without_a_value_is_named_with_its_line() -> None:
    with pytest.raises(TemplateFault) as caught:
        output("a: 1\nb: {{ .nothing }}")
    assert (caught.value.line, caught.value.parameter) == (2, "nothing")
    assert caught.value.message == "the parameter `nothing` has no value"


@pytest.mark.parametrize(
    "text",
    [
        '{{define "a"}}{{template "a" .}}{{end}}{{template "a" .}}',
        "".join(f'{{{{define "a{n}"}}}}' + f'{{{{template "a{n + 1}"}}}}' * 2 + "{{end}}" for n in range(40))
        + '{{define "a40"}}{{end}}{{template "a0"}}',
        "{{range .many}}{{range $.many}}{{range $.many}}x{{end}}{{end}}{{end}}",
        "{{range 1000000000}}x{{end}}",
        "{{.text.__class__.__mro__}}",
        "{{.text.upper}}",
        '{{printf "%1000000000d" 1}}',
        '{{$x := "aaaaaaaaaa"}}{{range .many}}{{$x = print $x $x}}{{end}}',
        '{{$x := "aaaaaaaaaa"}}{{range .many}}{{$x = replace "a" "aaaaaaaaaa" $x}}{{end}}',
        '{{$x := "a"}}{{range .many}}{{$x = quote $x $x}}{{end}}',
        '{{$x := "a"}}' + "{{$x = bpGrow $x}}" * 100,
        '{{$x := "a"}}{{range .many}}{{$x = bpGrow $x true 1 $.many}}{{end}}',
        "{{nindent 1000000000 .text}}",
        "{{" + "(" * 50_000 + "1" + ")" * 50_000 + "}}",
        "{{if 1}}" * 10_000 + "{{end}}" * 10_000,
        "{{range .many}}{{range $.many}}" + "{{$a := 1}}" * 2000 + "{{end}}{{end}}",
        "{{range .many}}{{range $.many}}" + "{{if and $.text $.text $.text}}{{end}}" * 2000 + "{{end}}{{end}}",
        "x" * (templates.MOST_TEMPLATE + 1),
        "{{call .text}}",
        "{{nothing}}",
        "{{if}}",
    ],
)
# The fault may be raised first in a callback of a weak reference, which ignores it; then it is raised again.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_hostile_template_ends_with_a_fault(text: str) -> None:
    begun = time.thread_time()
    with pytest.raises(TemplateFault):
        output(text, many=MANY, text="t")
    assert time.thread_time() - begun < 2


def test_the_thread_goes_on_after_one_that_took_too_long() -> None:
    slow = "{{range .many}}{{range $.many}}" + "{{$a := 1}}" * 2000 + "{{end}}{{end}}"
    for _ in range(3):
        with pytest.raises(TemplateFault, match="takes more than"):
            output(slow, many=MANY)
        assert output("{{.text}}", text="still here") == "still here"
