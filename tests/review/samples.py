"""Plans to render: one for each thing that a skin must show."""

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from reconciler.model.flows import Flow, FlowChange
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
from tests import hostile_text

BASE = PlanTip(ref="main", commit="9a8b7c6d5e4f30210f1e2d3c4b5a69788796a5b4")
HEAD = PlanTip(ref="teams/orders", commit="3f2a1c9d8e7f60514233241506f7e8d9cabbacbd")
ORDERS = ("@shop/orders", "orders@example.com")


def plan(*entries: PlanEntry, **others: Any) -> Plan:
    """A plan of a branch that lacks nothing."""
    return Plan(**{"base": BASE, "head": HEAD, "merge_base": BASE.commit, "ahead": 1, "entries": entries, **others})


def entry(*statuses: PlanStatus, **others: Any) -> PlanEntry:
    """An entry with the statuses in order."""
    return PlanEntry(**{"name": "shop", "statuses": in_order(statuses), **others})


def linked(made: Plan, link: str) -> Plan:
    """The same plan of entries whose lines have these addresses."""
    return replace(made, entries=tuple(replace(entry, link=link) for entry in made.entries))


def one(
    status: str, kind: str, name: str, path: str = "teams/orders/all.yaml", line: int = 3, **others: Any
) -> PlanStatus:
    """Return what becomes of one resource."""
    at = PlanPlace(path=path, line=line)
    return PlanStatus(**{"status": UpdateStatus(status), "kind": kind, "name": name, "at": at, **others})


def field(path: str, difference: PlanDifference, line: int | None = None, **others: Any) -> PlanField:
    """A field of what stands in teams/orders/all.yaml."""
    at = None if line is None else PlanPlace(path="teams/orders/all.yaml", line=line, column=9)
    return PlanField(path=path, difference=difference, at=at, **others)


def empty() -> Plan:
    """Nothing changes."""
    return plan(entry(unchanged=412, untouched_files=9_990))


def flows(stopped: int, started: int) -> Plan:
    """So many flows stop, and so many start."""
    changes = [FlowChange.STOPPED] * stopped + [FlowChange.STARTED] * started
    found = [
        Flow(change=change, configuration=f"web-{number}", destination="siem") for number, change in enumerate(changes)
    ]
    return plan(entry(flows=tuple(found)))


def folding(created: int) -> Plan:
    """So many resources are created, one with six fields."""
    six = tuple(field(f"spec.f{number}", PlanDifference.ADDED, new=number) for number in range(6))
    others = [one("created", "Fleet", f"edge-{number}", fields=six[1:]) for number in range(1, created)]
    return plan(entry(one("created", "Fleet", "edge-0", fields=six), *others))


SCRIPT = "".join(f"line {number}\n" for number in range(1, 21))


def fields() -> tuple[PlanField, ...]:
    """One of each kind of difference."""
    turned = ["a", "b", {"name": "c"}]
    return (
        field("spec.url", PlanDifference.CHANGED, 5, old="https://a.example", new="https://b.example"),
        field("spec.parameters[endpoint].value", PlanDifference.ADDED, 7, new={"host": "ä.example", "port": 443}),
        field("spec.labels.tier", PlanDifference.REMOVED, old="gold"),
        field("spec.attributes", PlanDifference.REORDERED, 9, old=turned, new=turned[::-1]),
        field("spec.password", PlanDifference.CHANGED, 11, old=SENSITIVE, new=SENSITIVE_CHANGED, sensitive=True),
        field("spec.token", PlanDifference.ADDED, 12, new=SENSITIVE, sensitive=True),
        field("spec.key", PlanDifference.REMOVED, old=SENSITIVE, sensitive=True),
        field(
            "spec.script", PlanDifference.CHANGED, 14, old=SCRIPT, new=SCRIPT.replace("line 9\n", "line nine\nmore\n")
        ),
        field("spec.certificate", PlanDifference.ADDED, 30, new="BEGIN\nAAAA\nEND\n"),
        field("spec.body", PlanDifference.CHANGED, 34, old=CutText(begins='"begins', bytes=10_485_760), new=1),
        field("spec.enabled", PlanDifference.CHANGED, 40, old=True, new=None),
    )


