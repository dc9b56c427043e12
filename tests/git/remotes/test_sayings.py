"""What git, curl and ssh say of a remote, and what is made of it.

The texts are what git 2.39.5, curl 7.88.1 with GnuTLS and OpenSSH 9.2 wrote; those marked so are of curl with OpenSSL,
or of a forge.
"""

from pathlib import Path

import pytest

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.remotes.credentials import Credentials
from reconciler.git.remotes.error_table import NOTED, OF_SCHEME
from reconciler.git.remotes.errors import explain
from reconciler.git.remotes.program import Output
from reconciler.git.remotes.sources import Source

SOURCE = "https://git.example/a.git"
OVER_SSH = "ssh://git@git.example/a.git"
OVER_GIT = "git://localhost/a.git"
OF = {
    SOURCE: Credentials(username="ada", password_file=Path("/etc/password")),
    OVER_SSH: Credentials(ssh_key_file=Path("/etc/key"), known_hosts_file=Path("/etc/hosts")),
    OVER_GIT: Credentials(),
}
REFUSED = (
    f"{SOURCE} refuses the credentials in /etc/password (`credentials.passwordFile`){{}}; write the right one there,"
    " and it is noticed"
)
UNABLE = f"fatal: unable to access '{SOURCE}/': "
SSH_END = (
    "fatal: Could not read from remote repository.\n\nPlease make sure you have the correct access rights\n"
    "and the repository exists.\n"
)
FRAME = "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\n"
BROKE_OFF = f"the connection to {SOURCE} broke off ({{}}); look at the network and the server if this stays"
NOTHING = f"nothing answers at {SOURCE} ({{}}); start the server, or correct `url`"
NOT_TRUSTED = (
    f"the certificate of {SOURCE} is not trusted ({{}}); renew it, or name its authority in `credentials.caFile`"
)
NO_TLS = f"{SOURCE} and git do not agree on TLS ({{}}); look at the server, or correct `url`"
NO_ADDRESS = f"the name of the host of {SOURCE} has no address; correct `url`, or look at DNS"
NO_REPOSITORY = f"there is no repository at {SOURCE}, or it may not be read; correct `url`, or have it allowed"
REFUSED_KEY = (
    f"{SOURCE} refuses the ssh key in /etc/key (`credentials.sshKeyFile`); allow its public key there, write another"
    " into that file, or correct the user in `url`"
)
UNKNOWN_HOST = (
    f"the host of {SOURCE} is not in `credentials.knownHostsFile`; add its line of `ssh-keyscan`, once you know that"
    " the key is the host's own"
)
U, A = RepositoryState.UNREACHABLE, RepositoryState.UNAUTHORIZED

