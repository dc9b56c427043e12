"""The program that answers when git or ssh-add ask for a secret: it answers one question, and nobody who asks another.

Belongs here: the script, and the variables that it reads. Does not: which question is right.

The secret itself is in no argument and no variable: it stands in a file of memory, which the programs inherit open.
"""

from pathlib import Path

NAME = "askpass"

# A proxy that wants a password, another host and another key ask other questions. The second wording is for versions
# of git that write names percent-encoded.
SCRIPT = """\
#!/bin/sh
[ "$1" = "$RECONCILER_QUESTION" ] || [ "$1" = "$RECONCILER_QUESTION_ENCODED" ] || exit 1
IFS= read -r answer < "$RECONCILER_ANSWER" || exit 1
printf '%s\\n' "$answer"
"""


def install_askpass(home: Path) -> Path:
    """Write the script, whole or not at all, and give its path."""
    path, temporary = home / NAME, home / f"{NAME}.new"
    temporary.write_text(SCRIPT, encoding="ascii")
    temporary.chmod(0o700)
    temporary.replace(path)
    return path


def askpass_variables(question: str, answer: str, *, encoded: str = "") -> dict[str, str]:
    """The variables that make it answer one question with the first line of a file."""
    return {
        "RECONCILER_QUESTION": question,
        "RECONCILER_QUESTION_ENCODED": encoded or question,
        "RECONCILER_ANSWER": answer,
    }
