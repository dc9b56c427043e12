"""The worker's sandbox: the rights that the process gives up before it parses text from strangers.

Resource limits are set everywhere. Landlock and seccomp are used where the kernel has them; a missing one is skipped
and reported (`Protections`). The process, its threads and libraries cannot undo any of it.

Landlock restricts which files are opened, and forbids connections (linux/landlock.h, landlock(7)). It checks a file
when it is opened, so pipes and open files stay usable. It has no rule for reading that a file exists, its size and
owner.

Seccomp refuses system calls with EPERM, so that a library continues as for a user without permission (seccomp(2)). All
other calls are allowed, since the C library and Python change their calls between versions. Only seccomp can refuse
changes of modes, owners and times of files, and truncating an open file, which would end the daemon that has the
store's `-shm` mapped.
"""

import contextlib
import ctypes
import errno
import os
import re
import resource
import signal
import stat
import struct
import sys
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import msgspec

import reconciler


class Granted(NamedTuple):
    """Files and folders that the process may open besides those that Python needs; folders with their content.

    Rules hold for existing files, not for names: a file that is made later must be inside a granted folder.
    """

    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()


class Protections(msgspec.Struct, frozen=True):
    """The protections that are active. `landlock` is the version of its rules, 0 for none; `missing` says why the
    others are not active, each as a part of a sentence.
    """

    landlock: int = 0
    seccomp: bool = False
    missing: tuple[str, ...] = ()


NEWEST_LANDLOCK = 6  # the last version that has rules for us


def enter(
    granted: Granted | None,
    *,
    can_send: bool = False,
    landlock: int = NEWEST_LANDLOCK,
    machine: str = os.uname().machine,
) -> Protections:
    """Confine this process, which has one thread, for the rest of its life.

    Without `granted` it may open every file that its user may. With `can_send` it may send on the sockets that are
    connected already. A lower `landlock` version simulates an older kernel,
    and another `machine` one whose system calls are unknown. Raises OSError if a limit that every kernel has cannot be
    set.
    """
    _limit_resources()
    _go_first_when_memory_is_short()
    version, no_landlock = _restrict_access(granted, newest=landlock)
    no_seccomp = _filter_calls(machine, can_send=can_send)
    missing = tuple(why for why in (no_landlock, no_seccomp) if why)
    return Protections(landlock=version, seccomp=not no_seccomp, missing=missing)


ADDRESS_SPACE_BYTES = 4 * 1024**3  # a parser gone wild ends here, not with the machine's memory
OPEN_FILES = 256
UMASK = 0o077

# From linux/prctl.h, which no module of Python's has.
PR_SET_PDEATHSIG = 1
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38

# Half of the machine's memory, or of the control group's, counts as if the process had it: it is ended before the
# daemon, which has some hundred MB at most (proc(5), oom_score_adj).
OOM_ADJUSTMENT = 500
MOST_OOM_ADJUSTMENT = 1000


def _limit_resources() -> None:
    """Set limits. An operation past a limit raises OSError or MemoryError, or ends the process."""
    os.umask(UMASK)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, ADDRESS_SPACE_BYTES)
    _limit(resource.RLIMIT_NOFILE, OPEN_FILES)
    # No file can grow, since the store is only read. Python ignores the signal, so a write raises EFBIG.
    _limit(resource.RLIMIT_FSIZE, 0)
    # Ends with the daemon, even while a library holds the interpreter and the end of the input is not seen.
    _control(PR_SET_PDEATHSIG, signal.SIGKILL)
    _control(PR_SET_NO_NEW_PRIVS, 1)  # landlock and seccomp ask for it, too


def start_no_more() -> None:
    """Forbid new threads and processes; call it when all threads run. The limit does not bind root."""
    _limit(resource.RLIMIT_NPROC, 0)


def _limit(what: int, most: int) -> None:
    _, hard = resource.getrlimit(what)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)  # who started us may allow less
    resource.setrlimit(what, (most, most))


def _go_first_when_memory_is_short() -> None:
    """Have the kernel end this process first: every process may raise its score. Without /proc, only size counts."""
    path = Path("/proc/self/oom_score_adj")
    try:
        path.write_text(str(min(MOST_OOM_ADJUSTMENT, int(path.read_text()) + OOM_ADJUSTMENT)))
    except OSError:
        return


