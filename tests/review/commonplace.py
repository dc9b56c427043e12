"""A strict reader of our own comments: it accepts what the skin may write, line by line, and nothing else.

What comes from outside is accepted inside code alone. So a text that got out of its code, an open fence or fold, or a
line that begins with an order of a forge is refused.
"""

import re

_SPAN = r"§"  # stands for a span of code, taken out before
_LINK = rf"(?:{_SPAN}|\[{_SPAN}\]\(https?://[^\s()<>`\"*]+\))"
_SPANS = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_TOLD = r"(?:no changes|[+\\~\-\d, ]*)[a-z\-\d, ]*"
_WORDS = "with uncommitted changes"
_ROWS = [
    rf"### No plan for {_SPAN}: {_SPAN}",
    r"- and \d+ more files?",
    rf"### Plan for {_SPAN}(?: {_WORDS})?: {_TOLD}",
    rf"Merging {_SPAN}(?: \({_SPAN}\))? into {_SPAN}(?: \({_SPAN}\))?\.",
    rf"\*\*Note:\*\* {_SPAN} has every commit of this already, so there is nothing to merge"
    r"(?:; with --worktree it plans what is not committed)?\.",
    rf"\*\*Note:\*\* {_SPAN} moved: [\d]+ commits? that this branch lacks (?:is|are) part of the plan\.",
    r"\*\*Note:\*\* this plan is stale: [a-z ;]+\.",
    rf"\*\*Note:\*\* nothing of the entry {_SPAN} would be stored: [a-z ,]+\.",
    rf"Against {_SPAN}(?:, revision \d+ of its store)?\.(?: In the console: {_LINK}(?:, {_LINK})*\.)?",
    r"\| entry \| folder \| what changes \|",
    r"\|---\|---\|---\|",
    rf"\| {_SPAN} \| {_SPAN} \| {_TOLD} \|",
    r"and \d+ more (?:entry|entries)",
    rf"- entry {_SPAN}: {_SPAN}",
    r"- and \d+ more notes?",
    r"To make this plan again:",
    rf"\*\*[\d,]+ unfit for collectors(?: of the entry {_SPAN})?:\*\*",
    r"what collectors run: (?:\d+ changes? not shown)?(?:(?:; )?\d+ more Configurations? not compared, [a-z ]+)*",
    rf"- {_SPAN}(?: in {_LINK})?(?:: {_SPAN})?(?: \(\d+ lines? not shown\))?",
    rf"(?:entry {_SPAN}, )?{_SPAN}(?:, owned by {_SPAN}(?:, {_SPAN})*)?",
    rf"(?:entry {_SPAN}, )?\d+ resources, of one cause",
    r"\*\*[\d,]+ resources? (?:is|are) not shown:\*\* [a-z\-\d, ]+\. For the whole plan run §\.",
]
_ROW = re.compile("|".join(f"(?:{row})" for row in _ROWS))
_SUMMARY = r"(?:<b>(?:[-+~=!?#.] )?[a-z\-\d,: ]+</b>|[\d,]+ (?:lines|more flows?))"
_OPEN = re.compile(rf"<details(?: open)?><summary>{_SUMMARY}</summary>")
_FENCE = re.compile(r"(`{3,})(?:diff|sh)")


def faults(comment: str) -> list[str]:
    """The lines that the skin may not have written where they stand."""
    mark, *lines = comment.split("\n")
    found = [] if re.fullmatch(r"<!-- reconciler-plan: [\w./-]+ -->", mark, re.ASCII) else [mark]
    fence, folds = "", 0
    for line in lines:
        if fence:
            if line == fence:
                fence = ""
            elif not re.fullmatch(r"[-+!|#](?: .+)?|reconciler plan .+", line) or re.fullmatch(
                rf" {{0,3}}{fence}`*\s*", line
            ):
                found.append(line)
        elif opened := _FENCE.fullmatch(line):
            fence = opened[1]
        elif _OPEN.fullmatch(line):
            folds += 1
        elif line == "</details>":
            folds -= 1
        elif line and not _ROW.fullmatch(_SPANS.sub("§", line.replace("§", "?"))):
            found.append(line)
        if folds not in (0, 1, 2):
            found.append(line)
    return [*found, *([f"still open: {fence or folds}"] if fence or folds else [])]
