"""Attacks by somebody who may push to a watched repository: any bytes in any tree, with any words in the commit."""

import json
import re

from reconciler.planner.pruning import LEAVE_OUT
from tests.daemons import destination
from tests.scenarios.attacks.scene import Scene, component, resource
from tests.scenarios.attacks.table import Attack, Attempt, Holds

FLEET = "apiVersion: service/v1\nkind: Fleet\nmetadata: {name: f}\n"
UNTIL = f" Until then nothing is deleted. {LEAVE_OUT}"
FINE = "succeeded, ready"
# The commit holds nothing for the service. There is a run if the service did not see the branch go back before.
UNREAD = re.compile("(succeeded|no run), ready")
LINKED = "\nx.yaml is not read: it is a symbolic link, which is not followed."
IGNORING = ".serviceignore says which files count, and changes."
PARTIAL = "partial, ready\nNot stored as the head says: 1 {}; the run names them.\n"
LEVELS = zip("abcdef", "bcdefg", strict=True)
BOMB = "\n".join(
    ["  a: &a [x, x, x, x, x, x, x, x, x]", *(f"  {n}: &{n} [{', '.join([f'*{before}'] * 9)}]" for before, n in LEVELS)]
)


def pushing(*documents: str | bytes, path: str = "x.yaml") -> Attempt:
    """One file more."""
    (content,) = documents
    return lambda scene: scene.push({path: content})


def document(document: object) -> Attempt:
    """One document more, as JSON in YAML."""
    return pushing(json.dumps(document))


def entry(mode: str, name: bytes, content: bytes | None = None) -> Attempt:
    """One entry more at the root of the tree: a file, or something that git would never add."""
    return lambda scene: scene.push_tree((mode, name, "1" * 40 if content is None else scene.pushed.blob(content)))


def folder(name: bytes, *entries: tuple[bytes, bytes]) -> Attempt:
    """One folder more, of any name, with files in it."""

    def attempt(scene: Scene) -> str:
        files = [("100644", file, scene.pushed.blob(content)) for file, content in entries]
        return scene.push_tree(("40000", name, scene.pushed.tree(*files)))

    return attempt


def removing(*names: str) -> Attempt:
    """Files less."""

    def attempt(scene: Scene) -> str:
        for name in names:
            scene.pushed.remove(f"own/{name}.yaml")
        return scene.pushed_run(scene.pushed.commit())

    return attempt


def another_history(scene: Scene) -> str:
    """A new root."""
    scene.pushed.restart()
    scene.pushed.write("own/d0.yaml", destination("d0", "evil"))
    return scene.pushed_run(scene.pushed.commit())


def unread(reason: str) -> str:
    """Return what a run says of a file that cannot be read: it is told, and nothing is pruned."""
    first, *more = reason.split("\n")
    return "\n".join([f"partial, prune-held\n{first}.{UNTIL}", f"invalid: {first}", *more])


def refused(status: str, what: str) -> str:
    """Return what a run says of a resource that is not stored."""
    return PARTIAL.format(status) + f"{status} {what}"


def in_the_terminal(*command: str) -> Attempt:
    """Return what a command shows of a repository whose commits' authors and subjects act on a terminal."""
    return lambda scene: scene.command(*command)


def _row(name: str, attempt: Attempt, answer: str | re.Pattern[str]) -> Attack:
    return Attack(name, Holds.PUSH, attempt, answer)