_library = ctypes.CDLL(None, use_errno=True)
_library.syscall.restype = ctypes.c_long


def _control(option: int, *values: object) -> None:
    """Raises OSError."""
    if _library.prctl(option, *values, *[0] * (4 - len(values))) != 0:
        raise _last_error()


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


# The numbers of these system calls are the same on every machine.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1  # LANDLOCK_CREATE_RULESET_VERSION
_RULE_PATH_BENEATH = 1
_WRITE_FILE, _READ_FILE, _READ_FOLDER = 1 << 1, 1 << 2, 1 << 3

# What each version of the kernel's rules can forbid: so many bits of rights on files (to execute, write, read, make,
# remove; refer; truncate; devices' ioctl), on TCP (to bind, to connect), and scopes (sockets and signals of others).
_HANDLED_BITS = {1: (13, 0, 0), 2: (14, 0, 0), 3: (15, 0, 0), 4: (15, 2, 0), 5: (16, 2, 0), 6: (16, 2, 2)}

NO_LANDLOCK = {
    errno.ENOSYS: "this kernel has no landlock",
    errno.EOPNOTSUPP: "landlock is not switched on when this kernel starts",
    errno.EPERM: "whoever starts the process forbids it to use landlock",
}
NOBODY_ASKED = "landlock was not asked for"


def handled_rights(version: int) -> tuple[int, int, int]:
    """Return everything that a version of landlock can forbid, as bits: rights on files, rights on TCP, scopes."""
    files, tcp, scopes = _HANDLED_BITS[version]
    return (1 << files) - 1, (1 << tcp) - 1, (1 << scopes) - 1


def _restrict_access(granted: Granted | None, *, newest: int) -> tuple[int, str]:
    """Restrict access. Return the version of the active rules, 0 for none, and why there are none. Raises OSError."""
    version = min(newest, _library.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _ASK_VERSION))
    if version < 1:
        number = ctypes.get_errno()
        return 0, NO_LANDLOCK.get(number, os.strerror(number)) if newest else NOBODY_ASKED
    files, tcp, scopes = handled_rights(version)
    # Older kernels accept the longer structure too, if the fields that they do not know are 0.
    asked = struct.pack("=QQQ", 0 if granted is None else files, tcp, scopes)
    if not any(asked):
        return 0, NOBODY_ASKED
    ruleset = _library.syscall(_CREATE_RULESET, asked, ctypes.c_size_t(len(asked)), 0)
    if ruleset < 0:
        raise _last_error()
    try:
        if granted is not None:
            for path in (*_needed_by_python(), *granted.readable):
                _allow(ruleset, path, _READ_FILE)
            for path in (os.devnull, *granted.writable):
                _allow(ruleset, path, _READ_FILE | _WRITE_FILE)
        if _library.syscall(_RESTRICT_SELF, ruleset, 0) != 0:
            raise _last_error()
    finally:
        os.close(ruleset)
    return version, ""


def _allow(ruleset: int, path: str, rights: int) -> None:
    """Raises OSError."""
    try:
        opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # it is not there, or out of reach anyway
    try:
        if stat.S_ISDIR(os.fstat(opened).st_mode):
            rights |= _READ_FOLDER
        if _library.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, struct.pack("=Qi", rights, opened), 0) != 0:
            raise _last_error()
    finally:
        os.close(opened)


_LIBRARY_FOLDER = re.compile(r" (/.*)/[^/\n]*\.so[^/\n]*$", re.MULTILINE)


def _needed_by_python() -> Iterator[str]:
    """Yield the folders of modules, which may be imported late, and of loaded shared libraries, the file of the time
    zone, and the source of randomness for SQLite.
    """
    yield from map(os.path.abspath, sys.path)
    yield from reconciler.__path__
    with contextlib.suppress(OSError):  # where /proc is not there, libraries are, since modules are imported by now
        mapped = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
        yield from set(_LIBRARY_FOLDER.findall(mapped))
    yield from ("/etc/ld.so.cache", "/usr/lib/locale", "/usr/share/zoneinfo", "/etc/localtime", "/dev/urandom")


_AUDIT_ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # linux/audit.h
_X32 = 0x40000000  # the numbers of a second set of calls on x86_64