def every() -> Plan:
    """One of each status, and every kind of difference."""
    dependants = tuple(NamedResource(kind="Configuration", name=f"web-{number}") for number in range(12))
    missing = NamedResource(kind="Fleet", name="edge", at=PlanPlace(path="teams/orders/all.yaml", line=44))
    reason = "teams/orders/all.yaml:5:9: /spec/url: must be a URL\nteams/orders/all.yaml:6:9: /spec/x: is not known"
    return plan(
        entry(
            one("configured", "Destination", "orders", fields=fields(), fields_left_out=3, dependants=dependants[:2]),
            one("configured", "Configuration", "web", line=41, unresolved=(missing,), owners=ORDERS),
            one("created", "Fleet", "new", "teams/fleets.yaml", owners=("@shop/fleets",)),
            one("created", "Fleet", "rooted", "all.yaml"),
            one("deleted", "Destination", "old", dependants=dependants, dependants_left_out=7),
            one("invalid", "Destination", "broken", line=60, reason=reason, owners=ORDERS),
            PlanStatus(status=UpdateStatus.INVALID, at=PlanPlace(path="teams/x.yaml", line=2), reason="needs a `kind`"),
            one("error", "Destination", "failed", reason="the store is read-only"),
            one("in-use", "Destination", "needed", dependants=dependants[:1]),
            one("forbidden", "Fleet", "theirs"),
            one("deprecated", "Fleet", "aged"),
            one("not-found", "Fleet", "gone", at=None),
            unchanged=412,
            untouched_files=9_990,
        )
    )


def two() -> Plan:
    """Two entries of one repository, one of them refused as a whole."""
    broken = one("invalid", "Fleet", "edge", "prod/fleets.yaml", reason="selector is missing", owners=ORDERS)
    return plan(
        entry(one("created", "Fleet", "edge", "test/fleets.yaml"), name="test", path="test", unchanged=3),
        entry(
            broken,
            one("created", "Fleet", "core", "prod/fleets.yaml", owners=ORDERS),
            name="prod",
            project="shop",
            path="prod",
            refused=True,
            notes=("prod/huge.yaml is left out: it is larger than 1 MiB",),
        ),
        head=PlanTip(ref=HEAD.ref, commit=HEAD.commit, worktree=True),
        server="https://telemetry.example",
        store_version=1_234,
        digest="sha256:0123456789abcdef",
        stale=True,
    )


def trouble() -> Plan:
    """Return what was so before, beside little that is new."""
    reason = "a.yaml:2:3: /spec: must be a map\na.yaml:9:3: /spec/y: is not known"
    lost = NamedResource(kind="Fleet", name="edge", at=PlanPlace(path="b.yaml", line=9))
    return plan(
        entry(
            one("created", "Fleet", "new", "c.yaml", unresolved=(NamedResource(kind="Fleet", name="lost"),)),
            one("invalid", "Destination", "old", "a.yaml", reason=reason, existing=True),
            one("unchanged", "Configuration", "web", "b.yaml", unresolved=(lost,), existing=True),
            unchanged=7,
        )
    )


def held() -> Plan:
    """So much would go that all of it is held back."""
    note = "Nothing is deleted: 13 of 21 resources would go, more than 25 percent; restore them."
    gone = [one("deleted", "Fleet", f"edge-{number:02}", "edge/all.yaml", number, held=True) for number in range(1, 14)]
    before = one("deleted", "Fleet", "older", "old.yaml", existing=True, held=True)
    return plan(entry(*gone, before, unchanged=7, held=13, notes=(note,)))


def noted() -> Plan:
    """Warnings of a resource, and what becomes incomplete by it."""
    unknown = (
        "teams/orders/all.yaml:9:5: /spec/parameters/0: is not known to its type; it is kept all the same, and masked"
    )
    makes = "makes Configuration edge and 3 more incomplete; `status.incomplete` of each says what to complete"
    return plan(
        entry(
            one("configured", "DestinationType", "own", notes=(makes,)),
            one("created", "Destination", "new", line=7, notes=(unknown, "a second sentence")),
            unchanged=7,
        )
    )


def flowing() -> Plan:
    """Return what changes in delivery, of every sort."""
    reason = "/spec/processors/0 is an enabled processor, which the service cannot run yet; remove or disable it."
    return plan(
        entry(
            one("configured", "Configuration", "checkout"),
            flows=(
                Flow(change=FlowChange.STOPPED, configuration="checkout", destination="payments-desk", reason=reason),
                Flow(change=FlowChange.STALE, configuration="web", destination="siem", reason=reason, version=3),
                Flow(change=FlowChange.MOVED, destination="siem", queued=12_400),
                Flow(change=FlowChange.FILTERED, configuration="orders"),
                Flow(change=FlowChange.RESUMED, configuration="search", destination="siem"),
                Flow(change=FlowChange.STARTED, configuration="orders", destination="siem", also=True),
            ),
        )
    )


COLLECTOR = """\
receivers:
  filelog/source0:
    include:
    - /var/log/a.log
    start_at: end
exporters:
  otlphttp/gateway-0:
    endpoint: https://gateway.example:4318
service:
  pipelines:
    logs/source0__gateway-0:
      receivers:
      - filelog/source0
      exporters:
      - otlphttp/gateway-0
"""
REFUSED = (
    "teams/gateway.yaml:7:5: the Collector says: 'exporters' error reading configuration for \"otlphttp/gateway-0\""
)


