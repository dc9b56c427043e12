"""The reach of a worker that was taken over, tried in real ones, and on kernels that have less."""

import asyncio
import ctypes
import errno
import json
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from reconciler.store.sqlite import SqliteStore
from reconciler.worker import sandbox
from tests.repositories import Repository
from tests.worker import attacking

# Each line is tried, and told by the name of its error.
ATTACKS = {
    "read a file of the machine": "open('/etc/passwd')",
    "read a secret of the daemon": "open(state / 'secrets/token')",
    "read sessions, beside the store": "open(state / 'ops.db')",
    "look around in the state directory": "os.listdir(state)",
    "look around in the machine": "os.listdir('/')",
    "read the daemon's variables": "open(f'/proc/{os.getppid()}/environ')",
    "read the daemon's memory": "open(f'/proc/{os.getppid()}/mem', 'rb')",
    "write the store": "open(state / 'store.db', 'r+b')",
    "write the store's log": "open(state / 'store.db-wal', 'r+b')",
    "write into a mirror": "open(mirror / 'config', 'a')",
    "write a module": "open(sandbox.__file__, 'r+b')",
    "make a file in a mirror": "open(mirror / 'new', 'x')",
    "make a file for anybody": "open('/tmp/new-of-a-reader', 'x')",
    "make a folder": "os.mkdir(mirror / 'new')",
    "remove a file": "os.remove(mirror / 'config')",
    "rename a file": "os.rename(mirror / 'config', mirror / 'other')",
    "link to a file": "os.link(mirror / 'config', mirror / 'linked')",
    "link to a name": "os.symlink('/etc/passwd', mirror / 'linked')",
    "let others read the store": "os.chmod(state / 'store.db', 0o666)",
    "give the store away": "os.chown(state / 'store.db', os.getuid(), os.getgid())",
    "change a file's times": "os.utime(mirror / 'config')",
    "cut short what the daemon has in its memory": "os.truncate(open(state / 'store.db-shm', 'r+b').fileno(), 0)",
    "connect by TCP": "socket.create_connection(('127.0.0.1', 1))",
    "connect by UDP": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "connect on this machine": "socket.socket(socket.AF_UNIX)",
    "look a name up": "socket.getaddrinfo('example.com', 443)",
    "be another program": "os.execv('/bin/true', ['true'])",
    "start a program": "os.posix_spawn('/bin/true', ['true'], {})",
    "start a program by Python": "subprocess.run(['true'])",
    "be two processes": "os.fork()",
    "end the daemon": "os.kill(os.getppid(), 9)",
    "end a thread of the daemon": "call(234, os.getppid(), os.getppid(), 9)",
    "lower the daemon's limits": "resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0))",
    "trace the daemon": "check(library.ptrace(16, os.getppid(), 0, 0))",
    "read the daemon's memory by a call": "call(310, os.getppid(), 0, 0, 0, 0, 0)",
    "take a file of the daemon": "os.pidfd_open(os.getppid())",
    "mount": "check(library.mount(b'none', b'/tmp', b'tmpfs', 0, None))",
    "have namespaces of its own": "check(library.unshare(0x10000000))",
    "use io_uring": "call(425, 1, 0)",
    "use bpf": "call(321, 0, 0, 0)",
    "use perf": "call(298, 0, 0, -1, -1, 0)",
    "use keys": "call(250, 0, -3, 1)",
    "call as a program of 32 bits of addresses": "call(0x40000000 + 39)",
}
NUMBERED = "call("  # by its number on x86_64