_LINES = (resources.files("reconciler.worker") / "refused_calls.txt").read_text(encoding="utf-8").splitlines()
REFUSED: dict[str, tuple[int | None, ...]] = {
    name: tuple(None if one == "-" else int(one) for one in numbers)
    for name, *numbers in (line.split() for line in _LINES if line and not line.startswith("#"))
}
"""The numbers of refused system calls on x86_64 and aarch64 by name, None where there is no such call."""
# Allowed for this process alone, which is their first argument, or 0.
OWN: dict[str, tuple[int, int]] = {"kill": (62, 129), "tgkill": (234, 131), "prlimit64": (302, 261)}
CLONE, CLONE3 = (56, 220), (435, 435)
SEND = "sendto"  # `send` of the C library, too

_CLONE_THREAD = 0x00010000
_CLONE_NEW = 0x7E020000  # all namespaces

_KILL, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000  # linux/seccomp.h
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06  # linux/bpf_common.h, of 32 bits
_IS_EQUAL, _IS_AT_LEAST = 0x15, 0x35
# Offsets in struct seccomp_data; of the lower halves of arguments.
_NUMBER, _ARCH, _FIRST_ARGUMENT, _FIFTH_ARGUMENT = 0, 4, 16, 48
_UPPER_HALF = 4
_MODE_FILTER = 2

NO_SECCOMP = "this kernel has no seccomp"

Instruction = tuple[int, int, int, int]
"""Code, how many instructions to skip if its condition is true, and if it is false, and its value."""


def filter_program(machine: str, process: int, *, can_send: bool = False) -> list[Instruction] | None:
    """Return the filter for a machine, by its name (uname(2)), and for one process; None for an unknown machine.

    With `can_send` it allows to send without an address.
    """
    if machine not in _AUDIT_ARCHES:
        return None
    column = list(_AUDIT_ARCHES).index(machine)
    refuse = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    allow = (_RETURN, 0, 0, _ALLOW)
    argument = (_LOAD, 0, 0, _FIRST_ARGUMENT)
    program = [
        (_LOAD, 0, 0, _ARCH),
        (_IS_EQUAL, 1, 0, _AUDIT_ARCHES[machine]),
        (_RETURN, 0, 0, _KILL),  # the calls of a machine with 32 bits have other numbers
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        program += _when(_IS_AT_LEAST, _X32, refuse)
    if can_send:
        upper = [(_LOAD, 0, 0, _FIFTH_ARGUMENT + _UPPER_HALF), *_when(_IS_EQUAL, 0, allow)]
        lower = [(_LOAD, 0, 0, _FIFTH_ARGUMENT), *_when(_IS_EQUAL, 0, *upper)]
        program += _when(_IS_EQUAL, REFUSED[SEND][column] or 0, *lower, refuse)
    for numbers in REFUSED.values():
        number = numbers[column]
        if number is not None:
            program += _when(_IS_EQUAL, number, refuse)
    # Its flags are in memory, where a filter cannot look. The C library goes on with `clone`.
    program += _when(_IS_EQUAL, CLONE3[column], (_RETURN, 0, 0, _ERRNO | errno.ENOSYS))
    threads = [argument, (_AND, 0, 0, _CLONE_THREAD | _CLONE_NEW), *_when(_IS_EQUAL, _CLONE_THREAD, allow), refuse]
    program += _when(_IS_EQUAL, CLONE[column], *threads)
    ours = [argument, *_when(_IS_EQUAL, process, allow), *_when(_IS_EQUAL, 0, allow), refuse]
    for own in OWN.values():
        program += _when(_IS_EQUAL, own[column], *ours)
    return [*program, allow]


def _when(condition: int, value: int, *then: Instruction) -> Sequence[Instruction]:
    return [(condition, 0, len(then), value), *then]


def _filter_calls(machine: str, *, can_send: bool) -> str:
    """Install the filter. Return why there is none; '' if it is active. Raises OSError."""
    program = filter_program(machine, os.getpid(), can_send=can_send)
    if program is None:
        return f"no filter of system calls is known for a machine of the sort {machine}"
    instructions = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in program))
    described = struct.pack("@HP", len(program), ctypes.addressof(instructions))
    try:
        _control(PR_SET_SECCOMP, _MODE_FILTER, described)
    except OSError as refused:
        if refused.errno != errno.EINVAL:
            raise
        return NO_SECCOMP
    return ""