HTTPS = [
    (f"fatal: Authentication failed for '{SOURCE}/'\n", A, REFUSED.format("")),
    (
        "remote: Support for password authentication was removed.\nremote: \nremote: Use a token.\nremote: More.\n"
        f"fatal: Authentication failed for '{SOURCE}/'\n",  # GitHub
        A,
        REFUSED.format(" (it says: Support for password authentication was removed. Use a token.)"),
    ),
    (
        "fatal: could not read Username for 'https://git.example': terminal prompts disabled\n",
        A,
        REFUSED.format(""),
    ),
    (
        "fatal: cannot exec '/var/home/askpass': Permission denied\n"
        "fatal: could not read Password for 'https://ada@git.example': terminal prompts disabled\n",
        A,
        f"git could not read the password of {SOURCE} (cannot exec '/var/home/askpass': Permission denied); let"
        " programs run from where `stateDir` is",
    ),
    (
        f"remote: you are banned\n{UNABLE}The requested URL returned error: 403\n",
        A,
        f"{SOURCE} may not be read with the credentials in /etc/password (`credentials.passwordFile`) (it says: you are"
        " banned); have them allowed to, or write others there, and it is noticed",
    ),
    (
        f"{UNABLE}The requested URL returned error: 401\n",
        A,
        REFUSED.format(""),
    ),
    (
        f"remote: Not Found\nfatal: repository '{SOURCE}/' not found\n",
        U,
        f"there is no repository at {SOURCE}, or these credentials may not read it (it says: Not Found); correct `url`"
        " or `credentials`",
    ),
    (
        f"{UNABLE}The requested URL returned error: 410\n",
        U,
        f"there is no repository at {SOURCE}, or these credentials may not read it; correct `url` or `credentials`",
    ),
    (
        f"{UNABLE}The requested URL returned error: 429\n",
        U,
        f"{SOURCE} gets too many requests and asks to wait; raise `interval` if this stays",
    ),
    *(
        (
            f"{UNABLE}The requested URL returned error: {code}\n",
            U,
            f"the server of {SOURCE} has a fault (HTTP {code}); look at the server if this stays",
        )
        for code in (500, 502, 503, 504)
    ),
    (
        f"{UNABLE}The requested URL returned error: 308\n",
        U,
        f"{SOURCE} redirects elsewhere, which is not followed; correct `url`",
    ),
    (
        f"{UNABLE}The requested URL returned error: 418\n",
        U,
        f"{SOURCE} answers with HTTP 418; correct `url`, or look at the server",
    ),
    *(
        (
            text,
            U,
            f"what answers at {SOURCE} does not speak Git's smart protocol; correct `url`, or look at what answers"
            " there",
        )
        for text in (f"fatal: {SOURCE}/info/refs not valid: is this a git repository?\n",)
    ),
    (
        f"{UNABLE}CONNECT tunnel failed, response 407\n",
        U,
        f"the proxy of {SOURCE} asks for a password, which is not supported; name another in `credentials.proxy`",
    ),
    *(
        (
            UNABLE + words,
            U,
            f"the proxy of {SOURCE} does not connect (HTTP 403); look at `credentials.proxy`, and at what it allows",
        )
        for words in ("CONNECT tunnel failed, response 403\n", "Received HTTP code 403 from proxy after CONNECT\n")
    ),
    (
        f"{UNABLE}Proxy CONNECT aborted\n",
        U,
        f"the proxy of {SOURCE} broke the connection off; look at `credentials.proxy`, and at what it allows",
    ),
    (
        f"{UNABLE}Could not resolve proxy: none.invalid\n",
        U,
        f"the name of the proxy of {SOURCE} has no address; correct `credentials.proxy`, or look at DNS",
    ),
]

TLS = [
    (
        f"{UNABLE}SSL: certificate subject name (n) does not match target host name '127.0.0.1'\n",
        U,
        f"the certificate of {SOURCE} is for another host (SSL: certificate subject name (n) does not match target host"
        " name '127.0.0.1'); correct `url` or the certificate",
    ),
    (
        f"{UNABLE}SSL: no alternative certificate subject name matches target host name 'git.example'\n",  # OpenSSL
        U,
        f"the certificate of {SOURCE} is for another host (SSL: no alternative certificate subject name matches target"
        " host name 'git.example'); correct `url` or the certificate",
    ),
    *(
        (UNABLE + words, U, NOT_TRUSTED.format(words.strip()))
        for words in (
            "server certificate verification failed. CAfile: /etc/ca.pem CRLfile: none\n",
            "SSL certificate problem: certificate has expired\n",  # OpenSSL
        )
    ),
    *(
        (UNABLE + words, U, NO_TLS.format(words.strip().rstrip(".")))
        for words in (
            "gnutls_handshake() failed: An unexpected TLS packet was received.\n",
            "error:0A00010B:SSL routines::wrong version number\n",  # OpenSSL
        )
    ),
]

