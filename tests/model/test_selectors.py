"""Label selectors mean what they mean in Kubernetes, and what is none is refused with its place."""

import contextlib
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.model import names
from reconciler.model.names import BadSelector, Requirement, Selector

LABELS = {"team": "edge", "env": "prod", "example.com/tier": "", "in": "notin"}


def among(*values: str) -> frozenset[str]:
    return frozenset(values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        (" \t\r\n", ()),
        ("a", (Requirement("a"),)),
        ("!a", (Requirement("a", negated=True),)),
        (" ! a ", (Requirement("a", negated=True),)),
        ("a=b", (Requirement("a", among("b")),)),
        ("a==b", (Requirement("a", among("b")),)),
        ("a!=b", (Requirement("a", among("b"), negated=True),)),
        ("a = b", (Requirement("a", among("b")),)),
        ("a=", (Requirement("a", among("")),)),
        ("a!=,b", (Requirement("a", among(""), negated=True), Requirement("b"))),
        ("a in (b)", (Requirement("a", among("b")),)),
        ("a in(b,c)", (Requirement("a", among("b", "c")),)),
        ("a\nnotin ( b , c )", (Requirement("a", among("b", "c"), negated=True),)),
        ("a in (,)", (Requirement("a", among("")),)),
        ("a in (b,,c,)", (Requirement("a", among("b", "", "c")),)),
        ("in in (in, notin)", (Requirement("in", among("in", "notin")),)),
        ("!notin,in=in", (Requirement("notin", negated=True), Requirement("in", among("in")))),
        ("a,a,b=1", (Requirement("a"), Requirement("a"), Requirement("b", among("1")))),
        ("x.io/A_b=V.1", (Requirement("x.io/A_b", among("V.1")),)),
    ],
)
def test_a_selector_is_read(text: str, expected: tuple[Requirement, ...]) -> None:
    assert names.parse_selector(text) == Selector(expected)


ONE = "one of `team=edge`, `env in (a, b)`, `team` or `!team` is expected"
NEXT = "`,` or the end is expected"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (",", f"at character 1, {ONE}"),
        ("=b", f"at character 1, {ONE}"),
        ("a,", f"at character 3, {ONE}"),
        ("a,,b", f"at character 3, {ONE}"),
        ("a, =b", f"at character 3, {ONE}"),
        ("!", f"at character 1, {ONE}"),
        ("!!a", f"at character 1, {ONE}"),
        ("!a=b", f"at character 3, {NEXT}"),
        ("!a in (b)", f"at character 3, {NEXT}"),
        ("a b", f"at character 3, {NEXT}"),
        ("a(b)", f"at character 2, {NEXT}"),
        ("a > 1", f"at character 3, {NEXT}"),
        ("a!b", f"at character 2, {NEXT}"),
        ("a IN (b)", f"at character 3, {NEXT}"),
        ("a=b c", f"at character 5, {NEXT}"),
        ("a=b \u00a0", f"at character 5, {NEXT}"),
        ("\x0b", f"the label's key at character 1 {names.LABEL_KEY_RULE}"),
        ("a=b=c", f"at character 4, {NEXT}"),
        ("a=!b", f"at character 3, {NEXT}"),
        ("a=(b)", f"at character 3, {NEXT}"),
        ("a in b", f"at character 3, {NEXT}"),
        ("a in", f"at character 3, {NEXT}"),
        ("a in ()", "at character 7, a label's value is expected"),
        ("a in (b", f"at character 3, {NEXT}"),
        ("a in (b c)", f"the label's value at character 7 {names.LABEL_VALUE_RULE}"),
        ("a in (b))", f"at character 9, {NEXT}"),
        ("a in (b) c", f"at character 10, {NEXT}"),
        ("ok, -a", f"the label's key at character 5 {names.LABEL_KEY_RULE}"),
        ("a/b/c", f"the label's key at character 1 {names.LABEL_KEY_RULE}"),
        ("é=b", f"the label's key at character 1 {names.LABEL_KEY_RULE}"),
        ("a\u00a0=b", f"the label's key at character 1 {names.LABEL_KEY_RULE}"),
        ("a=b/c", f"the label's value at character 3 {names.LABEL_VALUE_RULE}"),
        ("a in (b, -)", f"the label's value at character 10 {names.LABEL_VALUE_RULE}"),
        (",".join(["a"] * 101), "at character 201 begins one requirement more than 100"),
        ("a" * 4097, "it is over 4,096 characters long"),
    ],
)
def test_what_is_no_selector_is_told_with_its_place(text: str, sentence: str) -> None:
    with pytest.raises(BadSelector, match=f"^{re.escape(sentence)}$"):
        names.parse_selector(text)


