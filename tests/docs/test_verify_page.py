"""docs/verify.md: its file of signers is one, its configuration signs, and the messages that it explains are there."""

import re
from pathlib import Path

import pytest

from reconciler.git.faults import GitFault
from reconciler.git.refs import RefHead
from reconciler.git.remotes import credentials, verification
from reconciler.git.remotes.program import GitProgram
from reconciler.git.remotes.verification import Verification
from tests import daemons
from tests.cli.conftest import Program
from tests.docs import pages
from tests.repositories import Repository
from tests.signing import Signer, allow, sign_with

PAGE = pages.read(pages.ROOT / "docs/verify.md")
FILE = next(block for block in pages.blocks(PAGE, "") if "cert-authority" in block)
CONFIGURATION = next(block for block in pages.blocks(PAGE, "sh") if "commit.gpgsign" in block)
SOURCES = "".join(Path(str(module.__file__)).read_text() for module in (verification, credentials))
OF_SSH_KEYGEN = {"key has expired", "key is not yet valid", "key is not permitted"}
ROWS = pages.table(pages.section(PAGE, "Messages"))
CHANGING = re.compile(r"\b([0-9a-f]{12}|[0-9]{4}-[0-9-]{5}T[0-9:]{8}Z)\b")
QUOTED = re.compile(r"`([^`]+)`")


@pytest.fixture
def ada(tmp_path: Path) -> Signer:
    return Signer.make(tmp_path, "ada")


@pytest.fixture
def source(tmp_path: Path, ada: Signer) -> Repository:
    """A repository that is configured as the page says."""
    repository = Repository.init(tmp_path / "source")
    for line in CONFIGURATION.replace("~/.ssh/id_ed25519.pub", str(ada.key)).splitlines():
        repository.git(*line.split()[1:])
    return repository


@pytest.mark.anyio
async def test_the_configuration_signs_what_the_file_allows(tmp_path: Path, source: Repository, ada: Signer) -> None:
    allowed = tmp_path / "signers"

    async def verify(head: RefHead) -> None:
        signers, program = verification.read_signers(allowed), GitProgram(tmp_path / "home")
        await Verification(signers, mirror=source.path / ".git", program=program).verify(head)

    head = RefHead("refs/heads/main", source.commit())
    allowed.write_text(FILE)
    with pytest.raises(GitFault) as caught:
        await verify(head)
    # No line of it is one that cannot be read: those are told in brackets.
    why = f"is signed with the key {ada.fingerprint}, which is not allowed; "
    assert caught.value.message.startswith(f"the commit {head.commit[:12]} {why}")
    allowed.write_text(FILE + ada.line('valid-after="20230101",valid-before="20270101"') + ada.line('namespaces="git"'))
    await verify(head)
    source.git("tag", "--message=Tag", "v1")
    await verify(head._replace(tag=source.head("v1")))


@pytest.mark.parametrize("text", [text for row in ROWS for text in QUOTED.findall(row["the message says"])])
def test_messages_that_are_explained_are_there(text: str) -> None:
    said = text.replace("1048576", "{MOST_OBJECT_BYTES}").replace("PGP", "{made_with}")
    known = SOURCES + "the program ssh-keygen is not on PATH"  # as of every program
    assert any(part in known for part in (text, said)), text


def test_what_stands_against_a_line_is_what_ssh_keygen_says() -> None:
    [row] = [row for row in ROWS if "which is not allowed" in row["the message says"]]
    assert set(QUOTED.findall(row["what to do"])) >= OF_SSH_KEYGEN
    assert str(verification.MOST_OBJECT_BYTES) in PAGE


@pytest.mark.slow
def test_the_status_is_what_the_program_says(tmp_path: Path, source: Repository, ada: Signer) -> None:
    allowed = allow(tmp_path / "signers", ada)
    source.commit()
    watched = daemons.watched("telemetry", source.path, verify={"signersFile": str(allowed)})
    with daemons.running(tmp_path / "daemon", repositories=[watched]) as daemon:
        daemon.run_of("telemetry", source.head())
        sign_with(source, None)
        daemon.run_of("telemetry", source.commit())
        address = f"http://127.0.0.1:{daemon.port}"
        program = Program(tmp_path, {"SERVICE_SERVER": address, "SERVICE_API_KEY": daemon.key})
        said = program("status").out.replace(str(allowed), "/etc/reconciler/git/telemetry.signers")
    [session] = pages.blocks(PAGE, "console")
    assert CHANGING.sub("_", f"$ reconciler status\n{said}") == CHANGING.sub("_", session)