SSH = [
    ("ada@git.example: Permission denied (publickey).\n" + SSH_END, A, REFUSED_KEY),
    ("Received disconnect from ::1: 2: Too many authentication failures\n" + SSH_END, A, REFUSED_KEY),
    (
        'Load key "/etc/key": error in libcrypto\nada@git.example: Permission denied (publickey).\n' + SSH_END,
        A,
        f"ssh cannot use the ssh key in /etc/key (`credentials.sshKeyFile`) for {SOURCE} (error in libcrypto); put a"
        " key there, and it is noticed",
    ),
    (
        f"{FRAME}@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\n{FRAME}"
        "IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!\nHost key verification failed.\n" + SSH_END,
        U,
        f"the host of {SOURCE} shows another key than `credentials.knownHostsFile` has: it got a new one, or somebody"
        " stands in its place; find out which, and then correct that file",
    ),
    (
        f"{FRAME}@       WARNING: REVOKED HOST KEY DETECTED!               @\n{FRAME}Host key verification failed.\n"
        + SSH_END,
        U,
        f"the host of {SOURCE} shows a key that `credentials.knownHostsFile` has as revoked; find out why",
    ),
    (
        "No ED25519 host key is known for git.example and you have requested strict checking.\n"
        "Host key verification failed.\n" + SSH_END,
        U,
        UNKNOWN_HOST,
    ),
    ("Host key verification failed.\n" + SSH_END, U, UNKNOWN_HOST),
    (
        "Welcome to git.example\nUnable to negotiate with ::1 port 22: no matching host key type found. Their offer:"
        " ssh-rsa\n" + SSH_END,
        U,
        f"the host of {SOURCE} and ssh have no method in common (no matching host key type found. Their offer:"
        " ssh-rsa); upgrade the older of the two",
    ),
    (
        "fatal: '/srv/a.git' does not appear to be a git repository\n" + SSH_END,
        U,
        f"{SOURCE} is not a Git repository; make one there, or correct `url`",
    ),
    ("ERROR: Repository not found.\n" + SSH_END, U, NO_REPOSITORY),  # GitHub
    (
        "remote: \nERROR: The project you were looking for could not be found or you don't have permission to view"
        " it.\n" + SSH_END,  # GitLab
        U,
        NO_REPOSITORY,
    ),
    ("fatal: remote error: access denied or repository not exported: /a.git\n", U, NO_REPOSITORY),
    (
        SSH_END,
        U,
        f"the connection to {SOURCE} ended before an answer (git gave no reason); look at the server if this stays",
    ),
    (
        "Welcome\nThis account is currently not available.\n" + SSH_END,
        U,
        f"the connection to {SOURCE} ended before an answer (it says: Welcome This account is currently not"
        " available); look at the server if this stays",
    ),
    (
        "ssh -F none -o BatchMode=yes: 1: ssh: not found\n" + SSH_END,
        U,
        f"a program that {SOURCE} needs is not on PATH; install git and OpenSSH's client",
    ),
]

NETWORK = [
    (f"{UNABLE}Could not resolve host: none.invalid\n", U, NO_ADDRESS),
    ("ssh: Could not resolve hostname none.invalid: Name or service not known\n" + SSH_END, U, NO_ADDRESS),
    ("fatal: Unable to look up none.invalid (port 9418) (Name or service not known)\n", U, NO_ADDRESS),
    *(
        (UNABLE + words + "\n", U, NOTHING.format(words.replace(" after 0 ms", "")))  # the time is another each time
        for words in (
            "Failed to connect to ::1 port 1 after 0 ms: Couldn't connect to server",
            "Failed to connect to ::1 port 1 after 0 ms: Could not connect to server",  # curl 8
        )
    ),
    (
        "ssh: connect to host ::1 port 1: Connection refused\n" + SSH_END,
        U,
        NOTHING.format("ssh: connect to host ::1 port 1: Connection refused"),
    ),
    (
        "fatal: unable to connect to 127.0.0.1:\n127.0.0.1[0: 127.0.0.1]: errno=Connection refused\n\n",
        U,
        NOTHING.format("unable to connect to 127.0.0.1:"),
    ),
    *(
        (text, U, f"{SOURCE} does not answer ({detail}); look at the network and the server")
        for text, detail in (
            (
                "ssh: connect to host 10.0.0.1 port 22: Connection timed out\n" + SSH_END,
                "ssh: connect to host 10.0.0.1 port 22: Connection timed out",
            ),
            (
                f"{UNABLE}Operation too slow. Less than 1 bytes/sec transferred the last 60 seconds\n",
                "Operation too slow. Less than 1 bytes/sec transferred the last 60 seconds",
            ),
        )
    ),
    *(
        (text, U, BROKE_OFF.format(detail))
        for text, detail in (
            (
                "error: RPC failed; curl 56 Recv failure: Connection reset by peer\n"
                "fatal: expected flush after ref listing\n",
                "RPC failed; curl 56 Recv failure: Connection reset by peer",
            ),
            (
                f"{UNABLE}gnutls_handshake() failed: The TLS connection was non-properly terminated.\n",
                "gnutls_handshake() failed: The TLS connection was non-properly terminated",
            ),
            (
                f"{UNABLE}getpeername() failed with errno 107: Transport endpoint is not connected\n",
                "getpeername() failed with errno 107: Transport endpoint is not connected",
            ),
            (
                "kex_exchange_identification: read: Connection reset by peer\n"
                "Connection reset by 127.0.0.1 port 22\n" + SSH_END,
                "Connection reset by 127.0.0.1 port 22",
            ),
            ("Connection closed by 127.0.0.1 port 22\n" + SSH_END, "Connection closed by 127.0.0.1 port 22"),
            (
                "remote: Counting objects: 100% (9/9), done.\nReceiving objects:  33% (3/9)\nfetch-pack: unexpected"
                " disconnect while reading sideband packet\nfatal: early EOF\nfatal: fetch-pack: invalid index-pack"
                " output\n",
                "early EOF",
            ),
        )
    ),
]