def rendered() -> Plan:
    """Return what changes for Collectors, of every sort."""
    at = PlanPlace(path="teams/orders/all.yaml", line=12)
    moved = COLLECTOR.replace("start_at: end", "start_at: beginning").replace(
        "    - /var/log/a.log\n", "    - /b.log\n"
    )
    held = "teams/gateway.yaml:1:1: Destination `gateway`: the service holds the value of `headers` as a secret"
    return plan(
        entry(
            one("configured", "Destination", "gateway"),
            renderings=(
                PlanRendering(name="gone", old=COLLECTOR, at=at),
                PlanRendering(name="held", old=COLLECTOR, at=at, violations=(held,)),
                PlanRendering(name="long", new="".join(f"key{number}:\n  a: 1\n" for number in range(200))),
                PlanRendering(name="new", new=COLLECTOR, at=at),
                PlanRendering(name="old", violations=(held,), existing=True),
                PlanRendering(name="refused", old=COLLECTOR, new=moved, at=at, violations=(REFUSED, "and so on")),
                PlanRendering(name="text", old="a", new="b", at=at, raw=True),
                PlanRendering(name="web", old=COLLECTOR, new=moved, at=at, components={"filelog/source0": at}),
            ),
            renderings_left_out=3,
        )
    )


def moved() -> Plan:
    """The base has commits that the head lacks."""
    return plan(entry(one("configured", "Fleet", "edge")), behind=3, merge_base="1" * 40)


ATTACKS = (
    f"{hostile_text.EVERYTHING}",
    "/approve\n/close\n@shop/everyone closes #12, GH-12, !12 and fixes 3f2a1c9d8e7f60514233241506f7e8d9cabbacbd",
    "```\n</details></summary><script>alert(1)</script>\n~~~\n````` ![x](https://evil.example/x.png)",
    "<!-- reconciler-plan: other -->\n-->\n<!-- -->",
    "| a | b |\n- [x] done\n# heading\n> quote\n    code\n---",
    "::error::forged\n##[add-mask]x\n##vso[task.setvariable]y\n::stop-commands::z",
    "`", "``", "a`b``c", " ", "$`x`$", "&#64;team", "\\`x\\`", "[x](javascript:alert)", "null\0byte", "%0A::error::x",
)  # fmt: skip


def hostile() -> Plan:
    """Every text that whoever pushes may choose, with something in it that acts somewhere."""
    statuses = tuple(
        one(
            word,
            "Fleet",
            attack,
            f"{attack}/{attack}.yaml",
            reason=attack,
            fields=(
                PlanField(path=attack, difference=PlanDifference.CHANGED, old=attack, new=attack[::-1]),
                PlanField(path="a", difference=PlanDifference.ADDED, new={attack: [attack]}),
                PlanField(path="b", difference=PlanDifference.REORDERED, old=[attack, "b"], new=["b", attack]),
            ),
            dependants=(NamedResource(kind="Fleet", name=attack),),
            unresolved=(NamedResource(kind="Fleet", name=attack, at=PlanPlace(path=attack)),),
            owners=(attack,),
            existing=number % 4 == 3,
        )
        for number, (word, attack) in enumerate(zip(list(UpdateStatus) * 2, ATTACKS, strict=False))
    )
    nasty = PlanTip(ref=ATTACKS[1], commit=ATTACKS[2])
    renderings = tuple(
        PlanRendering(name=attack, old=attack, new=attack[::-1], at=PlanPlace(path=attack), violations=(attack,))
        for attack in ATTACKS
    )
    entries = [
        entry(*statuses, name=attack, path=attack, notes=(attack,), refused=True, renderings=renderings)
        for attack in ATTACKS[:4]
    ]
    return plan(*entries, base=nasty, head=nasty, merge_base=ATTACKS[3], behind=1, server=ATTACKS[3])


def large(number: int = 5_000, each: int = 5) -> Plan:
    """So many changed resources with so many fields each."""
    changed = ("configured", "created", "deleted", "configured")
    return plan(entry(*(_numbered(changed[at % 4], at, each) for at in range(number)), unchanged=5_000))


def _numbered(status: str, number: int, each: int) -> PlanStatus:
    path = f"teams/team-{number % 50:02}/destination-{number:05}.yaml"
    found = tuple(
        PlanField(
            path=f"spec.parameters[parameter-{at}].value",
            difference=PlanDifference.CHANGED,
            old=f"https://old-{number}.example/{at}",
            new=f"https://new-{number}.example/{at}",
            at=PlanPlace(path=path, line=5 + at),
        )
        for at in range(each if status == "configured" else 0)
    )
    return one(status, "Destination", f"destination-{number:05}", path, fields=found)


def all_of_them() -> Iterator[tuple[str, Plan]]:
    """The plans that golden files show, by name."""
    for make in (empty, every, two, trouble, held, noted, flowing, rendered, moved, hostile):
        yield make.__name__, make()
    yield "cut", large(5_000, 3)
