"""Many commands of the program in one process, since a process for each would take most of the time of these tests.

    python -m tests.scenarios.canary.commands < commands.json

Reads a list of `[arguments, stdin]`; writes a list of all that each of them printed.
"""

import contextlib
import io
import json
import sys

from reconciler.cli.main import main


def run(arguments: list[str], stdin: str) -> str:
    """All that a command prints, on both streams."""
    sys.argv = ["reconciler", *arguments]
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin.encode()))
    printed = io.TextIOWrapper(io.BytesIO(), write_through=True)
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), contextlib.suppress(SystemExit):
        main()
    assert isinstance(printed.buffer, io.BytesIO)
    return printed.buffer.getvalue().decode("utf-8", "backslashreplace")


if __name__ == "__main__":
    wanted = json.load(sys.stdin)
    print(json.dumps([run(arguments, stdin) for arguments, stdin in wanted]))
