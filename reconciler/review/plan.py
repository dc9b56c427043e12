"""The text of a plan for every rendering: lines, counts, the verdict, the exit code; and its JSON.

Every returned text is bounded, on one line, and has no effect: not on terminals (`model.text`), not as a command that
runners of forges find anywhere in a log (`##[add-mask]`, `##vso[`), and not as a hidden mark of a comment (`<!--`).
Each line begins with a mark, so that it never begins with a command of a forge (`/approve`, `::error`). An `existing`
status, which was there before the change, is counted apart and decides nothing.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from reconciler.model import flows, forges
from reconciler.model.flows import Flow, FlowChange
from reconciler.model.outcomes import UpdateStatus
from reconciler.model.plan import FORMAT, RISK, NamedResource, Plan, PlanEntry, PlanPlace, PlanStatus, PlanTip
from reconciler.model.text import counted, visible, visible_json

OWNERS = 10  # names in one heading
NAME = 200  # characters of a name, a path, a ref
VALUE = 500  # characters of a value or a sentence
LINE = 300  # characters of a line of text
COMMAND = 2_000  # characters
REASONS = 30  # lines of one reason
NOTES = 10  # of one resource
DEPENDANTS = 10

OPEN = 10  # resources of a section that is open; larger ones are folded
LONG = 20  # lines of a resource that are open
FEW = 5  # the same where there are many: in a section that is folded, and of one cause

GITHUB = 65_536  # characters of a comment; Gitea takes about as many, GitLab a million
RESERVE = 1_536  # for what a pipeline adds of its own
LIMIT = GITHUB - RESERVE  # bytes of a comment
MINIMUM = 1_000  # bytes. In a smaller limit the mark, the verdict and the count of what is missing would not always fit

ORDERS = re.compile(r"(##\w*)\[")
"""The commands that runners of GitHub and Azure find anywhere in a line. The bracket must be escaped."""


WAS_SO = " (was so before)"
_PLACED = re.compile(r"^.+?:[0-9]+:[0-9]+: ")  # the file and the place in it, before a line of a reason
SAME = 3  # resources that are invalid for one cause, from which on they are told together


class PlanLine(NamedTuple):
    """One line with its mark: `+` added, `-` removed, `~` changed, `!` attention, `#` remark, `|` unchanged."""

    mark: str
    text: str

    def __str__(self) -> str:
        """Return the mark, then the text if there is any."""
        return f"{self.mark} {self.text}" if self.text else self.mark


def clean_text(text: str, limit: int = NAME) -> str:
    """Return the text on one line, harmless and bounded."""
    shown = visible(text[:limit] if len(text) > limit else text)
    if "##" in shown:
        shown = ORDERS.sub(r"\1\\x5b", shown)
    if "<!--" in shown:
        shown = shown.replace("<!--", r"<\x21--")
    return shown if len(text) <= limit else f"{shown}... ({len(text):,} characters)"


def status_title(one: PlanStatus | NamedResource) -> str:
    """Return kind and name; the place for a document without a known name."""
    if isinstance(one, PlanStatus):
        return clean_text(one.title, 2 * NAME)
    return clean_text(f"{one.kind} {one.name}", 2 * NAME)


def word(one: PlanStatus) -> str:
    """Return the word for a status, or for a held deletion; for a renamed resource, its former name."""
    if one.renamed and one.status in (UpdateStatus.CREATED, UpdateStatus.DEPRECATED):
        return f"{one.status.value}, was {clean_text(one.renamed)} before, with an equal spec"
    return "held" if one.held else one.status.value


def place_at_line(place: PlanPlace) -> str:
    """Return `path:line`."""
    return f"{clean_text(place.path)}:{place.line}"


def status_reason(one: PlanStatus) -> Iterator[PlanLine]:
    """Yield the lines of the reason. Lines from before the change are marked."""
    lines = (one.reason or "").strip("\n").split("\n")
    for line in lines[:REASONS]:
        if line:
            yield PlanLine("!", f"{clean_text(line, LINE)}{WAS_SO if line in one.reasons_before else ''}")
    if len(lines) > REASONS:
        yield PlanLine("#", f"and {counted(len(lines) - REASONS, 'more line')}")


class ResourceGroup(NamedTuple):
    """The resources of one folder with the same owners; or, from any folder, those that are invalid for the same
    `cause`, which is then shown once for all.
    """

    entry: PlanEntry
    statuses: list[PlanStatus]
    folder: str = ""
    owners: tuple[str, ...] = ()
    cause: tuple[PlanLine, ...] = ()

    @property
    def heading(self) -> str:
        """The folder, or the number of resources with the cause."""
        if self.cause:
            return f"{counted(len(self.statuses), 'resource')}, of one cause"
        if self.statuses[0].at is None:
            return "without a file"
        return clean_text(self.folder) if self.folder else "./"

    @property
    def owned_by(self) -> tuple[str, ...]:
        """The first owners, as many as fit into a heading."""
        rest = len(self.owners) - OWNERS
        shown = tuple(clean_text(one, NAME) for one in self.owners[:OWNERS])
        return (*shown, f"and {rest} more") if rest > 0 else shown


def resource_groups(found: Iterable[tuple[PlanEntry, PlanStatus]]) -> Iterator[ResourceGroup]:
    """Yield groups, those of one cause first, then in the order of their first resources; the order inside a group
    stays. The deletion of a renamed resource is shown together with the new name.
    """
    shown = [(entry, one) for entry, one in found if not (one.renamed and one.status is UpdateStatus.DELETED)]
    causes: defaultdict[tuple[str, ...], list[tuple[PlanEntry, PlanStatus]]] = defaultdict(list)
    for entry, one in shown:
        if one.status is UpdateStatus.INVALID and one.reason and not one.existing and not one.reasons_before:
            causes[entry.name, *(_PLACED.sub("", line) for line in one.reason.split("\n"))].append((entry, one))
    together = set[int]()
    for pairs in causes.values():
        if len(pairs) >= SAME:
            together.update(id(one) for _, one in pairs)
            entry, first = pairs[0]
            lines = (_PLACED.sub("", line) for line in (first.reason or "").split("\n"))
            cause = status_reason(replace(first, reason="\n".join(lines)))
            yield ResourceGroup(entry, [one for _, one in pairs], cause=tuple(cause))
    seen: dict[tuple[str, bool, str, tuple[str, ...]], ResourceGroup] = {}
    for entry, one in shown:
        if id(one) not in together:
            key = (entry.name, one.at is None, one.folder, one.owners)
            if key not in seen:
                seen[key] = ResourceGroup(entry, [], one.folder, one.owners)
            seen[key].statuses.append(one)
    yield from seen.values()


def beside(one: PlanStatus) -> Iterator[PlanLine]:
    """Yield the lines after the fields: omitted fields, warnings, broken references, dependants."""
    if one.fields_left_out:
        yield PlanLine("#", f"and {counted(one.fields_left_out, 'more field')}")
    yield from status_notes(one)
    for named in one.unresolved[:DEPENDANTS]:
        yield PlanLine("!", f"unresolved: {status_title(named)}{where(named.at, one.at)}")
    if len(one.unresolved) > DEPENDANTS:
        yield PlanLine("!", f"and {len(one.unresolved) - DEPENDANTS:,} more unresolved")
    if one.dependants or one.dependants_left_out:
        yield PlanLine("#", affects(one))


def status_notes(one: PlanStatus) -> Iterator[PlanLine]:
    """Yield warnings and other notes."""
    yield from (PlanLine("!", f"note: {clean_text(note, LINE)}") for note in one.notes[:NOTES])
    if len(one.notes) > NOTES:
        yield PlanLine("#", f"and {counted(len(one.notes) - NOTES, 'more note')}")


def briefly(one: PlanStatus) -> str:
    """Return `: the first line (and 2 more lines)`; empty without a line."""
    found = [*status_reason(one), *beside(one)]
    more = f" (and {counted(len(found) - 1, 'more line')})" if len(found) > 1 else ""
    return f": {found[0].text}{more}" if found else ""


def affects(one: PlanStatus) -> str:
    """Return `affects: Configuration web, Configuration api (and 12 more)`."""
    shown = ", ".join(status_title(named) for named in one.dependants[:DEPENDANTS])
    rest = one.dependants_left_out + max(len(one.dependants) - DEPENDANTS, 0)
    return f"affects: {shown}{f' (and {rest:,} more)' if rest else ''}" if shown else f"affects: {rest:,} more"


def where(place: PlanPlace | None, beside_: PlanPlace | None) -> str:
    """Return ` (line 5)` in the file that was already named, otherwise ` (path:5)`."""
    if place is None:
        return ""
    same = beside_ is not None and beside_.path == place.path
    return f" (line {place.line})" if same else f" ({place_at_line(place)})"


FLOW_SYMBOLS = {
    FlowChange.STOPPED: "-",
    FlowChange.STALE: "!",
    FlowChange.MOVED: "~",
    FlowChange.FILTERED: "~",
    FlowChange.RESUMED: "+",
    FlowChange.STARTED: "+",
}
MOST_FLOWS = 50  # of one entry; the rest is counted


def flow_lines(entry: PlanEntry) -> Iterator[PlanLine]:
    """Yield a line for each change in delivery."""
    for flow in entry.flows[:MOST_FLOWS]:
        yield PlanLine(FLOW_SYMBOLS[flow.change], flow_text(flow))
    if len(entry.flows) > MOST_FLOWS:
        yield PlanLine("#", f"and {counted(len(entry.flows) - MOST_FLOWS, 'more flow')}")


def parted_flows(entry: PlanEntry) -> tuple[list[PlanLine], list[PlanLine]]:
    """Return the lines of flows that are open, and those that are folded: all that end are open."""
    lines = list(flow_lines(entry))
    ends = sum(one.change in flows.ENDS for one in entry.flows)
    most = len(lines) if len(entry.flows) <= OPEN else max(OPEN, ends)
    return lines[:most], lines[most:]


def flow_text(flow: Flow) -> str:
    """Return one change of delivery as a line."""
    return clean_text(flow.sentence(), LINE)


UNRESOLVED = "unresolved"
HELD = "held"
UNFIT = "unfit for collectors"
WARNING = "warning"
CHANGES = "changes"
FLOW_STOPPED = "flow-stopped"
_NO_CHANGE = frozenset({UpdateStatus.UNCHANGED, UpdateStatus.NOT_FOUND})

FAIL_ON = (
    *(status.value for status in RISK if status is not UpdateStatus.UNCHANGED),
    UNRESOLVED,
    HELD,
    WARNING,
    FLOW_STOPPED,
    CHANGES,
)
"""The words of `--fail-on`: each status, a reference to a missing resource, a deletion that would be held, a resource
with a note, a flow that a new version does not deliver, and any change. `invalid` includes a Configuration that is
unfit for Collectors.
"""

STALE = "this plan is stale: a side of it or the store has moved since; ask for a new one"
AGAIN = "To make this plan again:"
REFUSED = "it is atomic, and something in it is refused"

FINE, CHANGED, TRIPPED = 0, 2, 3
GONE = frozenset({UpdateStatus.DELETED, UpdateStatus.IN_USE})  # from the head: the base alone has their files
SHORT = 7  # characters of a commit's id, as git shows it

SYMBOLS = {
    UpdateStatus.CREATED: "+",
    UpdateStatus.CONFIGURED: "~",
    UpdateStatus.DELETED: "-",
    UpdateStatus.IN_USE: "=",
    UpdateStatus.INVALID: "!",
    UpdateStatus.ERROR: "!",
    UpdateStatus.FORBIDDEN: "!",
    UpdateStatus.DEPRECATED: "#",
    UpdateStatus.NOT_FOUND: "?",
    UpdateStatus.UNCHANGED: ".",
}
_STORED = (UpdateStatus.CREATED, UpdateStatus.CONFIGURED, UpdateStatus.DELETED)
_WORDS = {
    UpdateStatus.CREATED: "to create",
    UpdateStatus.CONFIGURED: "to change",
    UpdateStatus.DELETED: "to delete",
}


@dataclass(slots=True)
class PlanTally:
    """The number of each status: `new` ones of the change, and `existing` ones."""

    new: Counter[UpdateStatus] = field(default_factory=Counter)
    existing: Counter[UpdateStatus] = field(default_factory=Counter)
    unchanged: int = 0
    untouched_files: int = 0
    held: int = 0  # deletions that would be held back, which are among `new`
    unresolved: int = 0  # resources that the change touched, with a reference that leads nowhere
    warned: int = 0  # resources that the change touched, with notes
    refused: int = 0  # entries of which nothing would be stored
    unfit: int = 0  # Configurations that cannot be rendered any more, or that a Collector refuses
    flows: Counter[FlowChange] = field(default_factory=Counter)

    @property
    def ended_flows(self) -> int:
        """The flows that the new version does not deliver."""
        return sum(self.flows[one] for one in flows.ENDS)

    def add(self, status: PlanStatus) -> None:
        """Count one more."""
        if status.existing:
            self.existing[status.status] += 1
        elif status.status is UpdateStatus.UNCHANGED:
            self.unchanged += 1
        else:
            self.new[status.status] += 1
        self.unresolved += bool(status.unresolved) and not status.existing
        self.warned += bool(status.notes) and not status.existing


def tally_plan(entries: Iterable[PlanEntry]) -> PlanTally:
    """Return the tally of all entries."""
    found = PlanTally()
    for entry in entries:
        found.unchanged += entry.unchanged
        found.untouched_files += entry.untouched_files
        found.held += entry.held
        found.refused += entry.refused
        found.unfit += sum(bool(one.violations) and not one.existing for one in entry.renderings)
        found.flows.update(flow.change for flow in entry.flows)
        for status in entry.statuses:
            found.add(status)
    return found


def first_line(plan: Plan) -> str:
    """Return the verdict in a form for a notification: `Plan for 3f2a1c9: +2 ~5 -1, 1 invalid, 412 unchanged`."""
    return f"Plan for {short_commit(plan.head)}{committed(plan.head)}: {plan_verdict(tally_plan(plan.entries))}"


def plan_verdict(found: PlanTally) -> str:
    """Return `+2 ~5 -1, 1 invalid, 412 unchanged`, which has only numbers and our own words."""
    signs = " ".join(f"{SYMBOLS[one]}{found.new[one]:,}" for one in _STORED if found.new[one])
    parts = [signs] if signs else []
    parts += [f"{found.new[one]:,} {one.value}" for one in RISK if one not in _STORED and found.new[one]]
    parts += [f"{found.held:,} {HELD}"] if found.held else []
    parts += [f"{found.unfit:,} {UNFIT}"] if found.unfit else []
    parts = parts or ["no changes"]
    parts += [f"{counted(found.ended_flows, 'flow')} stopped"] if found.ended_flows else []
    parts += [f"{found.unresolved:,} {UNRESOLVED}"] if found.unresolved else []
    parts += [counted(found.warned, WARNING)] if found.warned else []
    parts += [f"{found.unchanged:,} unchanged"] if found.unchanged else []
    parts += [f"{found.existing.total():,} already in trouble"] if found.existing else []
    parts += [f"{counted(found.refused, 'entry', 'entries')} refused"] if found.refused else []
    return ", ".join(parts)


def last_line(found: PlanTally) -> str:
    """Return `Plan: 2 to create, 1 invalid; 412 unchanged, 9,990 files not read`, or that nothing changes."""
    rest = [f"{found.unchanged:,} unchanged"] if found.unchanged else []
    files = "file" if found.untouched_files == 1 else "files"
    rest += [f"{found.untouched_files:,} {files} not read"] if found.untouched_files else []
    rest += [f"{found.existing.total():,} already in trouble"] if found.existing else []
    counts = ((found.held, HELD), (found.unfit, UNFIT), (found.unresolved, UNRESOLVED))
    beside = [f"{number:,} {word}" for number, word in counts if number]
    told = ", ".join([*filter(None, [in_words(found.new)]), *beside])
    if not told:
        return " ".join(["No changes.", *([", ".join(rest) + "."] if rest else [])])
    return "; ".join([f"Plan: {told}", *([", ".join(rest)] if rest else [])])


def in_words(counts: Counter[UpdateStatus]) -> str:
    """Return `2 to create, 5 to change, 1 invalid`; empty when nothing occurs."""
    order = (*_STORED, *(one for one in RISK if one not in _STORED))
    return ", ".join(f"{counts[one]:,} {_WORDS.get(one, one.value)}" for one in order if counts[one])


def by_risk(plan: Plan) -> list[tuple[PlanEntry, PlanStatus]]:
    """Return every status of every entry, the riskiest first; statuses of equal risk are in the order of entries."""
    rank = {status: number for number, status in enumerate(RISK)}
    return sorted(plan.all, key=lambda pair: (pair[1].existing, rank[pair[1].status]))


class PlanSection(NamedTuple):
    """The resources of one status, or the existing ones."""

    summary: str
    is_open: bool
    groups: tuple[ResourceGroup, ...]

    def open_lines(self, group: ResourceGroup) -> int:
        """Return how many lines a resource has at most to be open."""
        return LONG if self.is_open and not group.cause else FEW


def sections(plan: Plan) -> Iterator[PlanSection]:
    """Yield a section for each status, the riskiest first, then one for the existing statuses."""
    pairs = by_risk(plan)
    for status in RISK:
        groups = tuple(
            resource_groups((entry, one) for entry, one in pairs if one.status is status and not one.existing)
        )
        shown = [one for group in groups for one in group.statuses]
        if shown:
            held = sum(one.held for one in shown)
            more = f", {held:,} {HELD}" if held else ""
            summary = f"{SYMBOLS[status]} {in_words(Counter({status: len(shown)}))}{more}"
            yield PlanSection(summary, len(shown) <= OPEN, groups)
    groups = tuple(resource_groups((entry, one) for entry, one in pairs if one.existing))
    if existing := sum(len(group.statuses) for group in groups):
        yield PlanSection(f"{existing:,} already in trouble: it was so before", False, groups)


def changes(plan: Plan) -> bool:
    """Return True if the change has any status except `unchanged`; refused and held ones count."""
    is_held = any(entry.held for entry in plan.entries)
    return is_held or any(not one.existing and one.status not in _NO_CHANGE for _, one in plan.all)


def tripped(plan: Plan, wanted: Collection[str]) -> tuple[str, ...]:
    """Return the wanted words that occur, in the order of FAIL_ON."""
    found = tally_plan(plan.entries)
    there = {status.value for status, number in found.new.items() if number}
    there |= {UNRESOLVED} if found.unresolved else set()
    there |= {HELD, UpdateStatus.DELETED.value} if found.held else set()  # an older server lists none of them
    there |= {UpdateStatus.INVALID.value} if found.unfit else set()
    there |= {WARNING} if found.warned else set()
    there |= {FLOW_STOPPED} if found.ended_flows else set()
    there |= {CHANGES} if changes(plan) else set()
    return tuple(word for word in FAIL_ON if word in there and word in wanted)


def exit_code(plan: Plan, *, detailed: bool, fail_on: Collection[str]) -> int:
    """Return the exit code: 3 if something of `fail_on` occurs, otherwise 2 if `detailed` and something changes."""
    if tripped(plan, fail_on):
        return TRIPPED
    return CHANGED if detailed and changes(plan) else FINE


def short_commit(tip: PlanTip) -> str:
    """Return the beginning of a commit's id."""
    return visible(tip.commit[:SHORT])


