"""Attacks by somebody who writes files that the service reads: a watched repository, and words in the settings."""

import json
import os
import re
import subprocess
from pathlib import Path

from reconciler.git.refs import Followed, RefKind
from reconciler.git.remotes.sources import Source
from reconciler.model.errors import Refused
from reconciler.settings import loading
from tests.daemons import COMMAND, destination
from tests.repositories import Repository
from tests.scenarios.attacks.scene import Scene
from tests.scenarios.attacks.table import Attack, Attempt, Holds

HOOKS = ("pre-auto-gc", "post-update", "reference-transaction", "post-checkout", "proc-receive", "fsmonitor-watchman")
REPOSITORY_URL = "1:36: repositories[0].url"


def _set_after_the_commit(scene: Scene, configuration: dict[str, str]) -> str:
    """A commit that nothing but a file of refs tells of, in a repository with this configuration: what the run says."""
    repository, git = scene.pushed, scene.pushed.path / ".git"
    repository.git("switch", "--quiet", "--create", "aside")
    repository.write("note.yaml", "a: 1\n")
    commit = repository.commit()
    repository.git("switch", "--quiet", "main")
    repository.git("branch", "--quiet", "--delete", "--force", "aside")
    before = (git / "config").read_text()
    try:
        (git / "config").write_text(before + "".join(f"[{key}]\n\t{value}\n" for key, value in configuration.items()))
        (git / "refs" / "heads" / "main").write_text(f"{commit}\n")
        run = scene.daemon.run_of("pushed", commit)
        state = scene.daemon.repository("pushed")["state"]
    finally:
        (git / "config").write_text(before)
        repository.rewind(scene.base)
    return f"{run['outcome']}, {state}; executed: {scene.executed()}"


def configured(**configuration: str) -> Attempt:
    """A repository whose configuration names a program, as `section__key`, with `.` for a space."""

    def attempt(scene: Scene) -> str:
        lines = {}
        for name, trap in configuration.items():
            section, _, key = name.rpartition("__")
            lines[section.replace("__", " ")] = f"{key} = {scene.trap(trap)}"
        return _set_after_the_commit(scene, lines)

    return attempt


def hooks(scene: Scene) -> str:
    """A repository whose hooks are programs."""
    folder = scene.folder / "hooks"
    folder.mkdir(exist_ok=True)
    for name in HOOKS:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(scene.trap(f"hook-{name}"))
    return _set_after_the_commit(scene, {"core": f"hooksPath = {folder}"})


def included(scene: Scene) -> str:
    """A repository whose configuration includes another file."""
    more = scene.folder / "more"
    more.write_text(f"[uploadpack]\n\tpackObjectsHook = {scene.trap('included')}\n")
    return _set_after_the_commit(scene, {"include": f"path = {more}"})


def _told_of(scene: Scene) -> str:
    """Return what the state says of the repository after a look that somebody asked for."""
    scene.daemon.reconcile("pushed")
    shown = scene.daemon.repository("pushed")
    return f"{shown['state']}: {shown['message']}".replace(str(scene.pushed.path), "URL")


def _put_back(scene: Scene) -> None:
    scene.daemon.reconcile("pushed")
    scene.daemon.state_of("pushed", "ready")


def linked(name: str, target: str) -> Attempt:
    """A file of the repository that is a link to another: `state/...` of the service, or one that it may read."""

    def attempt(scene: Scene) -> str:
        place = scene.pushed.path / ".git" / name
        kept = place.with_name("kept")
        if place.exists():
            place.rename(kept)
        of_state = scene.daemon.state / target.removeprefix("state/")
        place.symlink_to(of_state if target.startswith("state/") else scene.folder / target)
        try:
            return _told_of(scene)
        finally:
            place.unlink()
            if kept.exists():
                kept.rename(place)
            _put_back(scene)

    return attempt


def alternates_of_a_mirror(scene: Scene) -> str:
    """A branch that is a link to a commit in the mirror of another repository, and its objects beside our own."""
    git, mirrors = scene.pushed.path / ".git", scene.daemon.state / "mirrors"
    mirror = next(one for one in sorted(mirrors.iterdir()) if one.name.startswith("platform"))
    alternates = git / "objects/info/alternates"
    alternates.write_text(f"{mirror}/objects\n")
    (git / "refs/heads/main").write_text(f"{scene.head}\n")
    try:
        return _told_of(scene)
    finally:
        alternates.unlink()
        scene.pushed.git("update-ref", "refs/heads/main", scene.base)
        _put_back(scene)


