"""Attacks by somebody who may propose a branch, as a fork's pull request does, and reads plans with a viewer's key."""

import http.client
import json
import re

from tests.scenarios.attacks.pushing import BOMB
from tests.scenarios.attacks.scene import ENVIRONMENT, SECONDS, SECRET, Scene, component, resource, told
from tests.scenarios.attacks.table import Attack, Attempt, Holds

PULL = "refs/pull/{}/head"
MISSING = "There is no such repository; GET /v1/repositories lists those that are watched."
NOWHERE = re.compile(r"404 /\S+/pushed has nothing to propose at '[^']+'; push it, or name one of [^\n]+")


def proposed(scene: Scene, *entries: tuple[str, bytes, bytes], number: int, onto: str | None = None) -> str:
    """A pull request with these entries at the root, beside what there is; its commit."""
    own = ("40000", b"own", scene.pushed.git("rev-parse", f"{scene.base}:own"))
    more = [(mode, name, scene.pushed.blob(content)) for mode, name, content in entries]
    tree = scene.pushed.tree(*sorted((own, *more), key=lambda entry: entry[1] + b"/" * (entry[0] == "40000")))
    commit = scene.pushed.git("commit-tree", "-m", "Propose", "-p", onto or scene.base, tree)
    scene.pushed.git("update-ref", PULL.format(number), commit)
    return commit


def plan(scene: Scene, *, repository: str = "pushed", head: str = PULL.format(1), base: str | None = None) -> str:
    """Return what a viewer gets to read of a plan, less its id and what the commits are called."""
    body = {"repository": repository, "head": head} | ({} if base is None else {"base": base})
    connection = http.client.HTTPConnection(scene.daemon.host, scene.daemon.port, timeout=SECONDS)
    try:
        connection.request(
            "POST", "/v1/plan", json.dumps(body).encode(), {"Authorization": f"Bearer {scene.keys['viewer']}"}
        )
        answer = connection.getresponse()
        content = json.loads(answer.read())
    finally:
        connection.close()
    found = content.get("plan")
    if found is None:
        return told(answer.status, content)
    return json.dumps({name: found[name] for name in ("counts", "notes", "refused", "statuses")}, sort_keys=True)


def asking(head: str, **body: str) -> Attempt:
    """A plan of something that is there already, or is not."""
    return lambda scene: plan(scene, head=head, **body)


def proposing(mode: str, name: bytes, content: bytes | str) -> Attempt:
    """A plan of one entry more."""

    def attempt(scene: Scene) -> str:
        proposed(scene, (mode, name, content.encode() if isinstance(content, str) else content), number=1)
        return plan(scene)

    return attempt


def hook(token: str) -> bytes:
    """A document of the victim's name, with a guess."""
    spec = component("webhook", hostname="logs.example.org", path="/in", headers={"Authorization": token})
    return json.dumps(resource("Destination", "hook", spec)).encode()


def guessing(scene: Scene) -> str:
    """Return True when a right guess at a secret is answered otherwise than a wrong one."""
    answers = set()
    for guess in (SECRET, "wrong"):
        proposed(scene, ("100644", b"x.yaml", hook(guess)), number=1)
        answers.add(plan(scene))
    return f"answers: {len(answers)}"


def guessing_in_both(scene: Scene) -> str:
    """The same, with the guess in a base of one's own as well."""
    answers = set()
    for guess in (SECRET, "wrong"):
        onto = proposed(scene, ("100644", b"x.yaml", hook(guess)), number=2)
        proposed(scene, ("100644", b"x.yaml", hook(guess)), ("100644", b"y.md", b"y"), number=1, onto=onto)
        answers.add(plan(scene, base=PULL.format(2)))
    return f"answers: {len(answers)}"


