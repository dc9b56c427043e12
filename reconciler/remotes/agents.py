"""An ssh agent of our own, for one key with a passphrase: ssh itself asks nobody while git runs.

Belongs here: starting it, giving it the key, and that it never outlives us. Does not: ssh's options (`ssh`).

`ssh-agent` runs `cat`, which reads a pipe that we hold. When we end, however that happens, the pipe closes, `cat` ends,
and the agent, which looks after it every ten seconds, ends too.
"""

import asyncio
import contextlib
import os
import select
import signal
from functools import partial
from pathlib import Path

from reconciler.model.errors import Refused, Transient
from reconciler.remotes import askpass, memory_files, processes, secret_files
from reconciler.remotes.credentials import SSH_KEY_FILE, SSH_PASSPHRASE_FILE
from reconciler.remotes.processes import Command
from reconciler.settings import bounded_io
from reconciler.settings.bounded_io import BoundedIO, FileIdentity

# Relative, since a socket's path may have 107 bytes. The agent, which goes to `/`, removes the name there when it ends:
# so nobody else may have a file of this name, and ours is for us to remove.
SOCKET = "reconciler-ssh-agent"
START_SECONDS = 10.0
ADD_SECONDS = 30.0  # opening a key is made slow on purpose, against guessing
OUTPUT_BYTES = 64 * 1024
PROMPT_BYTES = 200  # as much of the file's name is in ssh-add's question

# The agent tells its number in a variable. `cat` ends with the pipe.
SCRIPT = 'echo "$SSH_AGENT_PID"; exec cat'


class Agent:
    """At most one agent, which has the key as its file was last. `name` is its socket, from the folder `home`."""

    name = SOCKET

    def __init__(self, home: Path, *, key: Path, passphrase: Path) -> None:
        self._home = home
        self._key = key
        self._passphrase = passphrase
        self._asking = BoundedIO("the files with credentials")
        self._changing = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._agent: int | None = None  # a descriptor of the agent, which is no child of ours
        self._cat: int | None = None  # a descriptor of what the agent looks after
        self._files: tuple[FileIdentity | None, ...] | None = None  # as they were when it got the key

    async def ready(self) -> None:
        """Make it run, with the key as it is now.

        Raises GitFault (unauthorized) when the passphrase does not open the key, Refused without ssh's programs,
        Transient when one of them cannot be started or does not answer, or a file does not.
        """
        async with self._changing:
            if not self._runs():
                await self._end()
                await self._start()
            found = await self._asking.answer(self._identities)
            if found != self._files:
                self._files = None
                await self._add()
                self._files = found

    async def close(self) -> None:
        """End it. The next `ready` starts another."""
        async with self._changing:
            await self._end()

    def _identities(self) -> tuple[FileIdentity | None, ...]:
        files = (self._key, self._passphrase, self._key.with_name(f"{self._key.name}-cert.pub"))
        return tuple(map(bounded_io.file_identity, files))

    def _runs(self) -> bool:
        """Whether both are alive. A descriptor of a process can be read once that has ended, reaped or not."""
        if self._agent is None or self._cat is None:
            return False
        ended = select.poll()
        ended.register(self._agent, select.POLLIN)
        ended.register(self._cat, select.POLLIN)
        return not ended.poll(0)

    async def _start(self) -> None:
        starting = asyncio.create_task(self._execute(), name="start ssh-agent")
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            with contextlib.suppress(Refused, Transient):
                await starting
            await self._end()
            raise

    async def _execute(self) -> None:
        """Whatever fails, nothing of it stays."""
        try:
            await asyncio.to_thread(askpass.install_askpass, self._home)
            self._process = await self._started()
            self._cat = os.pidfd_open(self._process.pid)
            self._agent = os.pidfd_open(int(await _number(self._process)))
        except FileNotFoundError as error:
            raise processes.missing_program("ssh-agent", folder=self._home) from error
        except (ValueError, ProcessLookupError):
            await self._end()
            raise Refused(f"ssh-agent does not run in {self._home}; look whether that folder can be written") from None
        except OSError as error:
            await self._end()
            told = f"the program ssh-agent cannot be started ({os.strerror(error.errno or 0)})"
            raise Transient(f"{told}; it is tried again") from error

    async def _started(self) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *("ssh-agent", "-a", SOCKET, "/bin/sh", "-c", SCRIPT),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=self._home,
            env=processes.environment(self._home),
            start_new_session=True,
        )

    async def _add(self) -> None:
        """Give it the key alone, opened with the passphrase."""
        passphrase = await self._asking.answer(partial(secret_files.secret_line, self._passphrase, SSH_PASSPHRASE_FILE))
        try:
            await self._ssh_add("-q", "-D")
        except TimeoutError:
            await self._end()
            raise Transient(f"ssh-agent did not answer within {ADD_SECONDS:g} seconds; it is started again") from None
        try:
            added = await self._opened(passphrase)
        except TimeoutError:
            wrong = f"takes more than {ADD_SECONDS:g} seconds to open"
            secret_files.refuse_file(
                self._key, SSH_KEY_FILE, wrong, "make the key anew with fewer rounds (`ssh-keygen -a`)"
            )
        if not added:
            mend = f"correct it, or {SSH_KEY_FILE}"
            secret_files.refuse_file(self._passphrase, SSH_PASSPHRASE_FILE, f"does not open the key {self._key}", mend)

    async def _opened(self, passphrase: bytes) -> bool:
        """Whether the passphrase opened the key, which the agent has then."""
        with memory_files.open_memory_file(passphrase + b"\n") as descriptor:
            shown = os.fsencode(self._key)[:PROMPT_BYTES].decode("utf-8", "surrogateescape")
            asked = askpass.askpass_variables(
                f"Enter passphrase for {shown}: ", memory_files.inherited_path(descriptor)
            )
            return await self._ssh_add("-q", "--", str(self._key), variables=asked, descriptors=(descriptor,))

    async def _ssh_add(
        self, *arguments: str, variables: dict[str, str] | None = None, descriptors: tuple[int, ...] = ()
    ) -> bool:
        asking = {
            "SSH_ASKPASS": str(self._home / askpass.NAME),
            "SSH_ASKPASS_REQUIRE": "force",
            "SSH_AUTH_SOCK": SOCKET,
        }
        finished = await processes.run_command(
            Command(
                arguments=("ssh-add", *arguments),
                folder=self._home,
                environment={**processes.environment(self._home), **asking, **(variables or {})},
                descriptors=descriptors,
                seconds=ADD_SECONDS,
                output_bytes=OUTPUT_BYTES,
            )
        )
        return finished.status == 0

    async def _end(self) -> None:
        """The agent first: it would notice its `cat` late."""
        process, agent, cat = self._process, self._agent, self._cat
        self._process = self._agent = self._cat = self._files = None
        if agent is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(agent, signal.SIGTERM)
            os.close(agent)
        if cat is not None:
            os.close(cat)
        if process is not None:
            await processes.end_process(process)
        (self._home / SOCKET).unlink(missing_ok=True)


async def _number(process: asyncio.subprocess.Process) -> bytes:
    """The number of the agent, as its script tells it; nothing when that does not come."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(START_SECONDS):
            return await process.stdout.readline() if process.stdout is not None else b""
    return b""
