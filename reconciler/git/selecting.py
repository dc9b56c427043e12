"""Which files of a tree are read as documents. Pure; whether such a file can be read is not decided here."""

from reconciler.documents import reading
from reconciler.git.ignoring import Ignore


def considered(path: str, ignore: Ignore) -> bool:
    """Whether a file counts: a document by its ending, in no folder that begins with a dot, and not ignored.

    Symlinks, submodules and files with hostile names are considered by the same rule. Since their content is never
    taken (`File.readable`), one of them is a file that cannot be read, not one that is absent.
    """
    if reading.syntax_of(path) is None:
        return False
    folders = path.split("/")[len(ignore.root) : -1]
    return not any(folder.startswith(".") for folder in folders) and not ignore.ignored(path)