_TEXTS = (
    _row(
        "billion laughs by aliases",
        pushing(f"{FLEET}spec:\n{BOMB}\n"),
        unread(
            "x.yaml:10:10: holds more than 100,000 values and keys (an alias counts as what it stands for); "
            "split it into "
            "smaller ones"
        ),
    ),
    _row(
        "100,000 levels of JSON",
        pushing("[" * 100_000, path="x.json"),
        unread("x.json:1:101: is nested deeper than 100 levels; flatten it"),
    ),
    _row(
        "a tag that makes Python call something",
        pushing(f"{FLEET}spec: !!python/object/apply:os.system [touch /nonexistent]\n"),
        unread("x.yaml:4:7: the tag is not allowed here; remove it, or quote text that begins with `!`"),
    ),
    _row(
        "a merge key",
        pushing(f"{FLEET}spec:\n  <<: {{a: 1}}\n"),
        unread("x.yaml:5:3: the merge key `<<` is not supported; write the merged keys out"),
    ),
    _row(
        "a number of a million digits in a file",
        pushing(f"{FLEET}spec: {{selector: {'9' * 1_000_000}}}\n"),
        unread(
            "x.yaml:4:18: the integer is outside -9223372036854775808 to 18446744073709551615; quote it to make it text"
        ),
    ),
    _row(
        "a file of 6 MB",
        pushing("a: " + "x" * 6_000_000),
        unread("x.yaml:1:1: the file has 6000003 bytes, and at most 5242880 are read; split it"),
    ),
    _row(
        "a NUL in a file",
        pushing("apiVersion: service/v1\0"),
        unread("x.yaml:1:23: holds a NUL character, so it is no text file; remove it"),
    ),
    _row(
        "a kind that acts on a terminal",
        pushing('apiVersion: service/v1\nkind: "\\e[2J"\nmetadata: {name: f}\n'),
        re.compile(r"partial, prune-held\nx\.yaml:2:7: /kind: is not a kind; [^\x1b]*"),
    ),
)

_DOCUMENTS = (
    _row(
        "the placeholder in Git",
        document(
            resource("Destination", "hook", component("webhook", hostname="e.example", headers={"A": "(sensitive)"}))
        ),
        refused(
            "invalid",
            "Destination/hook: x.yaml:1:205: /spec/parameters/1/value/A: `(sensitive)` is what the service shows "
            "instead of a "
            "value; send the value itself; in Git, write a reference such as `${env:NAME}`",
        ),
    ),
    _row(
        "take over another repository's resource",
        pushing(destination("web", "mine")),
        refused("forbidden", "Destination/web: owned by the repository platform; take it out of one of the two"),
    ),
    _row(
        "shadow the type of webhooks from Git",
        document(resource("DestinationType", "webhook", {"parameters": []})),
        refused("forbidden", "DestinationType/webhook: the name is reserved for what is built in; choose another"),
    ),
    _row(
        "id ../../x in Git",
        document(resource("Fleet", "f", id="../../x")),
        refused(
            "invalid",
            "Fleet/f: x.yaml:1:79: /metadata/id: must be 1 to 128 letters, digits, `-`, `_` or `.`, and begin "
            "with a letter or "
            "digit",
        ),
    ),
    _row(
        "the id of another resource in Git",
        document(resource("Fleet", "f", id="id-of-safe")),
        refused(
            "invalid", "Fleet/f: x.yaml:1:1: /metadata/id: another resource of the project has this id; leave it out"
        ),
    ),
    _row(
        "a second document of the same name",
        pushing(destination("d0", "evil")),
        re.compile(
            r"partial, ready\nNot stored [^\n]+\ninvalid Destination/d0: own/d0\.yaml:1:1: [^\n]+\ninvalid "
            r"Destination/d0: x\.yaml:1:1: [^\n]+"
        ),
    ),
)

_TREES = (
    _row("a link to /etc/passwd", lambda scene: scene.push_link("x.yaml", "/etc/passwd"), FINE + LINKED),
    _row("a folder that is a link", lambda scene: scene.push_link("more", "../../../../etc"), FINE),
    _row(
        "a link in place of a resource",
        lambda scene: scene.push_link("own/d0.yaml", "/etc/passwd"),
        f"partial, prune-held\nown/d0.yaml:1:1: gave resources and now is a symbolic link, which is not "
        f"followed; delete it or restore it.{UNTIL}",
    ),
    _row("a submodule", entry("160000", b"x.yaml"), FINE + LINKED.replace("symbolic link", "submodule")),
    _row(
        "a folder .git with a configuration",
        folder(b".git", (b"config", b"[core]\n\tfsmonitor = touch /nonexistent\n")),
        UNREAD,
    ),
    _row("a folder .GIT with a resource", folder(b".GIT", (b"x.yaml", FLEET.encode())), UNREAD),
    _row("a folder ..", folder(b"..", (b"x.yaml", FLEET.encode())), UNREAD),
    _row(
        "a file ../../x.yaml",
        entry("100644", b"../../x.yaml", FLEET.encode()),
        unread("..\\u002f..\\u002fx.yaml:1:1: has a name that no file should have; rename it"),
    ),
    _row(
        "a file name with a line end that forges a status",
        entry("100644", b"x\nunchanged Fleet f.yaml", b"kind: Nope\n"),
        unread("x\\u000aunchanged Fleet f.yaml:1:1: has a name that no file should have; rename it"),
    ),
    _row(
        "a file name that acts on a terminal",
        entry("100644", b"x\x1b[2J\x1b]0;evil\x07.yaml", b"kind: Nope\n"),
        unread("x\\u001b[2J\\u001b]0;evil\\u0007.yaml:1:1: has a name that no file should have; rename it"),
    ),
    _row(
        "120 folders in each other",
        pushing(FLEET, path="d/" * 120 + "x.yaml"),
        re.compile(
            r"failed, unsupported-format\nthe folder (d/)+ has more than 100 levels or too long a path; make it "
            r"flatter"
        ),
    ),
)

