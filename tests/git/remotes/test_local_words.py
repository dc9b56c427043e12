"""What is shown of git's words on a repository of this machine."""

import pytest

from reconciler.git.remotes.errors import explain
from reconciler.git.remotes.program import Output
from reconciler.git.remotes.sources import Source

SECRET = "canary-in-another-file"


@pytest.mark.parametrize(
    ("stderr", "told"),
    [
        (f"fatal: unexpected line in ./packed-refs: {SECRET}", "URL has a damaged file packed-refs; restore it"),
        (f"fatal: unterminated line in ./packed-refs: {SECRET}", "URL has a damaged file packed-refs; restore it"),
        (f"fatal: bad shallow line: {SECRET}", "URL has a damaged file shallow; restore it"),
        (
            f"fatal: bad numeric config value '{SECRET}' for 'core.repositoryformatversion' in file ./x",
            "URL cannot be read (`git fsck` there says why); mend that, and it is read",
        ),
        (
            f"remote: fatal: {SECRET}\nfatal: early EOF",
            "the connection to URL broke off (`git fsck` there says why); look at the network and the server if this "
            "stays",
        ),
        (f'Load key "{SECRET}"', "URL cannot be read (`git fsck` there says why); mend that, and it is read"),
        (
            f"error: object {'a' * 40}: treeNotSorted: {SECRET}\nfatal: fsck error in packed object",
            f"URL holds an object that fails Git's integrity checks ({'a' * 40}: treeNotSorted); repair its history",
        ),
        (
            f"fatal: fsck error in packed object: {SECRET}",
            "URL holds an object that fails Git's integrity checks; repair its history",
        ),
        ("", "URL cannot be read (git gave no reason); mend that, and it is read"),
    ],
)
def test_of_a_repository_on_this_machine_no_words_are_shown_that_may_be_a_files(stderr: str, told: str) -> None:
    """A link in it may lead to a file that the service may read, and git quotes what it does not understand."""
    output = Output(128, b"", f"{stderr}\n", truncated=False)
    assert explain(Source(url="/srv/a"), output).message == told.replace("URL", "/srv/a")