def address(plan: Plan, entry: PlanEntry, status: PlanStatus) -> str | None:
    """Return the address of a resource at the forge, in the side that has its file."""
    if status.at is None:
        return None
    return forges.line_address(entry.link, status.at, plan.base if status.status in GONE else plan.head)


def is_named(tip: PlanTip) -> bool:
    """Return True if a side has a name that says more than its commit, unlike a detached HEAD."""
    return tip.ref != "HEAD" and not tip.commit.startswith(tip.ref)


def committed(tip: PlanTip) -> str:
    """Return the words after the id of a side with uncommitted changes."""
    return " with uncommitted changes" if tip.worktree else ""


def is_comparison(plan: Plan) -> bool:
    """Decide if a plan merges nothing, but compares a commit with the store."""
    return plan.head == plan.base and plan.server is not None


def moved(plan: Plan, base: str) -> str:
    """Return a sentence if the base has commits that the head lacks, or has all commits of the head; otherwise ''.
    `base` is the name in the form of the rendering.
    """
    if not plan.ahead and not plan.head.worktree and not is_comparison(plan):
        how = "; with --worktree it plans what is not committed" if plan.server is None else ""
        return f"{base} has every commit of this already, so there is nothing to merge{how}"
    if not plan.behind:
        return ""
    has = "that this branch lacks is" if plan.behind == 1 else "that this branch lacks are"
    return f"{base} moved: {counted(plan.behind, 'commit')} {has} part of the plan"