def pipe(scene: Scene) -> str:
    """A pipe where git and the watch read a file."""
    place = scene.pushed.path / ".git/commondir"
    os.mkfifo(place)
    try:
        return _told_of(scene)
    finally:
        place.unlink()
        _put_back(scene)


def setting(url: str) -> Attempt:
    """A repository's URL in the settings file."""

    def attempt(scene: Scene) -> str:
        file = scene.folder / "settings.json"
        file.write_text(json.dumps({"repositories": [{"name": "mine", "url": url}]}))
        try:
            loading.load(config=file, environment={}, overrides={})
        except loading.SettingsError as error:
            return "\n".join(line.replace(f"{file}:", "") for line in error.lines)
        return "accepted"

    return attempt


def operand(url: str, branch: str = "main") -> Attempt:
    """The same, past the settings, at the last gate before git."""

    def attempt(_: Scene) -> str:
        try:
            Source(url=url, follows=Followed(RefKind.BRANCH, branch))
        except Refused as refusal:
            return refusal.message
        return "accepted"

    return attempt


def serving(**settings: object) -> Attempt:
    """A start with these settings: what the program prints."""

    def attempt(scene: Scene) -> str:
        file = scene.folder / "serve.json"
        file.write_text(json.dumps({**settings, "stateDir": str(scene.folder / "none")}))
        ran = subprocess.run([COMMAND, "serve", "--config", file], capture_output=True, timeout=30, check=False)
        return f"{ran.returncode} {(ran.stdout + ran.stderr).decode().partition(str(file))[2]}".strip()

    return attempt


def readable_by_others(scene: Scene) -> str:
    """Every file of the state that somebody else on the machine may read."""
    files = [scene.daemon.state, *scene.daemon.state.iterdir()]
    open_ = [
        str(file.relative_to(scene.daemon.state)) for file in files if file.stat().st_mode & 0o077 and file.is_file()
    ]
    return f"{oct(scene.daemon.state.stat().st_mode & 0o777)}, files for others: {open_}"


def processes(scene: Scene) -> str:
    """Return what the worker's environment and command line hold, which its user's other processes may read."""
    reader = Path(f"/proc/{scene.daemon.reader()}")
    data = (reader / "environ").read_bytes() + (reader / "cmdline").read_bytes()
    command = Path(f"/proc/{scene.daemon.process.pid}/cmdline").read_bytes()
    return f"a secret in either: {b'canary-' in data + command}"


def another_daemon(scene: Scene) -> str:
    """A second process on the same store."""
    file = scene.folder / "second.json"
    file.write_text(json.dumps({"stateDir": str(scene.daemon.state), "listen": "127.0.0.1:0"}))
    environment = {"PATH": os.environ["PATH"]}
    ran = subprocess.run(
        [COMMAND, "serve", "--config", file], capture_output=True, timeout=30, check=False, env=environment
    )
    return f"{ran.returncode} {ran.stderr.decode().strip().replace(str(scene.daemon.state), '<state>')}"


def moved_away(scene: Scene) -> str:
    """A repository in place of the watched one, with another history: what the state says."""
    other = Repository.init(scene.folder / "impostor")
    other.write("own/d0.yaml", destination("d0", "evil"))
    commit = other.commit()
    real = scene.folder / "kept"
    scene.pushed.path.rename(real)
    other.path.rename(scene.pushed.path)
    try:
        scene.daemon.reconcile("pushed")
        run = scene.daemon.run_of("pushed", commit)
        return f"{run['outcome']}, {scene.daemon.repository('pushed')['state']}"
    finally:
        scene.pushed.path.rename(scene.folder / "impostor")
        real.rename(scene.pushed.path)


def _file(name: str, attempt: Attempt, answer: str | re.Pattern[str]) -> Attack:
    return Attack(name, Holds.FILES, attempt, answer)


def _setting(name: str, attempt: Attempt, answer: str | re.Pattern[str]) -> Attack:
    return Attack(name, Holds.SETTINGS, attempt, answer)


