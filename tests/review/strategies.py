"""Plans of every shape, with text in them that acts wherever it is not quoted."""

from hypothesis import strategies as st

from reconciler.model.outcomes import UpdateStatus
from reconciler.model.plan import (
    SENSITIVE,
    SENSITIVE_CHANGED,
    CutText,
    NamedResource,
    Plan,
    PlanDifference,
    PlanEntry,
    PlanField,
    PlanPlace,
    PlanRendering,
    PlanStatus,
    PlanTip,
    in_order,
)
from tests.review.samples import ATTACKS

# Surrogates cannot be in a plan: neither documents nor names of files hold any.
CHARACTERS = st.sampled_from("`@#|<>!/\\\n ~*_[]()&:$-=ab1") | st.characters(exclude_categories=["Cs"])
TEXTS = st.sampled_from(ATTACKS) | st.text(CHARACTERS, max_size=12) | st.just("x" * 3_000) | st.just("`" * 700)
NAMES = TEXTS.filter(bool)
PLACES = st.builds(PlanPlace, path=NAMES, line=st.integers(1, 99_999), column=st.integers(1, 999))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=5,
)
_CUTS = st.builds(CutText, begins=TEXTS, bytes=st.integers(0, 10**8))


def _fields(values: st.SearchStrategy[object]) -> st.SearchStrategy[PlanField]:
    at = st.none() | PLACES
    return st.one_of(
        st.builds(PlanField, path=TEXTS, difference=st.just(PlanDifference.ADDED), new=values, at=at),
        st.builds(PlanField, path=TEXTS, difference=st.just(PlanDifference.REMOVED), old=values),
        st.builds(PlanField, path=TEXTS, difference=st.just(PlanDifference.CHANGED), old=values, new=values, at=at),
        st.builds(
            PlanField,
            path=TEXTS,
            difference=st.just(PlanDifference.REORDERED),
            old=st.lists(values, max_size=3),
            new=st.lists(values, max_size=3),
            at=at,
        ),
        st.builds(
            PlanField,
            path=TEXTS,
            difference=st.just(PlanDifference.CHANGED),
            old=st.just(SENSITIVE),
            new=st.just(SENSITIVE_CHANGED),
            at=at,
            sensitive=st.just(True),
        ),
    )


def _statuses(values: st.SearchStrategy[object]) -> st.SearchStrategy[PlanStatus]:
    named = st.lists(st.builds(NamedResource, kind=NAMES, name=NAMES, at=st.none() | PLACES), max_size=3).map(tuple)
    return st.builds(
        PlanStatus,
        status=st.sampled_from(UpdateStatus),
        kind=st.none() | NAMES,
        name=st.none() | NAMES,
        reason=st.none() | TEXTS,
        at=st.none() | PLACES,
        existing=st.booleans(),
        fields=st.lists(_fields(values), max_size=3).map(tuple),
        fields_left_out=st.integers(0, 3),
        dependants=named,
        dependants_left_out=st.integers(0, 10**6),
        unresolved=named,
        owners=st.lists(NAMES, max_size=3).map(tuple),
        held=st.booleans(),
    )


_YAML = st.lists(TEXTS | st.sampled_from(["a:", "  b: 1", "    c:", "    - d"]), max_size=6).map("\n".join)
_RENDERINGS = st.builds(
    PlanRendering,
    name=NAMES,
    old=st.none() | _YAML,
    new=st.none() | _YAML,
    at=st.none() | PLACES,
    violations=st.lists(TEXTS, max_size=2).map(tuple),
    existing=st.booleans(),
    raw=st.booleans(),
    components=st.dictionaries(NAMES, PLACES, max_size=2),
)


def _entries(values: st.SearchStrategy[object]) -> st.SearchStrategy[PlanEntry]:
    return st.builds(
        PlanEntry,
        name=NAMES,
        project=NAMES,
        path=TEXTS,
        statuses=st.lists(_statuses(values), max_size=6).map(in_order),
        unchanged=st.integers(0, 10**9),
        untouched_files=st.integers(0, 10**9),
        held=st.just(0) | st.integers(0, 10**6),
        notes=st.lists(TEXTS, max_size=2).map(tuple),
        refused=st.booleans(),
        renderings=st.lists(_RENDERINGS, max_size=3).map(tuple),
        renderings_left_out=st.integers(0, 3),
    )


def _plans(values: st.SearchStrategy[object]) -> st.SearchStrategy[Plan]:
    tips = st.builds(PlanTip, ref=NAMES, commit=NAMES, worktree=st.booleans())
    return st.builds(
        Plan,
        base=tips,
        head=tips,
        merge_base=NAMES,
        behind=st.integers(0, 10**6),
        entries=st.lists(_entries(values), max_size=3).map(tuple),
        store_version=st.none() | st.integers(0, 10**9),
        server=st.none() | TEXTS,
        digest=TEXTS,
        stale=st.booleans(),
    )


PLANS = _plans(VALUES | _CUTS)
PLAIN = _plans(VALUES)
"""Plans whose values are all whole, so that JSON tells them from anything else."""
