"""A terminal for tests: a pair of pseudo-terminal and reader, with nothing between that changes what arrives."""

import os
import pty
import re
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager

OURS = re.compile("\x1b\\[3[123]m([a-z-]+)\x1b\\[0m")  # a word in a colour


class Terminal:
    """A terminal that keeps what arrives; a program writes to `descriptor`, and reads from it what somebody types."""

    def __init__(self, master: int, descriptor: int) -> None:
        self.descriptor = descriptor
        self._master = master
        self._data = b""
        self._is_closed = False
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, name="terminal")
        self._reader.start()

    def text(self) -> str:
        """All of it so far. It is UTF-8, or decoding fails."""
        with self._changed:
            return self._data.decode()

    def until(self, wanted: Callable[[str], bool], *, seconds: float) -> str:
        """All of it, once it holds what is wanted."""
        with self._changed:
            assert self._changed.wait_for(lambda: wanted(self._data.decode(errors="replace")), seconds), self._data
            return self._data.decode()

    def type(self, text: str) -> None:
        """Somebody types."""
        os.write(self._master, text.encode())

    def close(self) -> str:
        """All of it, once everyone who could write has closed it."""
        if not self._is_closed:
            self._is_closed = True
            os.close(self.descriptor)
            self._reader.join()
            os.close(self._master)
        return self.text()

    def _read(self) -> None:
        while data := self._some():
            with self._changed:
                self._data += data
                self._changed.notify_all()

    def _some(self) -> bytes:
        try:
            return os.read(self._master, 65_536)
        except OSError:  # EIO: nobody holds the other end any more
            return b""


@contextmanager
def terminal() -> Iterator[Terminal]:
    """A terminal that shows bytes as they come; it is closed at the end unless it was before."""
    master, descriptor = pty.openpty()
    tty.setraw(descriptor)  # else it would make CR LF of LF
    one = Terminal(master, descriptor)
    try:
        yield one
    finally:
        one.close()