PREPARED = """\
import ctypes, json, os, resource, socket, subprocess, sys, threading
from pathlib import Path
from reconciler.worker import sandbox

state, mirror = Path({state!r}), Path({mirror!r})
library = ctypes.CDLL(None, use_errno=True)
library.syscall.restype = ctypes.c_long

def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def call(number, *arguments):
    check(library.syscall(*map(ctypes.c_long, (number, *arguments))))

def name_of(attempt):
    try:
        eval(attempt)
    except Exception as error:
        return type(error).__name__
    return "it worked"
"""
WORKS = """\
from reconciler.git.snapshots import Snapshot
from reconciler.store import engines

done = []

def read():
    with engines.open_view(str(state / "store.db")).snapshot() as revision:
        done.append(revision)
    with Snapshot.open(mirror, {commit!r}) as snapshot:
        [file] = snapshot.files("")
        done.append(snapshot.read(file.blob, 1000).decode())

thread = threading.Thread(target=read)
thread.start()
thread.join()
import colorsys, zoneinfo, xml.dom.minidom, lzma
zoneinfo.ZoneInfo("Europe/Berlin")
with open(os.devnull, "r+b") as nothing:
    nothing.write(b"x")
os.kill(os.getpid(), 0)
print(json.dumps(done))
"""