BOUNDS = [
    (
        "fatal: Out of memory, malloc failed (tried to allocate 8589934593 bytes)\nfatal: index-pack died\n",
        U,
        f"{SOURCE} takes more than 1.5 GiB of memory to look at or fetch; delete refs, or shorten its history",
    ),
    (
        "remote: File too large\nfatal: write error: File too large\nfatal: fetch-pack: invalid index-pack output\n",
        U,
        f"{SOURCE} sends more than the 512 bytes that one fetch may bring; shorten its history",
    ),
    (
        "fatal: cannot store pack file: No space left on device\nfatal: fetch-pack: invalid index-pack output\n",
        U,
        f"there is no disk space left for the mirror of {SOURCE}; make room where `stateDir` is",
    ),
]


NOTES = [
    (
        "it sends 52 objects, and one fetch may bring 3",
        f"{SOURCE} sends 52 objects, more than the 3 that one fetch may bring; shorten its history",
    ),
    (
        "redirected to https://b.example/a.git",
        f"{SOURCE} redirects to https://b.example/a.git, which is not followed; correct `url`",
    ),
    (
        "the remote does not speak Git's smart protocol",
        f"what answers at {SOURCE} does not speak Git's smart protocol; correct `url`, or look at what answers there",
    ),
    (
        "the signal SIGKILL ended git",
        f"{SOURCE} cannot be read (the signal SIGKILL ended git); mend that, and it is read",
    ),
]


def told(
    stderr: str, url: str = SOURCE, *, notes: tuple[str, ...] = (), secrets: frozenset[bytes] = frozenset()
) -> GitFault:
    """The fault of a run that ended so, against a remote whose credentials are set."""
    output = Output(128, b"", stderr, truncated=False, retry_after=7.0, notes=notes, secrets=secrets)
    return explain(Source(url=url, credentials=OF[url], max_bytes=512), output)


def url_of(stderr: str) -> str:
    """Over what it was said."""
    if stderr.endswith(SSH_END):
        return OVER_SSH
    over_git = ("fatal: remote error: ", "fatal: Unable to look up", "fatal: unable to connect")
    return OVER_GIT if stderr.startswith(over_git) else SOURCE


@pytest.mark.parametrize(("stderr", "state", "message"), [*HTTPS, *TLS, *SSH, *NETWORK, *BOUNDS])
def test_says_what_is_wrong_with_a_remote_and_what_to_do(stderr: str, state: RepositoryState, message: str) -> None:
    url = url_of(stderr)
    fault = told(stderr, url)
    assert (fault.state, fault.message, fault.retry_after) == (state, message.replace(SOURCE, url), 7.0)


@pytest.mark.parametrize(("note", "message"), NOTES)
def test_what_we_know_of_a_run_is_told_whatever_the_remote_says_and_is_no_words_of_it(note: str, message: str) -> None:
    assert told("remote: Not Found\nwarning: odd\n", notes=(note,)).message == message
    pretended = told(f"fatal: remote error: x\nfatal: {note}\n", OVER_GIT)
    assert pretended.message == f"{OVER_GIT} cannot be read (it says: x fatal: {note}); mend that, and it is read"