LISTENER = (
    "1 :1:2: listen: must be on this machine (127.0.0.1 or [::1]), unless tls has both files or `insecure: true` is set"
)
NOTHING = "succeeded, ready; executed: []"
MEND = "let its owner mend that, or correct `url`"

_REPOSITORY = (
    _file("core.fsmonitor of the watched repository", configured(core__fsmonitor="core-fsmonitor"), NOTHING),
    _file(
        "uploadpack.packObjectsHook of the watched repository", configured(uploadpack__packObjectsHook="pack"), NOTHING
    ),
    _file("core.hooksPath of the watched repository", hooks, NOTHING),
    _file("a configuration that includes another", included, NOTHING),
    _file(
        "core.sshCommand, core.gitProxy and core.pager",
        configured(core__sshCommand="ssh", core__pager="pager"),
        NOTHING,
    ),
    _file(
        "packed-refs that is a link to the first admin's password",
        linked("packed-refs", "state/initial-admin-password"),
        "unreachable: URL cannot be read (`git fsck` there says why); mend that, and it is read",
    ),
    _file(
        "shallow that is a link to a stored secret",
        linked("shallow", "state/secrets/default/token"),
        "ready: None",
    ),
    _file(
        "packed-refs that is a link to a secret elsewhere",
        linked("packed-refs", "hook"),
        "unreachable: URL cannot be read (`git fsck` there says why); mend that, and it is read",
    ),
    _file(
        "a branch that is a link into the state directory",
        linked("refs/heads/main", "state/secrets/default/token"),
        "unreachable: URL cannot be read (`git fsck` there says why); mend that, and it is read",
    ),
    _file(
        "the objects of another repository's mirror as alternates",
        alternates_of_a_mirror,
        f"unreachable: URL is not read, since its objects are in `stateDir`; {MEND}",
    ),
    _file(
        "a pipe where the repository names another folder",
        pipe,
        f"unreachable: URL is not read, since its commondir is not a file; {MEND}",
    ),
    _file("another repository in place of the watched one", moved_away, "refused, unrelated-root"),
    _file("the files of the store", readable_by_others, "0o700, files for others: []"),
    _file("the environment and command line of the processes", processes, "a secret in either: False"),
    _file(
        "a second service on the same store",
        another_daemon,
        re.compile(
            r"1 (?s:.*)error: another daemon \(process \d+\) uses the state directory <state>; stop it, or give "
            r"this one another `stateDir`"
        ),
    ),
)

_SETTINGS = (
    _setting(
        "URL ext::",
        setting("ext::sh -c true"),
        f"{REPOSITORY_URL}: must not use a remote helper (`name::address`), which runs a program; use https, ssh "
        f"or a path",
    ),
    _setting(
        "URL -oProxyCommand",
        setting("ssh://-oProxyCommand=true/a"),
        f"{REPOSITORY_URL}: must name a host, and neither host nor user may begin with a dash",
    ),
    _setting(
        "URL --upload-pack",
        setting("--upload-pack=true"),
        f"{REPOSITORY_URL}: must be a local path or an https, ssh or file URL",
    ),
    _setting(
        "a URL with a password",
        setting("https://u:canary-in-a-url@git.example/a"),
        f"{REPOSITORY_URL}: must not hold a user name or password; put them under credentials",
    ),
    _setting(
        "a URL over plain http",
        setting("http://git.example/a"),
        f"{REPOSITORY_URL}: must not use http:// beyond this machine, since nothing protects it; use https or ssh",
    ),
    _setting(
        "ext:: at the last gate before git",
        operand("ext::sh -c true"),
        "the URL of the repository must not use a remote helper (`name::address`), which runs a program; "
        "use https, ssh or a path",
    ),
    _setting(
        "--upload-pack at the last gate before git",
        operand("--upload-pack=true"),
        "the URL of the repository must be an absolute path or an https, ssh or file URL",
    ),
    _setting(
        "a branch that is an option",
        operand("/srv/a", "--upload-pack=true"),
        "'--upload-pack=true' is not a name that Git allows for a branch, tag or ref",
    ),
    _setting("a listener for everybody without TLS", serving(listen="0.0.0.0:0"), LISTENER),
)

ATTACKS = (*_REPOSITORY, *_SETTINGS)
