"""Attacks with references to secrets: to variables and files that are not theirs, and with the files."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

from reconciler.delivery import secrets
from reconciler.delivery.secrets import SecretDirectory, SecretSources, UnusableSecretFile, resolve_secrets
from reconciler.model.errors import Refused
from reconciler.model.type_checks import BROKEN_REFERENCE
from tests.scenarios.attacks.scene import FILE_SECRET, Scene, component, resource
from tests.scenarios.attacks.table import Attack, Attempt, Holds

ROUNDS = 500  # of a race
HEADER = f"202 invalid: /spec/parameters/1/value/A: {BROKEN_REFERENCE}"
OPEN = f"202 invalid: /spec/parameters/1/value: {BROKEN_REFERENCE}"


def header(text: str) -> Attempt:
    """A webhook of the attacker's own, whose header would carry what the reference stands for."""
    spec = component("webhook", hostname="e.example", headers={"A": text})
    return lambda scene: scene.apply(resource("Destination", "mine", spec))


def parameter(**values: object) -> Attempt:
    """The same with another parameter."""
    spec = component("webhook", hostname="e.example", **values)
    return lambda scene: scene.apply(resource("Destination", "mine", spec))


def committed(text: str) -> Attempt:
    """The same from Git."""
    spec = component("webhook", hostname="e.example", headers={"A": text})
    return lambda scene: scene.push({"x.yaml": json.dumps(resource("Destination", "mine", spec))}).splitlines()[-1]


def alike(scene: Scene) -> str:
    """Return True when a file that exists, one that does not and one of another project can be told apart."""
    references = (
        "${file:none}",
        "${file:link}",
        "${file:../other/theirs}",
        "${file:theirs}",
        "${env:PATH}",
        "${env:NONE}",
    )
    return "\n".join(sorted({header(reference)(scene) for reference in references}))


def _secrets(scene: Scene) -> SecretDirectory:
    return SecretDirectory(scene.daemon.state / "secrets")


def reading(name: str) -> Attempt:
    """The last gate before the file: what is opened."""

    def attempt(scene: Scene) -> str:
        try:
            return f"read {len(secrets.read_secret_file(_secrets(scene), name, project='default'))} characters"
        except UnusableSecretFile:
            return "unusable"

    return attempt


def resolving(text: str) -> Attempt:
    """The last gate before the value."""

    def attempt(scene: Scene) -> str:
        environment = {"SERVICE_API_KEY": "canary-key", "HOME": "/", "DESTINATION_OTHER__X": "canary-other"}
        sources = SecretSources(environment, ("*", "DESTINATION_<PROJECT>__*"), _secrets(scene))
        try:
            return f"resolved to {len(resolve_secrets(text, sources=sources, project='default'))} characters"
        except Refused as refusal:
            return refusal.message.replace(str(scene.daemon.state), "<stateDir>")

    return attempt


def racing(swap: Callable[[Path, Path], None]) -> Attempt:
    """Swap a file for something else again and again while it is read: what was ever read of the victim's."""

    def attempt(scene: Scene) -> str:
        folder = scene.daemon.state / "secrets" / "default"
        file, victim = folder / "raced", scene.folder / "victim"
        victim.write_text("canary-of-the-victim")
        file.write_text("mine")
        stop = threading.Event()

        def run() -> None:
            while not stop.is_set():
                swap(file, victim)

        thread = threading.Thread(target=run, name="swapping")
        thread.start()
        read: set[str] = set()
        try:
            for _ in range(ROUNDS):
                try:
                    read.add(secrets.read_secret_file(_secrets(scene), "raced", project="default"))
                except UnusableSecretFile:
                    continue
        finally:
            stop.set()
            thread.join()
            file.unlink(missing_ok=True)
        return f"read of the victim: {sorted(read - {'mine'})}"

    return attempt


def _as_link(file: Path, victim: Path) -> None:
    other = file.with_name("swapped")
    for target in (victim, None):
        if target is None:
            other.write_text("mine")
        else:
            other.symlink_to(target)
        other.replace(file)