@pytest.mark.parametrize(
    ("stderr", "url", "message"),
    [
        (
            f"fatal: Authentication failed for '{SOURCE}/'\n",
            SOURCE,
            f"{SOURCE} asks for credentials, and none are set; set `credentials`",
        ),
        (
            "fatal: could not read Username for 'https://git.example': terminal prompts disabled\n",
            SOURCE,
            f"{SOURCE} asks for credentials, and none are set; set `credentials`",
        ),
        (
            f"{UNABLE}The requested URL returned error: 403\n",
            SOURCE,
            f"{SOURCE} may not be read without credentials; set `credentials`",
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


def test_names_the_file_of_a_token_that_is_refused() -> None:
    source = Source(url=SOURCE, credentials=Credentials(token_file=Path("/etc/token")))
    stderr = "fatal: could not read Username for 'https://git.example': terminal prompts disabled\n"
    assert explain(source, Output(128, b"", stderr, truncated=False)).message == (
        f"{SOURCE} refuses the credentials in /etc/token (`credentials.tokenFile`); write the right one there, and it"
        " is noticed"
    )


def test_whoever_does_not_answer_before_a_proxy_is_the_proxy() -> None:
    words = "Failed to connect to 127.0.0.1 port 3128: Couldn't connect to server"
    source = Source(url=SOURCE, credentials=Credentials(proxy="http://127.0.0.1:3128"))
    output = Output(128, b"", f"{UNABLE}{words.replace(':', ' after 7 ms:')}\n", truncated=False)
    fault = explain(source, output)
    assert (fault.state, fault.message) == (
        U,
        f"the proxy of {SOURCE} does not answer ({words}); start it, or correct `credentials.proxy`",
    )


def test_every_row_is_met_by_some_text() -> None:
    texts = [stderr for stderr, _, _ in (*HTTPS, *TLS, *SSH, *NETWORK, *BOUNDS)]
    rows = {row for scheme in ("https", "ssh", "git") for row in OF_SCHEME[scheme]}
    rows = {row for row in rows if row.state in {U, A}}
    unmet = [row.pattern.pattern for row in rows if not any(row.pattern.search(text) for text in texts)]
    assert unmet == []
    assert [row for row in NOTED if not any(row.pattern.search(note) for note, _ in NOTES)] == []


@pytest.mark.parametrize(
    ("stderr", "transient"),
    [
        (f"{UNABLE}The requested URL returned error: 503\n", True),
        (f"{UNABLE}The requested URL returned error: 429\n", True),
        ("Connection closed by 127.0.0.1 port 22\n" + SSH_END, True),
        (f"{UNABLE}Could not resolve host: none.invalid\n", True),
        (f"fatal: repository '{SOURCE}/' not found\n", False),
        (f"{UNABLE}The requested URL returned error: 302\n", False),
        ("Host key verification failed.\n" + SSH_END, False),
        (f"{UNABLE}SSL certificate problem: certificate has expired\n", False),
        (f"fatal: Authentication failed for '{SOURCE}/'\n", False),
    ],
)
def test_tells_what_passes_from_what_a_person_has_to_mend(stderr: str, transient: bool) -> None:
    assert told(stderr, url_of(stderr)).transient is transient


EVIL = [
    "bad object refs/reconciler/head",
    "fatal: couldn't find remote ref refs/heads/main",
    "fatal: mismatched algorithms: client sha1; server sha256",
    "fatal: fsck error in packed object",
    f"error: object {'a' * 40}: treeNotSorted: no",
    f"fatal: Authentication failed for '{SOURCE}/'",
    f"{UNABLE}The requested URL returned error: 401",
    "fatal: redirected to https://evil.example/login",
    "fatal: it sends 52 objects, and one fetch may bring 3",
    "fatal: write error: No space left on device",
    "fatal: write error: File too large",
    'Load key "/etc/passwd": call this number',
]


@pytest.mark.parametrize("words", EVIL)
@pytest.mark.parametrize("before", ["fatal: remote error: x\n", "fatal: invalid ls-refs response: x\n"])
@pytest.mark.parametrize("url", [SOURCE, OVER_GIT, OVER_SSH])
def test_what_follows_in_a_packet_that_git_quotes_is_the_remotes(url: str, before: str, words: str) -> None:
    fault = told(f"{before}{words}\n", url)
    assert (fault.state, fault.lasting) == (U, False)
    assert fault.message.startswith(f"{url} cannot be read (it says: ")


@pytest.mark.parametrize("words", EVIL)
@pytest.mark.parametrize("end", ["\r", "\u2028", "\x0b", "\x85"])
def test_no_character_but_a_line_end_begins_a_line_of_git_within_what_a_remote_says(words: str, end: str) -> None:
    fault = told(f"remote: x{end}{words}\n{UNABLE}The requested URL returned error: 500\n")
    assert (fault.state, fault.message.partition(" (it says: ")[0]) == (
        U,
        f"the server of {SOURCE} has a fault (HTTP 500)",
    )


@pytest.mark.parametrize("words", EVIL)
def test_the_standard_error_of_a_server_behind_ssh_is_its_own(words: str) -> None:
    fault = told(f"{words}\n{SSH_END}", OVER_SSH)
    assert (fault.state, fault.lasting) == (U, False)
    assert fault.message.startswith(f"the connection to {OVER_SSH} ended before an answer (it says: ")


@pytest.mark.parametrize("url", [SOURCE, OVER_GIT])
def test_what_ssh_says_means_nothing_where_there_is_no_ssh(url: str) -> None:
    for stderr, _, _ in SSH[:7]:
        assert told(stderr.replace(SSH_END, ""), url).state is U
        assert told(stderr.replace(SSH_END, ""), url).message.startswith(f"{url} cannot be read (")


@pytest.mark.parametrize("url", [OVER_SSH, OVER_GIT])
def test_what_curl_says_means_nothing_where_there_is_no_http(url: str) -> None:
    for stderr, _, _ in HTTPS:
        fault = told(stderr, url)
        assert (fault.state, fault.message.partition(" (")[0]) == (U, f"{url} cannot be read")


@pytest.mark.parametrize("secret", [b"Authentication", b"requested", b"returned"])
def test_a_secret_that_is_a_common_word_changes_no_meaning(secret: bytes) -> None:
    refused = f"fatal: Authentication failed for '{SOURCE}/'\n"
    assert told(refused, secrets=frozenset({secret})).message == REFUSED.format("")
    error = f"remote: {secret.decode()} no\n{UNABLE}The requested URL returned error: 500\n"
    assert told(error, secrets=frozenset({secret})).message == (
        f"the server of {SOURCE} has a fault (HTTP 500) (it says: (sensitive) no); look at the server if this stays"
    )


def test_of_a_short_secret_nothing_is_shown_that_would_tell_it_by_what_is_left_out() -> None:
    short = frozenset({b"canar"})
    for stderr in (f"remote: canary\nfatal: Authentication failed for '{SOURCE}/'\n", "fatal: canary\n"):
        message = told(stderr, secrets=short).message
        assert ("(its words are not shown)" in message, "sensitive" in message, "canar" in message) == (
            True,
            False,
            False,
        )
    note = "redirected to https://b.example/canary"
    assert told("", notes=(note,), secrets=short).message == (
        f"{SOURCE} redirects to another address, which is not followed; correct `url`"
    )


def test_hides_a_secret_in_where_a_redirect_leads() -> None:
    note = "redirected to https://b.example/canary-password"
    assert told("", notes=(note,), secrets=frozenset({b"canary-password"})).message == (
        f"{SOURCE} redirects to https://b.example/(sensitive), which is not followed; correct `url`"
    )


def test_a_remote_does_not_choose_what_is_made_of_its_words() -> None:
    stderr = "remote: bad object refs/reconciler/head\nremote: fsck error\nremote: Host key verification failed.\n"
    fault = told(stderr + f"{UNABLE}The requested URL returned error: 500\n")
    assert (fault.state, fault.message) == (
        RepositoryState.UNREACHABLE,
        f"the server of {SOURCE} has a fault (HTTP 500) (it says: bad object refs/reconciler/head fsck error); look at"
        " the server if this stays",
    )


def test_what_a_remote_says_is_shown_escaped_and_bounded() -> None:
    stderr = f"remote: \x1b[31m{'x' * 900}\n{UNABLE}The requested URL returned error: 403\n"
    message = told(stderr).message
    assert "(it says: \\x1b[31mxxx" in message
    assert message.isprintable()
    assert len(message) < 480