EMPTY = (
    "partial, empty\nThe head holds no resource at all, so nothing is deleted; 5 stay as they were: restore "
    "them, or release "
    "this with `reconciler approve`."
)
IGNORE_UNREAD = ".serviceignore:1:1: says which files count and cannot be read, so nothing below its folder changes: "

_PRUNES = (
    _row(
        "a .serviceignore of everything",
        pushing("*\n", path=".serviceignore"),
        re.compile(f"{re.escape(EMPTY)}( {re.escape(IGNORING)})?"),
    ),
    _row(
        "a .serviceignore that takes for ever",
        lambda scene: scene.push(
            {".serviceignore": "a*" * 40 + "b\n" + "**/" * 100 + "x\n", "a" * 200 + ".yaml": "a: 1\n"}
        ),
        f"{FINE}\n{IGNORING}",
    ),
    _row(
        "a .serviceignore that is a link",
        lambda scene: scene.push_link(".serviceignore", "/etc/passwd"),
        unread(f"{IGNORE_UNREAD}it is a symbolic link, which is not followed; make it a regular file, or remove it"),
    ),
    _row(
        "a .serviceignore of 200,000 lines",
        pushing("a\n" * 200_000, path=".serviceignore"),
        unread(f"{IGNORE_UNREAD}the file has 400000 bytes, and at most 65536 are read; split it"),
    ),
    _row(
        "a .serviceignore that is no text",
        pushing(b"\xff\0\n", path=".serviceignore"),
        unread(f"{IGNORE_UNREAD}its text is UTF-16, which PowerShell writes (byte 0xFF); save it as UTF-8"),
    ),
    _row("every file removed", removing("d0", "d1", "d2", "d3", "d4"), EMPTY),
    _row(
        "most files removed",
        removing("d0", "d1", "d2", "d3"),
        "partial, prune-held\nNothing is deleted: 4 of 5 resources would go, more than 25 percent (Destination "
        "d0, Destination d1, "
        "Destination d2, Destination d3); restore them, or release this with `reconciler approve`.",
    ),
    _row(
        "another history",
        another_history,
        "refused, unrelated-root\nThe head has no known history in common with the commit that was applied last, so "
        "nothing of it is "
        "applied; push that history back, or release this with `reconciler approve`.\nconfigured Destination/d0",
    ),
)

_HARMLESS = r"[^\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]*"  # the word in between, and nothing that acts on a terminal

_TERMINAL = tuple(
    _row(
        f"a commit that acts on a terminal, in `reconciler {' '.join(command)}`",
        in_the_terminal(*command),
        re.compile(f"{_HARMLESS}{shown}{_HARMLESS}"),
    )
    for command, shown in (
        (("status",), "pushed +default"),
        (("runs",), "pushed +succeeded"),
        (("history", "destination", "d0"), "evil.*Ada <ada@example.com>"),
        (("get", "destinations", "-o", "wide"), "own/d0.yaml"),
        (("get", "destination", "d0", "-o", "yaml"), "author: .*evil.*Ada <ada@example.com>"),
        (("get", "destination", "d0", "-o", "json"), '"author": ".*evil.*Ada <ada@example.com>"'),
    )
)

ATTACKS = (*_TEXTS, *_DOCUMENTS, *_TREES, *_PRUNES, *_TERMINAL)