@pytest.mark.parametrize("text", [",".join(["a"] * 100), "a in (" + ",".join(["b"] * 2045) + ")"])
def test_a_selector_may_be_as_large_as_its_limits(text: str) -> None:
    assert names.parse_selector(text).requirements[0].key == "a"


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("team", True),
        ("owner", False),
        ("!team", False),
        ("!owner", True),
        ("team=edge", True),
        ("team=core", False),
        ("team=Edge", False),
        ("owner=edge", False),
        ("owner=", False),
        ("example.com/tier=", True),
        ("example.com/tier", True),
        ("team!=edge", False),
        ("team!=core", True),
        ("owner!=edge", True),  # as in Kubernetes: what has no such label is unequal
        ("env in (prod,staging)", True),
        ("env in (staging)", False),
        ("owner in (prod)", False),
        ("env notin (prod)", False),
        ("env notin (staging)", True),
        ("owner notin (prod)", True),
        ("in=notin", True),
        ("team=edge,env=prod", True),
        ("team=edge,env=staging", False),
        ("team=edge,team=core", False),
    ],
)
def test_labels_match_as_in_kubernetes(text: str, matches: bool) -> None:
    assert names.parse_selector(text).matches(LABELS) is matches


KEYS = st.sampled_from(["a", "b", "in", "x.io/a"])
VALUES = st.sampled_from(["", "1", "2", "notin"])
LABEL_SETS = st.dictionaries(KEYS, VALUES)
SPACES = st.text(alphabet=" \t\r\n", max_size=2)
SETS = st.lists(VALUES, min_size=1, max_size=4).filter(lambda values: values != [""])


@given(labels=LABEL_SETS, key=KEYS, values=SETS, space=SPACES, before=SPACES)
def test_every_operator_is_what_its_words_say(
    labels: dict[str, str], key: str, values: list[str], space: str, before: str
) -> None:
    def matches(text: str) -> bool:
        return names.parse_selector(before + text.replace("~", space)).matches(labels)

    value, listed = values[0], "~,~".join(values)
    assert matches(f"{key}~") == (key in labels)
    assert matches(f"!~{key}") == (key not in labels)
    assert matches(f"{key}~=~{value}") == matches(f"{key}~==~{value}") == (labels.get(key) == value)
    assert matches(f"{key}~!=~{value}") == (labels.get(key) != value)
    assert matches(f"{key} in~(~{listed}~)") == (labels.get(key) in values)
    assert matches(f"{key} notin~(~{listed}~)") == (labels.get(key) not in values)


@given(labels=LABEL_SETS, parts=st.lists(st.tuples(KEYS, st.sampled_from(["=", "!="]), VALUES), max_size=5))
def test_a_comma_means_and(labels: dict[str, str], parts: list[tuple[str, str, str]]) -> None:
    texts = ["".join(part) for part in parts]
    whole = names.parse_selector(",".join(texts)).matches(labels)
    assert whole == all(names.parse_selector(text).matches(labels) for text in texts)


@given(st.text(alphabet="ab1 \n=!(),<>-/.é", max_size=30) | st.text(max_size=10))
def test_any_text_is_a_selector_or_one_sentence(text: str) -> None:
    try:
        found = names.parse_selector(text)
    except BadSelector as bad:
        place = re.search(r"at character ([0-9]+)", bad.message)
        assert place is not None
        assert 1 <= int(place[1]) <= len(text) + 1
    else:
        assert all(names.wrong_label_key(one.key) is None for one in found.requirements)
        assert all(names.wrong_label_value(value) is None for one in found.requirements for value in one.values or ())


@pytest.mark.parametrize("piece", ["!", "(", "a=", "a-", " ", "a.", "a in ("])
def test_the_longest_text_takes_no_time(piece: str) -> None:
    text = (piece * names.LONGEST_SELECTOR)[: names.LONGEST_SELECTOR]
    before = time.process_time()
    with contextlib.suppress(BadSelector):
        names.parse_selector(text)
    assert time.process_time() - before < 2  # a few milliseconds, and minutes if it were not linear