def _as_hard_link(file: Path, victim: Path) -> None:
    other = file.with_name("swapped")
    os.link(victim, other)
    other.replace(file)
    other.write_text("mine")
    other.replace(file)


def _key(name: str, attempt: Attempt, answer: str) -> Attack:
    return Attack(name, Holds.KEY, attempt, answer)


def _files(name: str, attempt: Attempt, answer: str) -> Attack:
    return Attack(name, Holds.FILES, attempt, answer)


_REFERENCES = (
    _key("${file:../../etc/passwd}", header("${file:../../etc/passwd}"), HEADER),
    _key("${file:/etc/passwd}", header("${file:/etc/passwd}"), HEADER),
    _key("${file:..%2f..%2fetc%2fpasswd}", header("${file:..%2f..%2fetc%2fpasswd}"), HEADER),
    _key("${file:.hidden}", header("${file:.hidden}"), HEADER),
    _key("${env:SERVICE_API_KEY}", header("${env:SERVICE_API_KEY}"), HEADER),
    _key("${env:service_api_key}", header("${env:service_api_key}"), HEADER),
    _key("${env:PATH}", header("${env:PATH}"), HEADER),
    _key("the variable of another project", header("${env:DESTINATION_OTHER__TOKEN}"), HEADER),
    _key("a variable with a default, as a shell has it", header("${env:DESTINATION_DEFAULT__TOKEN:-x}"), HEADER),
    _key("one reference in another", header("${env:DESTINATION_${env:DESTINATION_DEFAULT__TOKEN}}"), HEADER),
    _key("a file of another project", header("${file:theirs}"), HEADER),
    _key("a good reference where the value is shown", parameter(path="/${env:DESTINATION_DEFAULT__TOKEN}"), OPEN),
    _key("a good reference in what is sent", parameter(content_type="${env:DESTINATION_DEFAULT__TOKEN}"), OPEN),
    _key("which files and variables there are, by the errors", alike, HEADER),
    _key("a certificate ../../store.db", parameter(ca_file="../../store.db"), OPEN),
    _key("a certificate /etc/passwd", parameter(ca_file="/etc/passwd"), OPEN),
    Attack(
        "${env:SERVICE_API_KEY} in Git",
        Holds.PUSH,
        committed("${env:SERVICE_API_KEY}"),
        f"invalid Destination/mine: x.yaml:1:205: /spec/parameters/1/value/A: {BROKEN_REFERENCE}",
    ),
)

_FILES = (
    _files("a link in the secrets directory", header("${file:link}"), HEADER),
    _files("a folder that is a link in the secrets directory", header("${file:folder/passwd}"), HEADER),
    _files("a hard link in the secrets directory", header("${file:hard}"), HEADER),
    _files("a pipe in the secrets directory", header("${file:pipe}"), HEADER),
    _files("a file of 65 KiB in the secrets directory", header("${file:large}"), HEADER),
    _files("a link, at the last gate", reading("link"), "unusable"),
    _files("a folder that is a link, at the last gate", reading("folder/passwd"), "unusable"),
    _files("../../etc/passwd, at the last gate", reading("../../etc/passwd"), "unusable"),
    _files("a pipe, at the last gate", reading("pipe"), "unusable"),
    _files("what is meant to be read is read", reading("token"), f"read {len(FILE_SECRET)} characters"),
    _files("a file that is swapped for a link while it is read", racing(_as_link), "read of the victim: []"),
    _files("a file that is swapped for a hard link while it is read", racing(_as_hard_link), "read of the victim: []"),
    _files(
        "${env:SERVICE_API_KEY} at the last gate, with a pattern for all",
        resolving("${env:SERVICE_API_KEY}"),
        "`${env:SERVICE_API_KEY}` leads to nothing: give the service a variable of this name that is not empty "
        "and that "
        "`secrets.env` lets the project see, and restart it.",
    ),
    _files(
        "an unresolvable reference",
        resolving("Bearer ${file:none}"),
        "`${file:none}` leads to nothing: put a file of text, not empty and of at most 64 KiB, at "
        "<stateDir>/secrets/default/none, which the service can read and to which no link leads.",
    ),
)

ATTACKS = (*_REFERENCES, *_FILES)