def listing_secrets(scene: Scene) -> str:
    """Tell if a file of another project, one that no reference may lead to and one that does not exist differ."""
    answers = set()
    for reference in ("${file:none}", "${file:theirs}", "${file:link}", "${file:../other/theirs}", "${env:PATH}"):
        spec = component("webhook", hostname="a.example.org", headers={"A": reference})
        proposed(scene, ("100644", b"x.yaml", json.dumps(resource("Destination", "mine", spec)).encode()), number=1)
        # What is no whole reference by its spelling counts as a secret itself, and is not shown.
        told = re.sub(r"\d+", "0", plan(scene)).replace(reference, "<reference>").replace("(sensitive)", "<reference>")
        answers.add(told.replace('"sensitive": true, ', "").replace(', "sensitive": true', ""))
    return f"answers: {len(answers)}"


def resolving(scene: Scene) -> str:
    """Return what a plan shows of a reference that leads somewhere."""
    spec = component("webhook", hostname="a.example.org", headers={"A": "${env:DESTINATION_DEFAULT__TOKEN}"})
    proposed(scene, ("100644", b"x.yaml", json.dumps(resource("Destination", "mine", spec)).encode()), number=1)
    return f"shown: {ENVIRONMENT in plan(scene)}"


def hidden(scene: Scene) -> str:
    """A commit that the remote holds, and none of the refs that may be proposed leads to."""
    commit = proposed(scene, ("100644", b"x.yaml", b"x: 1"), number=3)
    scene.pushed.git("update-ref", "-d", PULL.format(3))
    scene.pushed.git("update-ref", "refs/hidden/x", commit)
    return plan(scene, head=commit)


def _row(name: str, attempt: Attempt, answer: str | re.Pattern[str]) -> Attack:
    return Attack(f"proposed: {name}", Holds.PROPOSE, attempt, answer)


def _linked(path: str) -> str:
    note = f'"{path} is not read: it is a symbolic link, which is not followed."'
    return UNCHANGED.replace('"notes": []', f'"notes": [{note}]')


def _nothing(pattern: str) -> re.Pattern[str]:
    """A plan in which something is told and nothing would be stored."""
    return re.compile(r'\{"counts": \{"invalid": 1, "unchanged": 5\}, .*' + pattern + ".*")


UNCHANGED = '{"counts": {"unchanged": 5}, "notes": [], "refused": false, "statuses": []}'

ATTACKS = (
    _row("a guess at a secret", guessing, "answers: 1"),
    _row("a guess at a secret, in a base of one's own too", guessing_in_both, "answers: 1"),
    _row("which files and variables there are", listing_secrets, "answers: 1"),
    _row("the value of a reference", resolving, "shown: False"),
    _row("in another project", asking(PULL.format(1), repository="elsewhere"), f"404 {MISSING}"),
    _row("in no repository", asking(PULL.format(1), repository="nowhere"), f"404 {MISSING}"),
    _row("a commit that no branch leads to", hidden, NOWHERE),
    _row("a ref that is not for everybody", asking("refs/hidden/x"), NOWHERE),
    _row("a base that is not for everybody", asking(PULL.format(1), base="refs/hidden/x"), NOWHERE),
    _row("an option of git as a head", asking("--upload-pack=touch /tmp/x"), re.compile("400 .*")),
    _row("a refspec as a head", asking("+refs/heads/main:refs/heads/x"), re.compile("400 .*")),
    _row("a pattern as a head", asking("refs/heads/*"), re.compile("404 .*")),
    _row("a link to a file of the system", proposing("120000", b"x.yaml", "/etc/passwd"), _linked("x.yaml")),
    _row("a link in place of what is followed", proposing("120000", b"own.yaml", "own/d0.yaml"), _linked("own.yaml")),
    _row("a name that turns the line", proposing("100644", "\u202elmay.yaml".encode(), "x: ["), _nothing(r"\\\\u202e")),
    _row("a name with a new line", proposing("100644", b"x\n::error::.yaml", "x: ["), _nothing(r"x\\\\u000a::error")),
    _row("a bomb of aliases", proposing("100644", b"x.yaml", f"x:\n{BOMB}\n"), _nothing("an alias counts as")),
    _row("settings of git", proposing("100644", b".gitattributes", "* filter=evil merge=evil diff=evil\n"), UNCHANGED),
)
