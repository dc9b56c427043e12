"""Files of an installation beside the program: the unit and its companions, examples, docs, and an image's recipe."""

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest

from reconciler.settings import loading
from reconciler.settings.loading import SettingsError
from reconciler.settings.scalars import Address
from tests import daemons, needs
from tests.daemons import destination, watched
from tests.repositories import Repository
from tests.servers import sinks
from tests.servers.certificates import Authority

ROOT = Path(__file__).parents[2]
SYSTEMD = ROOT / "systemd"
# The temporary folders may be a file system of their own.
READ_ONLY = (
    'mount --rbind / "$1" && mount -o remount,bind,ro "$1" '
    '&& mount -o remount,bind,ro,nosuid,nodev "$1$(stat -c %m "$2")" && mount --bind "$2" "$1$2" '
    '&& root=$1 && shift 2 && exec chroot "$root" "$@"'
)


class Instruction(NamedTuple):
    """A line of a Dockerfile, continued ones joined."""

    name: str
    rest: str


def instructions() -> list[Instruction]:
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]
    return [Instruction(*line.split(maxsplit=1)) for line in lines]


def of(name: str, *, last_stage: bool = False) -> list[str]:
    found = instructions()
    starts = [index for index, one in enumerate(found) if one.name == "FROM"]
    return [one.rest for one in found[starts[-1] if last_stage else 0 :] if one.name == name]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names in it."""
    folder = tmp_path_factory.mktemp("wheel")
    build = "import sys, hatchling.build; print(hatchling.build.build_wheel(sys.argv[1]))"
    command = [sys.executable, "-c", build, str(folder)]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 0, told.stderr
    [built] = folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        return set(archive.namelist())


def test_the_wheel_carries_what_the_product_reads(wheel: set[str]) -> None:
    assert sorted(data_files() - wheel) == []


def data_files() -> set[str]:
    """Return where the wheel must have each file that is read and not imported."""
    packages = [
        path.relative_to(ROOT).as_posix()
        for folder in ("reconciler", "api", "schemas")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".json", ".yaml", ".sql", ".py", ".html", ".css", ".svg"} and path.is_file()
    ]
    examples = [
        f"reconciler/{path.relative_to(ROOT).as_posix()}"
        for path in (ROOT / "examples" / "repo").rglob("*")
        if path.is_file()
    ]
    return {*packages, *examples}


def test_the_wheel_installs_the_unit_the_examples_and_the_documentation(wheel: set[str]) -> None:
    shared = {name.partition(".data/data/share/reconciler/")[2] for name in wheel if ".data/data/" in name}
    expected = {
        path.relative_to(ROOT).as_posix()
        for folder in ("systemd", "examples", "docs")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    } | {"CHANGELOG.md", "README.md", "SECURITY.md"}
    assert {"systemd/reconciler.service", "systemd/reconciler.sysusers", "systemd/reconciler.tmpfiles"} <= expected
    assert shared == expected


def test_an_image_runs_as_nobody_special() -> None:
    [user] = of("USER", last_stage=True)
    assert re.fullmatch(r"([1-9][0-9]{3,}):\1", user)
    assert f"--uid {user.partition(':')[0]}" in " ".join(of("RUN", last_stage=True))
    last = [one.name for one in instructions()]
    assert last.index("USER") > max(index for index, name in enumerate(last) if name == "RUN")
    assert of("VOLUME") == ["/var/lib/reconciler"]
    assert "SERVICE_STATE_DIR=/var/lib/reconciler" in " ".join(of("ENV"))


def test_an_image_is_made_of_what_is_pinned_and_here() -> None:
    stages = of("FROM")
    assert [stage.partition(" ")[0] for stage in stages] == ["python:3.12-slim-bookworm"] * 2
    assert of("ADD") == []
    runs = " ".join(of("RUN"))
    assert "--require-hashes -r runtime.txt" in runs
    assert re.findall(r"https?://|curl|wget", runs) == []
    for copied in of("COPY"):
        *sources, _ = shlex.split(copied)
        own = [source for source in sources if not source.startswith("--")] if "--from" not in copied else []
        assert [source for source in own if not (ROOT / source).exists()] == []


def test_an_image_gets_everything_that_the_wheel_is_made_of(tmp_path: Path) -> None:
    """The build that the recipe describes, in a folder of what it copies."""
    for copied in of("COPY"):
        if copied.startswith("--"):
            continue
        *sources, target = shlex.split(copied)
        for source in sources:
            place = tmp_path / source if target == "./" else tmp_path / target
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copyfile(ROOT / source, place)
    build = "import sys, hatchling.build; hatchling.build.build_wheel(sys.argv[1])"
    command = [sys.executable, "-c", build, str(tmp_path / "dist")]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 0, told.stderr
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    top = {source for copied in of("COPY") if not copied.startswith("--") for source in shlex.split(copied)[:-1]}
    assert let_in == top


def environment() -> dict[str, str]:
    """The variables of the image, less PATH."""
    given = dict(each.split("=", 1) for each in shlex.split(" ".join(of("ENV", last_stage=True))))
    return {name: value for name, value in given.items() if name != "PATH"}


def test_an_image_listens_where_others_reach_it_and_says_what_that_takes(tmp_path: Path) -> None:
    """Without TLS it starts only when somebody says that something else protects it."""
    given = {**environment(), "SERVICE_STATE_DIR": str(tmp_path / "state")}
    with pytest.raises(SettingsError) as caught:
        loading.load(config=None, environment=given, overrides={})
    [told] = caught.value.lines
    assert told.startswith("SERVICE_LISTEN: must be on this machine (127.0.0.1 or [::1]), unless tls has both files or")
    loaded = loading.load(config=None, environment={**given, "SERVICE_INSECURE": "true"}, overrides={})
    assert (loaded.settings.listen, loaded.warnings) == (Address("0.0.0.0", 3001), ())  # noqa: S104 - so it is
    assert of("EXPOSE") == ["3001"]
    assert environment()["HEALTH_URL"] == "http://127.0.0.1:3001/livez"


def test_an_image_passes_signals_on_and_has_nobody_who_waits_in_vain() -> None:
    assert (of("ENTRYPOINT"), of("CMD")) == (['["tini", "--", "reconciler"]'], ['["serve"]'])
    installed = " ".join(of("RUN", last_stage=True))
    assert [name for name in ("tini", "git", "openssh-client", "ca-certificates") if f" {name} " not in installed] == []


def test_an_image_keeps_nothing_that_only_the_build_needs() -> None:
    """The pins for running, less the needs of the project there, are removed again."""
    pinned, _, _ = (ROOT / "constraints.txt").read_text(encoding="utf-8").partition("# For development")
    elsewhere = {"httpx2-jsfetch", "tzdata"}  # for other systems: pip leaves them out
    spare = {canonical(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==", pinned, re.MULTILINE)} - needed()
    [removal] = [run for run in of("RUN") if " uninstall " in run]
    words = removal.partition(" uninstall --yes ")[2].partition(" && ")[0].split()
    assert set(words) == spare - elsewhere
    assert removal.endswith("check")
    assert "--without-pip" in of("RUN")[0]


def needed() -> set[str]:
    """Return what the project needs when it runs, of those that are installed."""
    found: dict[str, frozenset[str]] = {}  # with the extras that are wanted
    asked = ["reconciler"]
    while asked:
        name, extras = named(asked.pop())
        if name in found and extras <= found[name]:
            continue
        with contextlib.suppress(metadata.PackageNotFoundError):
            wanted = metadata.requires(name) or []
            found[name] = extras | found.get(name, frozenset())
            asked += [each for each in wanted if not (extra := EXTRA.search(each)) or extra[1] in found[name]]
    return set(found)


EXTRA = re.compile(r"extra == ['\"]([^'\"]+)['\"]")


def named(requirement: str) -> tuple[str, frozenset[str]]:
    """The name of a requirement, and its extras: `psycopg[binary,pool]>=3.3`."""
    parts = re.match(r"([A-Za-z0-9._-]+)\s*(?:\[([^]]*)\])?", requirement)
    assert parts is not None
    return canonical(parts[1]), frozenset(filter(None, re.split(r"[\s,]+", parts[2] or "")))


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_an_image_is_asked_whether_it_lives(tmp_path: Path) -> None:
    [check] = of("HEALTHCHECK")
    _, *arguments = json.loads(check.partition(" CMD ")[2])
    authority = Authority.make(tmp_path)

    def asked(url: str) -> int:
        """The exit code, as in an image where programs are told of a proxy."""
        told = {"HEALTH_URL": url, "http_proxy": "http://127.0.0.1:1", "https_proxy": "http://127.0.0.1:1"}
        done = subprocess.run([sys.executable, *arguments], env=told, capture_output=True, timeout=20, check=False)
        return done.returncode

    tls = authority.issue(name="another.example").context()
    with sinks.listening() as plain, sinks.listening(tls=tls) as secured, sinks.listening() as failing:
        failing.script(sinks.says(503))
        ports = [("http", plain.port), ("https", secured.port), ("http", failing.port), ("http", 1)]
        assert [asked(f"{scheme}://127.0.0.1:{port}/livez") for scheme, port in ports] == [0, 0, 1, 1]
    assert [one.path for one in (*plain.received, *secured.received)] == ["/livez", "/livez"]


def test_systemd_makes_the_user_and_the_folders(tmp_path: Path) -> None:
    needs.require_root()
    sysusers, tmpfiles = needs.require("systemd-sysusers"), needs.require("systemd-tmpfiles")
    (tmp_path / "etc").mkdir()
    for command in (
        [sysusers, f"--root={tmp_path}", str(SYSTEMD / "reconciler.sysusers")],
        [tmpfiles, "--create", f"--root={tmp_path}", str(SYSTEMD / "reconciler.tmpfiles")],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert (done.returncode, done.stderr.count("Failed")) == (0, 0), done.stderr
    passwd = (tmp_path / "etc/passwd").read_text(encoding="utf-8")
    [user] = [int(line.split(":")[2]) for line in passwd.splitlines() if line.startswith("reconciler:")]
    made = {
        name: (tmp_path / name).stat()
        for name in ("etc/reconciler", "etc/reconciler/environment", "var/lib/reconciler", "var/backups/reconciler")
    }
    assert {name: (found.st_uid, oct(found.st_mode & 0o777)) for name, found in made.items()} == {
        "etc/reconciler": (0, "0o755"),
        "etc/reconciler/environment": (0, "0o600"),
        "var/lib/reconciler": (user, "0o700"),
        "var/backups/reconciler": (0, "0o700"),
    }


def test_the_service_needs_nothing_written_but_its_state(tmp_path: Path) -> None:
    """As in a container with a read-only root: all else is mounted so, and the program changes into that."""
    root, folder = tmp_path / "root", tmp_path / "daemon"
    root.mkdir()
    (folder / "state").mkdir(parents=True, mode=0o700)
    prefix = [*needs.require_mount_namespace(), "sh", "-c", READ_ONLY, "sh", str(root), str(folder / "state")]
    touched = subprocess.run([*prefix, "touch", str(folder / "x")], capture_output=True, timeout=10, check=False)
    assert b"Read-only file system" in touched.stderr
    source = Repository.init(tmp_path / "source")
    source.write("a.yaml", destination("a"))
    source.commit()
    with daemons.running(folder, repositories=[watched("telemetry", source.path)], prefix=prefix) as daemon:
        assert daemon.run_of("telemetry", source.head())["counts"] == {"created": 1}
        assert daemon.complaints() == []


@pytest.mark.parametrize("name", ["reconciler.service", "reconciler.sysusers", "reconciler.tmpfiles"])
def test_what_is_for_systemd_says_what_it_is(name: str) -> None:
    assert (SYSTEMD / name).read_text(encoding="utf-8").startswith("# ")
    assert os.access(SYSTEMD / name, os.R_OK)
