"""Failed runs of git as faults.

The texts are what git 2.39.5, curl 7.88.1 with GnuTLS and OpenSSH 9.2 wrote; those marked so are of curl with OpenSSL,
or of a forge.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import HEAD, RefHead
from reconciler.git.remotes.credentials import Credentials
from reconciler.git.remotes.errors import explain, explained_fault, of_mirror
from reconciler.git.remotes.mirrors import Mirror
from reconciler.git.remotes.program import GitProgram, Output
from reconciler.git.remotes.sources import Source
from tests.git.remotes.shims import Shim
from tests.repositories import Repository

SOURCE = "https://git.example/a.git"
OVER_SSH = "ssh://git@git.example/a.git"
OVER_GIT = "git://localhost/a.git"
HERE = "/srv/a"
OF = {
    SOURCE: Credentials(username="ada", password_file=Path("/etc/password")),
    OVER_SSH: Credentials(ssh_key_file=Path("/etc/key"), known_hosts_file=Path("/etc/hosts")),
    OVER_GIT: Credentials(),
    HERE: Credentials(),
}
REFUSED = (
    f"{SOURCE} refuses the credentials in /etc/password (`credentials.passwordFile`){{}}; write the right one there, or"
    " have it allowed, and it is noticed"
)
UNABLE = f"fatal: unable to access '{SOURCE}/': "
SSH_END = (
    "fatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\n"
    "and the repository exists.\n"
)
FRAME = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\n"
U, A, F = RepositoryState.UNREACHABLE, RepositoryState.UNAUTHORIZED, RepositoryState.UNSUPPORTED_FORMAT
STATUS = f"{UNABLE}The requested URL returned error: "


def told(
    stderr: str, url: str = SOURCE, *, notes: tuple[str, ...] = (), secrets: frozenset[bytes] = frozenset()
) -> GitFault:
    """The fault of a run that ended so, against a remote whose credentials are set."""
    output = Output(128, b"", stderr, truncated=False, retry_after=7.0, notes=notes, secrets=secrets)
    return explain(Source(url=url, credentials=OF[url], max_bytes=512), output)


@pytest.mark.parametrize(
    ("stderr", "state", "message", "lasting"),
    [
        (f"fatal: Authentication failed for '{SOURCE}/'\n", A, REFUSED.format(""), False),
        (
            "remote: Support for password authentication was removed.\nremote: \nremote: Use a token.\nremote: More.\n"
            f"fatal: Authentication failed for '{SOURCE}/'\n",  # GitHub
            A,
            REFUSED.format(" (it says: Support for password authentication was removed. Use a token.)"),
            False,
        ),
        ("fatal: could not read Username for 'https://git.example': no\n", A, REFUSED.format(""), False),
        (f"remote: you are banned\n{STATUS}403\n", A, REFUSED.format(" (it says: you are banned)"), False),
        (
            f"remote: Not Found\nfatal: repository '{SOURCE}/' not found\n",
            U,
            f"there is no repository at {SOURCE}, or these credentials may not read it (it says: Not Found); correct"
            " `url` or `credentials`",
            True,
        ),
        (
            f"{STATUS}429\n",
            U,
            f"the server of {SOURCE} answers with HTTP 429; look at the server, or raise `interval`, if this stays",
            False,
        ),
        (
            f"{STATUS}503\n",
            U,
            f"the server of {SOURCE} answers with HTTP 503; look at the server, or raise `interval`, if this stays",
            False,
        ),
        (
            f"{STATUS}418\n",
            U,
            f"{SOURCE} cannot be read (The requested URL returned error: 418); mend that, and it is read",
            False,
        ),
        (
            f"{UNABLE}SSL certificate problem: certificate has expired\n",  # OpenSSL
            U,
            f"the certificate of {SOURCE} is not trusted (SSL certificate problem: certificate has expired); renew it,"
            " correct `url`, or name its authority in `credentials.caFile`",
            True,
        ),
        (
            # the time is another each time
            f"{UNABLE}Failed to connect to ::1 port 1 after 0 ms: Couldn't connect to server\n",
            U,
            f"{SOURCE} cannot be read (Failed to connect to ::1 port 1: Couldn't connect to server); mend that, and it"
            " is read",
            False,
        ),
        (
            "fatal: write error: File too large\nfatal: fetch-pack: invalid index-pack output\n",
            U,
            f"{SOURCE} sends more than the 512 bytes or the 5000000 objects that one fetch may bring; shorten its"
            " history",
            True,
        ),
        (
            "fatal: Out of memory, malloc failed (tried to allocate 8589934593 bytes)\nfatal: index-pack died\n",
            U,
            f"{SOURCE} takes more than 1.5 GiB of memory to look at or fetch; delete refs, or shorten its history",
            True,
        ),
        (
            "fatal: cannot store pack file: No space left on device\nfatal: fetch-pack: invalid index-pack output\n",
            U,
            f"there is no disk space left for the mirror of {SOURCE}; make room where `stateDir` is",
            False,
        ),
        (
            f"error: object {'a' * 40}: treeNotSorted: not sorted\nfatal: fsck error in packed object\n",
            F,
            f"{SOURCE} holds an object that fails Git's integrity checks (object {'a' * 40}: treeNotSorted: not"
            " sorted); repair its history",
            True,
        ),
    ],
)
def test_tells_the_cause_over_https_and_quotes_what_it_does_not_know(
    stderr: str, state: RepositoryState, message: str, lasting: bool
) -> None:
    fault = told(stderr)
    assert (fault.state, fault.message, fault.lasting, fault.retry_after) == (state, message, lasting, 7.0)


NO_REPOSITORY = "there is no repository at URL, or it may not be read; correct `url`, or have it allowed"
UNKNOWN_HOST = (
    "the host of URL is not in `credentials.knownHostsFile`; add its line of `ssh-keyscan`, once you know that the key"
    " is the host's own"
)
ANOTHER_KEY = (
    "the host of URL shows another key than `credentials.knownHostsFile` has, or a revoked one: it got a new one, or"
    " somebody stands in its place; find out which, and then correct that file"
)
REFUSED_KEY = (
    "URL refuses the ssh key in /etc/key (`credentials.sshKeyFile`); allow its public key there, write another into"
    " that file, or correct its passphrase in `credentials.sshPassphraseFile` or the user in `url`"
)


@pytest.mark.parametrize(
    ("words", "state", "message"),
    [
        ("ada@git.example: Permission denied (publickey).", A, REFUSED_KEY),
        ("Received disconnect from ::1: 2: Too many authentication failures", A, REFUSED_KEY),
        (
            'Load key "identity": bad permissions\nada@git.example: Permission denied (publickey).',
            A,
            "the ssh key in /etc/key (`credentials.sshKeyFile`) cannot be used by ssh (bad permissions); make its mode"
            " 0600 and put a private key there",
        ),
        (
            f"{FRAME}@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n{FRAME}"
            "IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\nHost key verification failed.",
            U,
            ANOTHER_KEY,
        ),
        (
            f"{FRAME}@       WARNING: REVOKED HOST KEY DETECTED!               @\n{FRAME}Host key verification failed.",
            U,
            ANOTHER_KEY,
        ),
        ("Host key verification failed.", U, UNKNOWN_HOST),
        (
            "fatal: '/srv/a.git' does not appear to be a git repository",
            U,
            "URL is not a Git repository; make one there, or correct `url`",
        ),
        ("ERROR: Repository not found.", U, NO_REPOSITORY),  # GitHub
        (
            "remote: \nERROR: The project you were looking for could not be found or you don't have permission to view"
            " it.",  # GitLab
            U,
            NO_REPOSITORY,
        ),
        (
            "Welcome\nThis account is currently not available.",
            U,
            "URL cannot be read (This account is currently not available); mend that, and it is read",
        ),
        ("", U, "URL cannot be read (git gave no reason); mend that, and it is read"),
        (
            "ssh: connect to host ::1 port 1: Connection refused",
            U,
            "URL cannot be read (ssh: connect to host ::1 port 1: Connection refused); mend that, and it is read",
        ),
        (
            "ssh -F none -o BatchMode=yes: 1: ssh: not found",
            U,
            "a program that URL needs is not on PATH; install git and OpenSSH's client",
        ),
    ],
)
def test_tells_the_cause_over_ssh(words: str, state: RepositoryState, message: str) -> None:
    fault = told(f"{words}\n{SSH_END}", OVER_SSH)
    assert (fault.state, fault.message) == (state, message.replace("URL", OVER_SSH))


@pytest.mark.parametrize(
    "words",
    [
        "User: 3:ada with Key: 7:laptop is not authorized to read team/telemetry.",  # Gitea, Forgejo
        "Forgejo: User: 3:ada with Key: 7:laptop is not authorized to read team/telemetry.",
        "Gitea: Unauthorized",  # Gitea before 1.14
        "FATAL: R any team/telemetry ada DENIED by fallthru\n(or you mis-spelled the reponame)",  # gitolite
        "FATAL: R access for team/telemetry DENIED to ada",  # gitolite 2
        "conq: repository access denied.",  # Bitbucket
        "repository access denied.",
        "Forbidden",
        "Unauthorized",
        "remote: Public key authentication failed.",  # Azure DevOps
        "ERROR: The 'example' organization has enabled or enforced SAML SSO. To access\nthis repository, you must use"
        " the HTTPS remote with a personal access token\nor SSH with an SSH key and passphrase",  # GitHub
    ],
)
def test_a_forge_that_refuses_a_key_over_ssh_is_unauthorized(words: str) -> None:
    fault = told(f"{words}\n{SSH_END}", OVER_SSH)
    assert fault.state is A
    assert fault.message.startswith(f"{OVER_SSH} refuses the ssh key in /etc/key (`credentials.sshKeyFile`) (it says: ")
    anonymous = explain(Source(url=OVER_SSH), Output(128, b"", f"{words}\n{SSH_END}", truncated=False))
    assert anonymous.state is A
    assert anonymous.message.startswith(f"{OVER_SSH} may not be read without credentials (it says: ")


SECRET = "canary-in-another-file"


@pytest.mark.parametrize(
    ("stderr", "state", "message"),
    [
        ("fatal: unknown repository extension found:\n\trefstorage\n" + SSH_END, F, "URL uses a repository format or"),
        ("fatal: '/srv/a' does not appear to be a git repository\n", U, "URL is not a Git repository; make one there"),
        ("fatal: not a git repository: /srv/gone/.git/worktrees/a\n", U, "URL is not a Git repository; make one there"),
        ("fatal: lazy fetching of a promisor remote is disabled\n", F, "URL is a partial clone that lacks objects"),
        (f"fatal: unexpected line in ./packed-refs: {SECRET}\n", U, "URL cannot be read (`git fsck` there says why)"),
        (f"remote: fatal: {SECRET}\nfatal: early EOF\n", U, "URL cannot be read (`git fsck` there says why)"),
        (
            f"fatal: fsck error in packed object: {SECRET}\n",
            F,
            "URL holds an object that fails Git's integrity checks (`git fsck` there says why);",
        ),
        ("", U, "URL cannot be read (git gave no reason); mend that, and it is read"),
    ],
)
def test_of_a_repository_on_this_machine_no_words_are_shown_that_may_be_a_files(
    stderr: str, state: RepositoryState, message: str
) -> None:
    """A link in it may lead to a file that the service may read, and git quotes what it does not understand."""
    fault = told(stderr, HERE)
    assert (fault.state, fault.message.startswith(message.replace("URL", HERE))) == (state, True), fault.message
    assert SECRET not in fault.message


@pytest.mark.parametrize(
    ("note", "message"),
    [
        (
            "it sends too many objects",
            f"{SOURCE} sends more than the 512 bytes or the 5000000 objects that one fetch may bring; shorten its"
            " history",
        ),
        (
            "redirected to https://b.example/a.git",
            f"{SOURCE} redirects to https://b.example/a.git, which is not followed; correct `url`",
        ),
        (
            "the remote does not speak Git's smart protocol",
            f"what answers at {SOURCE} does not speak Git's smart protocol; correct `url`, or look at what answers"
            " there",
        ),
        (
            "a signal ended git",
            f"{SOURCE} cannot be read (a signal ended git); mend that, and it is read",
        ),
    ],
)
def test_what_we_know_of_a_run_is_told_whatever_the_remote_says(note: str, message: str) -> None:
    assert told("remote: Not Found\n", notes=(note,)).message == message


@pytest.mark.parametrize(
    ("stderr", "url", "message"),
    [
        (
            "fatal: could not read Username for 'https://git.example': terminal prompts disabled\n",
            SOURCE,
            f"{SOURCE} asks for credentials, and none are set; set `credentials`",
        ),
        (
            "git@git.example: Permission denied (publickey).\n" + SSH_END,
            OVER_SSH,
            f"{OVER_SSH} asks for an ssh key, and none is set; set `credentials.sshKeyFile`",
        ),
    ],
)
def test_says_that_credentials_are_asked_for_where_none_are_set(stderr: str, url: str, message: str) -> None:
    fault = explain(Source(url=url), Output(128, b"", stderr, truncated=False))
    assert (fault.state, fault.message) == (A, message)


LIES = [
    "bad object refs/reconciler/head",
    "fatal: couldn't find remote ref refs/heads/main",
    "fatal: mismatched algorithms: client sha1; server sha256",
    "fatal: fsck error in packed object",
    f"error: object {'a' * 40}: treeNotSorted: no",
    f"fatal: Authentication failed for '{SOURCE}/'",
    f"{UNABLE}The requested URL returned error: 401",
    "redirected to https://evil.example/login",
    "fatal: write error: No space left on device",
    "fatal: write error: File too large",
    'Load key "/etc/passwd": call this number',
]


@pytest.mark.parametrize("words", LIES)
@pytest.mark.parametrize("before", ["", "fatal: remote error: x\n", "fatal: invalid ls-refs response: x\n", "x\r"])
@pytest.mark.parametrize("url", [SOURCE, OVER_GIT, OVER_SSH])
def test_a_remote_that_lies_chooses_only_how_its_own_failure_is_told(url: str, before: str, words: str) -> None:
    fault = told(f"{before}{words}\n", url)
    assert fault.state in {A, U, F}
    assert url in fault.message or "/etc/key" in fault.message
    assert fault.message.isprintable()


@pytest.mark.parametrize("words", LIES)
def test_words_of_a_remote_that_git_marks_are_no_words_of_git(words: str) -> None:
    fault = told(f"remote: {words}\n{UNABLE}The requested URL returned error: 500\n")
    assert (fault.state, fault.message.partition(" (it says: ")[0]) == (
        U,
        f"the server of {SOURCE} answers with HTTP 500",
    )


@pytest.mark.parametrize("secret", [b"Authentication", b"requested", b"returned"])
def test_a_secret_that_is_a_common_word_changes_no_meaning(secret: bytes) -> None:
    refused = f"fatal: Authentication failed for '{SOURCE}/'\n"
    assert told(refused, secrets=frozenset({secret})).message == REFUSED.format("")
    error = f"remote: {secret.decode()} no\n{UNABLE}The requested URL returned error: 500\n"
    assert told(error, secrets=frozenset({secret})).message == (
        f"the server of {SOURCE} answers with HTTP 500 (it says: (sensitive) no); look at the server, or raise"
        " `interval`, if this stays"
    )


def test_hides_a_secret_in_where_a_redirect_leads() -> None:
    note = "redirected to https://b.example/canary-password"
    assert told("", notes=(note,), secrets=frozenset({b"canary-password"})).message == (
        f"{SOURCE} redirects to https://b.example/(sensitive), which is not followed; correct `url`"
    )


def test_what_a_remote_says_is_shown_escaped_and_bounded() -> None:
    stderr = f"remote: \x1b[31m{'x' * 900}\n{UNABLE}The requested URL returned error: 403\n"
    message = told(stderr).message
    assert "(it says: \\x1b[31mxxx" in message
    assert message.isprintable()
    assert len(message) < 480


URL = "ssh://git@git.example/a.git"
ABOUT_THE_MIRROR = (
    "fatal: bad object refs/reconciler/head",
    "error: refs/reconciler/head is broken",
    "error: {mirror}",
)
DAMAGED = f"the mirror of {URL} is damaged; it is built again by itself"


def failed(stderr: str) -> Output:
    """A git that ended with these words."""
    return Output(128, b"", f"{stderr}\n", truncated=False)


@pytest.fixture
async def mirror(tmp_path: Path) -> Mirror:
    """A mirror that holds one commit."""
    origin = Repository.init(tmp_path / "origin")
    origin.write("a.yaml", "kind: Destination")
    origin.commit()
    source = Source(url=str(origin.path))
    mirror = Mirror(tmp_path / "state/mirrors/one.git", GitProgram(tmp_path / "state/git"), url=URL)
    await mirror.ensure()
    await mirror.fetch(source, HEAD, RefHead("HEAD", origin.head()))
    return mirror


async def of_a_remote(mirror: Mirror, stderr: str) -> GitFault:
    """The fault when git talks to a remote and ends with these words."""
    output = failed(stderr.format(mirror=mirror.path))
    return await explained_fault(Source(url=URL), output, mirror=mirror.path, program=mirror.program)


@pytest.mark.anyio
@pytest.mark.parametrize("stderr", ABOUT_THE_MIRROR)
async def test_a_remote_that_speaks_of_our_mirror_does_not_have_it_made_anew(mirror: Mirror, stderr: str) -> None:
    fault = await of_a_remote(mirror, f"{stderr}\nfatal: Could not read from remote repository.")
    assert fault.state is RepositoryState.UNREACHABLE
    assert fault.message.startswith(f"{URL} cannot be read (")


@pytest.mark.anyio
async def test_a_mirror_that_is_named_and_whole_is_not_made_anew(mirror: Mirror) -> None:
    fault = await of_a_remote(mirror, ABOUT_THE_MIRROR[2])
    assert (fault.state, fault.message) == (
        RepositoryState.UNREACHABLE,
        f"{URL} cannot be read ({mirror.path}); mend that, and it is read",
    )


def empty_pack(mirror: Path) -> None:
    [pack] = (mirror / "objects/pack").glob("*.pack")
    pack.chmod(0o600)
    pack.write_bytes(b"")


def garble_blob(mirror: Path) -> None:
    """One byte in the middle, of what no walk through commits and folders reads."""
    [pack] = (mirror / "objects/pack").glob("*.pack")
    pack.chmod(0o600)
    content = bytearray(pack.read_bytes())
    content[-30] ^= 0xFF
    pack.write_bytes(content)


def lose_objects(mirror: Path) -> None:
    for file in (mirror / "objects/pack").iterdir():
        file.unlink()


def garble_ref(mirror: Path) -> None:
    [ref] = (path for path in (mirror / "refs/reconciler").iterdir())
    ref.write_text("no object\n")


def garble_configuration(mirror: Path) -> None:
    (mirror / "config").write_text("[core\n")


@pytest.mark.anyio
@pytest.mark.parametrize("damage", [empty_pack, garble_blob, lose_objects, garble_ref, garble_configuration])
async def test_a_mirror_that_is_damaged_is_found_so_once_git_speaks_of_it(
    mirror: Mirror, damage: Callable[[Path], None]
) -> None:
    damage(mirror.path)
    fault = await of_a_remote(mirror, ABOUT_THE_MIRROR[2])
    assert (fault.state, fault.message) == (RepositoryState.MIRROR_CORRUPT, DAMAGED)


@pytest.mark.anyio
async def test_a_mirror_is_not_damaged_because_a_look_into_it_was_killed(mirror: Mirror, shim: Shim) -> None:
    shim.kill("fsck")
    fault = await of_a_remote(mirror, ABOUT_THE_MIRROR[2])
    assert (fault.state, shim.count("fsck")) == (RepositoryState.UNREACHABLE, 1)


@pytest.mark.anyio
async def test_a_mirror_that_is_damaged_is_not_looked_into_before_git_speaks_of_it(mirror: Mirror) -> None:
    garble_ref(mirror.path)
    fault = await of_a_remote(mirror, "Connection closed by 127.0.0.1 port 22")
    assert fault.state is RepositoryState.UNREACHABLE


def test_git_is_believed_of_what_it_finds_in_our_own_files() -> None:
    fault = of_mirror(URL, failed("fatal: odd"))
    assert (fault.state, fault.message) == (
        RepositoryState.MIRROR_CORRUPT,
        f"the mirror of {URL} cannot be read (odd); it is built again by itself",
    )


def test_shows_no_more_than_one_bounded_line() -> None:
    message = explain(Source(url=URL), failed("fatal: \x1b[31m" + "x" * 100_000 + "\nfatal: more")).message
    assert message.startswith(f"{URL} cannot be read (\\x1b[31mxxx")
    assert len(message) < 300
    assert "more" not in message