class Scene(NamedTuple):
    """A state directory whose store is open in this process, and a mirror with one file in one commit."""

    state: Path
    mirror: Path
    commit: str

    @property
    def granted(self) -> tuple[str, str]:
        """The arguments of its worker."""
        return str(self.state / "store.db"), str(self.mirror.parent)

    def run(self, program: str, *granted: str, prefix: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program in a worker."""
        prepared = PREPARED.format(state=str(self.state), mirror=str(self.mirror))
        command = list(attacking.command(prepared + program, *granted))
        command[2] = prefix + command[2]
        return subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
        )


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("state")
    source = Repository.init(tmp_path_factory.mktemp("source"))
    source.write("a.txt", "from Git")
    commit = source.commit()
    (folder / "mirrors").mkdir()
    source.pack()
    mirror = source.bare(folder / "mirrors/one.git")
    (folder / "secrets").mkdir()
    (folder / "secrets/token").write_text("canary-token")
    (folder / "ops.db").write_text("canary-session")
    store = SqliteStore(folder / "store.db")
    try:
        asyncio.run(store.revision())
        yield Scene(folder, mirror.path, commit)
    finally:
        asyncio.run(store.close())


@pytest.fixture(scope="module")
def told(scene: Scene) -> dict[str, str]:
    """Return what came of each attack."""
    done = scene.run(f"print(json.dumps({{name: name_of(how) for name, how in {ATTACKS!r}.items()}}))", *scene.granted)
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_reader_that_was_taken_over_cannot(attack: str, told: dict[str, str]) -> None:
    if ATTACKS[attack].startswith(NUMBERED) and os.uname().machine != "x86_64":
        pytest.skip("the number is that of x86_64")
    expected = "gaierror" if attack == "look a name up" else "PermissionError"
    assert told[attack] == expected


def test_it_can_do_its_work(scene: Scene) -> None:
    done = scene.run(WORKS.format(commit=scene.commit), *scene.granted)
    assert (done.stdout, done.stderr) == ('[0, "from Git"]\n', "")


def test_without_a_store_it_reads_what_its_user_may_and_connects_nowhere(scene: Scene) -> None:
    done = scene.run("print(name_of(\"open('/etc/passwd')\"), name_of('socket.socket()'))")
    assert (done.stdout, done.stderr) == ("it worked PermissionError\n", "")


def test_the_kernel_ends_it_before_the_daemon(scene: Scene) -> None:
    ours = int(Path("/proc/self/oom_score_adj").read_text())
    done = scene.run("print(open('/proc/self/oom_score_adj').read())")
    assert int(done.stdout) == min(1000, ours + 500)


OLDER = (
    "from functools import partial; from reconciler.worker import sandbox; sandbox.enter = partial(sandbox.enter, {}); "
)


@pytest.mark.parametrize("version", range(sandbox.NEWEST_LANDLOCK + 1))
def test_on_an_older_kernel_it_works_and_is_confined_by_what_there_is(version: int, scene: Scene) -> None:
    older = OLDER.format(f"landlock={version}")
    tried = "print(name_of(\"open('/etc/passwd')\"), name_of('socket.socket()'))"
    done = scene.run(WORKS.format(commit=scene.commit) + tried, *scene.granted, prefix=older)
    reached = "PermissionError" if version else "it worked"
    assert (done.stdout, done.stderr) == (f'[0, "from Git"]\n{reached} PermissionError\n', "")


def test_on_a_machine_of_another_sort_only_files_and_tcp_are_out_of_reach(scene: Scene) -> None:
    other = OLDER.format("machine='riscv64'")
    attempts = ("open('/etc/passwd')", "socket.socket()", "socket.create_connection(('127.0.0.1', 1))")
    tried = f"print(*map(name_of, {attempts!r}))"
    done = scene.run(WORKS.format(commit=scene.commit) + tried, *scene.granted, prefix=other)
    assert (done.stdout, done.stderr) == ('[0, "from Git"]\nPermissionError it worked PermissionError\n', "")


# What the process tells of itself.


def protections(prefix: str = "") -> sandbox.Protections:
    """Return what a short process tells."""
    program = (
        "import msgspec, os; from reconciler.worker import sandbox; "
        "os.write(1, msgspec.json.encode(sandbox.enter(sandbox.Granted())))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", prefix + program], capture_output=True, timeout=60, check=True)
    return msgspec.json.decode(done.stdout, type=sandbox.Protections)


def test_what_is_active_is_told() -> None:
    assert protections() == sandbox.Protections(landlock=sandbox.NEWEST_LANDLOCK, seccomp=True)


def test_what_a_machine_of_another_sort_lacks_is_told() -> None:
    assert protections(OLDER.format("machine='riscv64'")) == sandbox.Protections(
        landlock=sandbox.NEWEST_LANDLOCK,
        seccomp=False,
        missing=("no filter of system calls is known for a machine of the sort riscv64",),
    )


REFUSING = """\
import ctypes, struct
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x50000 | {number}), (0x06, 0, 0, 0x7FFF0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in code))
library = ctypes.CDLL(None)
assert library.prctl(38, 1, 0, 0, 0) == 0
assert library.prctl(22, 2, struct.pack("@HP", len(code), ctypes.addressof(program)), 0, 0) == 0
"""


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.ENOSYS, "this kernel has no landlock"),
        (errno.EOPNOTSUPP, "landlock is not switched on when this kernel starts"),
        (errno.EPERM, "whoever starts the process forbids it to use landlock"),
    ],
)
def test_why_there_is_no_landlock_is_told(number: int, why: str) -> None:
    found = protections(REFUSING.format(number=number))
    assert found == sandbox.Protections(landlock=0, seccomp=True, missing=(why,))


# The rules, for kernels and machines that this one is not.


@pytest.mark.parametrize(
    ("version", "rights"),
    [
        (1, (0x1FFF, 0, 0)),
        (2, (0x3FFF, 0, 0)),
        (3, (0x7FFF, 0, 0)),
        (4, (0x7FFF, 3, 0)),
        (5, (0xFFFF, 3, 0)),
        (6, (0xFFFF, 3, 3)),
    ],
)
def test_a_version_of_landlock_is_asked_for_no_more_than_it_knows(version: int, rights: tuple[int, int, int]) -> None:
    """linux/landlock.h says since when there is what."""
    assert sandbox.handled_rights(version) == rights


ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
KILL, ALLOW, ERRNO = 0x80000000, 0x7FFF0000, 0x50000
OURS = 4711


def verdict(
    machine: str, number: int, argument: int = 0, *, arch: int | None = None, fifth: int = 0, can_send: bool = False
) -> int:
    """Return what the filter says of one call."""
    program = sandbox.filter_program(machine, OURS, can_send=can_send)
    assert program is not None
    arguments = (argument, 0, 0, 0, fifth, 0)
    data = struct.pack("<IIQ6Q", number, ARCHES[machine] if arch is None else arch, 0, *arguments)
    at, loaded = 0, 0
    while True:
        code, holds, fails, value = program[at]
        at += 1
        match code:
            case 0x20:
                (loaded,) = struct.unpack_from("<I", data, value)
            case 0x54:
                loaded &= value
            case 0x15:
                at += holds if loaded == value else fails
            case 0x35:
                at += holds if loaded >= value else fails
            case _:
                assert code == 0x06
                return value


@pytest.mark.parametrize("machine", ARCHES)
def test_the_filter_refuses_what_it_should_and_nothing_else(machine: str) -> None:
    column = list(ARCHES).index(machine)
    refused = {numbers[column] for numbers in sandbox.REFUSED.values()} - {None}
    asked = {sandbox.CLONE[column], sandbox.CLONE3[column], *(numbers[column] for numbers in sandbox.OWN.values())}
    found = {number for number in range(1000) if verdict(machine, number) == ERRNO | errno.EPERM}
    assert found == refused | {sandbox.CLONE[column]}
    assert {number for number in range(1000) if verdict(machine, number) != ALLOW} == found | {sandbox.CLONE3[column]}
    assert not refused & asked


@pytest.mark.parametrize("machine", ARCHES)
def test_the_filter_looks_at_arguments(machine: str) -> None:
    column = list(ARCHES).index(machine)
    clone = sandbox.CLONE[column]
    as_glibc_does = 0x3D0F00  # for a thread
    assert verdict(machine, clone, as_glibc_does) == ALLOW
    assert verdict(machine, clone, 17) == ERRNO | errno.EPERM  # a fork: SIGCHLD
    assert verdict(machine, clone, as_glibc_does | 0x10000000) == ERRNO | errno.EPERM  # with a namespace of its own
    assert verdict(machine, sandbox.CLONE3[column]) == ERRNO | errno.ENOSYS
    for name, numbers in sandbox.OWN.items():
        found = [verdict(machine, numbers[column], process) for process in (OURS, 0, 1, 2**32 - 1)]
        assert found == [ALLOW, ALLOW, ERRNO | errno.EPERM, ERRNO | errno.EPERM], name


@pytest.mark.parametrize("machine", ARCHES)
def test_a_process_with_connections_sends_on_them_and_to_no_address(machine: str) -> None:
    column = list(ARCHES).index(machine)
    send = sandbox.REFUSED[sandbox.SEND][column]
    assert send is not None
    addresses = (0, 1, 1 << 32, (1 << 64) - 1)
    found = [verdict(machine, send, fifth=address, can_send=True) for address in addresses]
    assert found == [ALLOW, *[ERRNO | errno.EPERM] * 3]
    others = [number for number in range(1000) if number != send]
    assert [verdict(machine, one, can_send=True) for one in others] == [verdict(machine, one) for one in others]


def test_the_filter_knows_the_calls_of_one_machine_alone() -> None:
    assert verdict("x86_64", 0, arch=0x40000003) == KILL  # of 32 bits
    assert verdict("x86_64", 0x40000000 + 39) == ERRNO | errno.EPERM
    assert verdict("aarch64", 0, arch=ARCHES["x86_64"]) == KILL
    assert sandbox.filter_program("riscv64", OURS) is None


@pytest.mark.parametrize("machine", ARCHES)
def test_the_numbers_are_those_that_libseccomp_knows(machine: str) -> None:
    try:
        resolve = ctypes.CDLL("libseccomp.so.2").seccomp_syscall_resolve_name_arch
    except OSError:
        pytest.skip("there is no libseccomp to compare with")
    column = list(ARCHES).index(machine)
    ours = {**sandbox.REFUSED, **sandbox.OWN, "clone": sandbox.CLONE, "clone3": sandbox.CLONE3}
    theirs = {name: resolve(ctypes.c_uint32(ARCHES[machine]), name.encode()) for name in ours}
    assert {name: number if number >= 0 else None for name, number in theirs.items()} == {
        name: numbers[column] for name, numbers in ours.items()
    }