def pasteable(command: str) -> str:
    """Return a command, or '' if a text could not show it in a form that can be pasted."""
    return command if clean_text(command, COMMAND) == command else ""


def revision(plan: Plan) -> str:
    """Return the revision of the store that the plan was made against, in words after the server's name."""
    return "" if plan.store_version is None else f", revision {plan.store_version} of its store"


def render_json(plan: Plan) -> bytes:
    """Return one JSON document on one line. Control characters are written with JSON's escapes, and so is the bracket
    of a runner's command (`##[add-mask]`): the document stays the same.
    """
    whole = {"formatVersion": FORMAT, **msgspec.to_builtins(replace(plan, entries=())), "counts": plan.counts}
    whole["entries"] = [_entry(entry) for entry in plan.entries]
    shown = visible_json(msgspec.json.encode(whole).decode())
    if "##" in shown:  # only in a string
        shown = ORDERS.sub(r"\1\\u005b", shown)
    return f"{shown}\n".encode()


def _entry(entry: PlanEntry) -> dict[str, Any]:
    told = {"flows": [flows.shown(flow) for flow in entry.flows]} if entry.flows else {}
    return {
        **msgspec.to_builtins(replace(entry, statuses=())),
        **told,
        "counts": entry.counts,
        "statuses": entry.statuses,
    }
