"""Phrases of git, curl and ssh, and the cause that each stands for.

Git and ssh run with LC_ALL=C, so their words are these; where versions differ, a row has all of them. curl's depend on
the library for TLS that it was built with: GnuTLS on Debian, OpenSSL elsewhere.
"""

import re
from typing import NamedTuple

from reconciler.git.faults import REBUILT, RepositoryState
from reconciler.git.remotes.sources import MAX_MEMORY_BYTES


class GitErrorRow(NamedTuple):
    """What may stand in git's standard error, and what it means.

    `pattern` fits what git, curl or ssh say, or with `of_remote` what a remote says. A group has only what the remote
    cannot choose, or may: a number, a name of a method. `sentence` has places for `source`, `limit`, `detail` (git's
    first complaint), `said` (what the remote says about it, in parentheses, or nothing), `credentials` (which, and
    where they are) and the groups; `anonymous` is the one to tell where no credentials are set. `lasting`: only a
    person can mend it, though the state does not tell. `of_head`: so it stays until another commit is followed, or
    more may be fetched.
    """

    pattern: re.Pattern[str]
    state: RepositoryState
    sentence: str
    anonymous: str = ""
    lasting: bool = False
    of_head: bool = False
    of_remote: bool = False


def _row(
    pattern: str,
    state: RepositoryState,
    sentence: str,
    *,
    anonymous: str = "",
    lasting: bool = False,
    of_head: bool = False,
    of_remote: bool = False,
) -> GitErrorRow:
    compiled = re.compile(pattern, re.MULTILINE)
    return GitErrorRow(compiled, state, sentence, anonymous, lasting, of_head, of_remote)


# How a line of git begins that tells what curl said, with the URL that we gave, or what its last request came to.
_CURL = r"^(?:fatal: unable to access '[^'\n]*': |error: RPC failed; (?:HTTP [0-9]{3} )?(?:curl [0-9]{1,3} )?)"
_STATUS = f"{_CURL}The requested URL returned error: "

# What stands in our own mirror, whatever the remote is. A remote may write such words too: of a program that talked to
# one they are reason to look into the mirror, and no more.
MIRROR = (
    _row(
        "bad object refs/reconciler/", RepositoryState.MIRROR_CORRUPT, f"the mirror of {{source}} is damaged; {REBUILT}"
    ),
    _row("refs/reconciler/", RepositoryState.MIRROR_CORRUPT, f"the mirror of {{source}} has a damaged ref; {REBUILT}"),
)

OBJECTS = (
    _row(
        r"^fatal: mismatched algorithms: ",
        RepositoryState.UNSUPPORTED_FORMAT,
        "{source} uses another object format than SHA-1, which is not supported; convert it to SHA-1",
    ),
    _row(
        r"^error: object (?P<object>[0-9a-f]{40}: [A-Za-z]{1,40}): ",
        RepositoryState.UNSUPPORTED_FORMAT,
        "{source} holds an object that fails Git's integrity checks ({object}); repair its history",
        of_head=True,
    ),
    _row(
        r"^fatal: fsck error ",
        RepositoryState.UNSUPPORTED_FORMAT,
        "{source} holds an object that fails Git's integrity checks; repair its history",
        of_head=True,
    ),
)

# What only a git says that opens the repository itself.
FORMATS = (
    _row(
        r"^\trefstorage$",
        RepositoryState.UNSUPPORTED_FORMAT,
        "{source} keeps its refs as reftable, which the installed git cannot read; migrate its refs to files",
    ),
    _row(
        r"^fatal: unknown repository extension",
        RepositoryState.UNSUPPORTED_FORMAT,
        "{source} uses a repository extension that the installed git does not know; upgrade git",
    ),
    _row(
        r"^fatal: Expected git repo version",
        RepositoryState.UNSUPPORTED_FORMAT,
        "{source} has a repository format that the installed git does not know; upgrade git",
    ),
)

# Of a repository on this machine, first of all: what git says of a file of it may quote that file, or the one that a
# link in its place leads to, which the service may read and whoever is told this may not. So a row names the file.
IN_FOLDER = (
    _row(
        r"^fatal: (?:unexpected|unterminated) line in \./packed-refs\b",
        RepositoryState.UNREACHABLE,
        "{source} has a damaged file packed-refs; restore it",
        lasting=True,
    ),
    _row(
        r"^fatal: (?:bad|invalid) shallow line\b",
        RepositoryState.UNREACHABLE,
        "{source} has a damaged file shallow; restore it",
        lasting=True,
    ),
)

# Of the notes on a run, which are our own: before anything that git says, and after all of it.
NOTED = (
    _row(
        r"^it sends (?P<count>[0-9]+) objects, and one fetch may bring (?P<most>[0-9]+)$",
        RepositoryState.UNREACHABLE,
        "{source} sends {count} objects, more than the {most} that one fetch may bring; shorten its history",
        of_head=True,
    ),
    _row(
        r"^redirected to (?P<where>.*)$",
        RepositoryState.UNREACHABLE,
        "{source} redirects to {where}, which is not followed; correct `url`",
        lasting=True,
    ),
    _row(
        r"^the remote does not speak Git's smart protocol$",
        RepositoryState.UNREACHABLE,
        "what answers at {source} does not speak Git's smart protocol; correct `url`, or look at what answers there",
        lasting=True,
    ),
)
ENDED_BY = (
    _row(
        r"^the signal (?P<signal>\S+) ended git$",
        RepositoryState.UNREACHABLE,
        "{source} cannot be read (the signal {signal} ended git); mend that, and it is read",
    ),
)

# Bounds, and what this machine lacks.
HERE = (
    _row(
        r"^(?:fatal|error): [^:]*: File too large$",
        RepositoryState.UNREACHABLE,
        "{source} sends more than the {limit} bytes that one fetch may bring; shorten its history",
        of_head=True,
    ),
    _row(
        r"^(?:fatal|error): (?:unable to access .*: |[a-zA-Z]+: )?[Oo]ut of memory\b",
        RepositoryState.UNREACHABLE,
        f"{{source}} takes more than {MAX_MEMORY_BYTES / 2**30:g} GiB of memory to look at or fetch; delete refs, or"
        " shorten its history",
        lasting=True,
    ),
    _row(
        r"^(?:fatal|error): .*: No space left on device$",
        RepositoryState.UNREACHABLE,
        "there is no disk space left for the mirror of {source}; make room where `stateDir` is",
    ),
    _row(
        r"^(?:ssh -F none |sh: |/bin/sh: |git).*\b(?:git|ssh): (?:command )?not found$",
        RepositoryState.UNREACHABLE,
        "a program that {source} needs is not on PATH; install git and OpenSSH's client",
        lasting=True,
    ),
)

LOCAL = (
    _row(
        r"^fatal: detected dubious ownership",
        RepositoryState.UNREACHABLE,
        "{source} belongs to another user; configure the repository's exact path, without links",
        lasting=True,
    ),
    _row(
        r"^fatal: invalid gitfile format",
        RepositoryState.UNREACHABLE,
        "{source} is not a Git repository; make one there, or correct `url`",
        lasting=True,
    ),
    _row(
        r"^fatal: not a git repository: /",
        RepositoryState.UNREACHABLE,
        "{source} names a Git repository that is gone; put that back, or correct `url`",
        lasting=True,
    ),
)

# Of a source that is asked through a proxy: whoever does not answer is the proxy.
BEFORE_PROXY = (
    _row(
        f"{_CURL}.*(?:Failed to connect to|Connection refused|No route to host|Network is unreachable)",
        RepositoryState.UNREACHABLE,
        "the proxy of {source} does not answer ({detail}); start it, or correct `credentials.proxy`",
    ),
)

PROXY = (
    _row(
        f"{_CURL}(?:CONNECT tunnel failed, response|Received HTTP code) 407",
        RepositoryState.UNREACHABLE,
        "the proxy of {source} asks for a password, which is not supported; name another in `credentials.proxy`",
        lasting=True,
    ),
    _row(
        f"{_CURL}(?:CONNECT tunnel failed, response|Received HTTP code) (?P<code>[0-9]{{3}})",
        RepositoryState.UNREACHABLE,
        "the proxy of {source} does not connect (HTTP {code}); look at `credentials.proxy`, and at what it allows",
    ),
    _row(
        f"{_CURL}Proxy CONNECT aborted",
        RepositoryState.UNREACHABLE,
        "the proxy of {source} broke the connection off; look at `credentials.proxy`, and at what it allows",
    ),
    _row(
        f"{_CURL}Could not resolve proxy",
        RepositoryState.UNREACHABLE,
        "the name of the proxy of {source} has no address; correct `credentials.proxy`, or look at DNS",
    ),
)

_REFUSED = "{source} refuses {credentials}{said}; write the right one there, and it is noticed"
_ASKS = "{source} asks for credentials, and none are set{said}; set `credentials`"

HTTP = (
    _row(r"^fatal: Authentication failed for ", RepositoryState.UNAUTHORIZED, _REFUSED, anonymous=_ASKS),
    _row(r"^fatal: could not read Username for ", RepositoryState.UNAUTHORIZED, _REFUSED, anonymous=_ASKS),
    _row(
        r"^fatal: could not read Password for ",
        RepositoryState.UNAUTHORIZED,
        "git could not read the password of {source} ({detail}); let programs run from where `stateDir` is",
    ),
    _row(
        f"{_STATUS}403",
        RepositoryState.UNAUTHORIZED,
        "{source} may not be read with {credentials}{said}; have them allowed to, or write others there, and it is"
        " noticed",
        anonymous="{source} may not be read without credentials{said}; set `credentials`",
    ),
    _row(f"{_STATUS}401", RepositoryState.UNAUTHORIZED, _REFUSED, anonymous=_ASKS),
    _row(
        f"^fatal: repository '.*' not found$|{_STATUS}(?:404|410)",
        RepositoryState.UNREACHABLE,
        "there is no repository at {source}, or these credentials may not read it{said}; correct `url` or"
        " `credentials`",
        lasting=True,
    ),
    _row(
        f"{_STATUS}429",
        RepositoryState.UNREACHABLE,
        "{source} gets too many requests and asks to wait{said}; raise `interval` if this stays",
    ),
    _row(
        f"{_STATUS}3",
        RepositoryState.UNREACHABLE,
        "{source} redirects elsewhere, which is not followed; correct `url`",
        lasting=True,
    ),
    _row(
        f"{_STATUS}(?P<code>5[0-9]{{2}})",
        RepositoryState.UNREACHABLE,
        "the server of {source} has a fault (HTTP {code}){said}; look at the server if this stays",
    ),
    _row(
        f"{_STATUS}(?P<code>[0-9]{{3}})",
        RepositoryState.UNREACHABLE,
        "{source} answers with HTTP {code}{said}; correct `url`, or look at the server",
        lasting=True,
    ),
    _row(
        r"^fatal: .*/info/refs not valid: is this a git repository",
        RepositoryState.UNREACHABLE,
        "what answers at {source} does not speak Git's smart protocol; correct `url`, or look at what answers there",
        lasting=True,
    ),
)

TLS = (
    _row(
        f"{_CURL}SSL: (?:.* does not match target host ?name|no alternative certificate subject name)",
        RepositoryState.UNREACHABLE,
        "the certificate of {source} is for another host ({detail}); correct `url` or the certificate",
        lasting=True,
    ),
    _row(
        f"{_CURL}(?:server certificate verification failed|SSL certificate problem"
        "|.*unable to get local issuer certificate)",
        RepositoryState.UNREACHABLE,
        "the certificate of {source} is not trusted ({detail}); renew it, or name its authority in"
        " `credentials.caFile`",
        lasting=True,
    ),
    _row(
        f"{_CURL}(?:.*gnutls_handshake|.*SSL_connect|.*error:[0-9A-F]+:SSL routines)",
        RepositoryState.UNREACHABLE,
        "{source} and git do not agree on TLS ({detail}); look at the server, or correct `url`",
    ),
)

SSH = (
    _row(
        r"^@ +WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED",
        RepositoryState.UNREACHABLE,
        "the host of {source} shows another key than `credentials.knownHostsFile` has: it got a new one, or somebody"
        " stands in its place; find out which, and then correct that file",
        lasting=True,
    ),
    _row(
        r"^@ +WARNING: REVOKED HOST KEY DETECTED",
        RepositoryState.UNREACHABLE,
        "the host of {source} shows a key that `credentials.knownHostsFile` has as revoked; find out why",
        lasting=True,
    ),
    _row(
        r"^(?:No \S+ host key is known for |Host key verification failed\.)",
        RepositoryState.UNREACHABLE,
        "the host of {source} is not in `credentials.knownHostsFile`; add its line of `ssh-keyscan`, once you know that"
        " the key is the host's own",
        lasting=True,
    ),
    _row(
        r"^Unable to negotiate with .{1,99}: (?P<why>no matching [A-Za-z ]{1,40} found\."
        r" Their offer: [A-Za-z0-9@.,+-]{1,200})",
        RepositoryState.UNREACHABLE,
        "the host of {source} and ssh have no method in common ({why}); upgrade the older of the two",
        lasting=True,
    ),
    _row(
        r'^Load key ".*": (?P<why>[A-Za-z ]{1,60})$',  # of no other key than ours
        RepositoryState.UNAUTHORIZED,
        "ssh cannot use {credentials} for {source} ({why}); put a key there, and it is noticed",
    ),
    _row(
        r"^\S+@\S+: Permission denied \(|^Received disconnect from .{1,99}: Too many authentication failures",
        RepositoryState.UNAUTHORIZED,
        "{source} refuses {credentials}; allow its public key there, write another into that file, or correct the user"
        " in `url`",
        anonymous="{source} asks for an ssh key, and none is set; set `credentials.sshKeyFile`",
    ),
)

LOST = (
    _row(
        r"^fatal: .* does not appear to be a git repository$",
        RepositoryState.UNREACHABLE,
        "{source} is not a Git repository; make one there, or correct `url`",
        lasting=True,
    ),
)

# The server alone knows. Whatever it says instead, nothing is read from it.
MISSING = (
    LOST[0]._replace(of_remote=True),
    _row(
        "access denied or repository not exported|[Rr]epository not found|could not be found or you don't have",
        RepositoryState.UNREACHABLE,
        "there is no repository at {source}, or it may not be read; correct `url`, or have it allowed",
        lasting=True,
        of_remote=True,
    ),
)

NETWORK = (
    _row(
        f"(?:{_CURL}|^ssh: )Could not resolve host|^fatal: Unable to look up |^ssh: .*(?:Name or service not known"
        "|Temporary failure in name resolution)",
        RepositoryState.UNREACHABLE,
        "the name of the host of {source} has no address; correct `url`, or look at DNS",
    ),
    _row(
        f"(?:{_CURL}.*|^ssh: connect to host .*)(?:Connection refused|connect to server|No route to host|Network is"
        " unreachable)|^fatal: unable to connect to ",
        RepositoryState.UNREACHABLE,
        "nothing answers at {source} ({detail}); start the server, or correct `url`",
    ),
    _row(
        f"(?:{_CURL}.*|^ssh: connect to host .*|^fatal: .*|^Connection |^Read from remote host .*|^Timeout, server .*)"
        "(?:timed out|Operation too slow|not responding)",
        RepositoryState.UNREACHABLE,
        "{source} does not answer ({detail}); look at the network and the server",
    ),
    _row(
        r"^(?:fatal|error|fetch-pack|kex_exchange_identification|client_loop|ssh|Read from remote host [^:]*): .*"
        "(?:Connection reset|[Cc]onnection closed|closed by remote host|early EOF|hung up|RPC failed|Broken pipe"
        "|unexpected disconnect|getpeername|Empty reply|Recv failure|transfer closed|invalid index-pack output"
        "|non-properly terminated|unexpected eof|SSL_ERROR_SYSCALL)|^error: RPC failed|^fatal: early EOF"
        "|^Connection (?:closed|reset) by ",
        RepositoryState.UNREACHABLE,
        "the connection to {source} broke off ({detail}); look at the network and the server if this stays",
    ),
)

# Git says this below any complaint of ssh.
ENDED = (
    _row(
        r"^fatal: Could not read from remote repository",
        RepositoryState.UNREACHABLE,
        "the connection to {source} ended before an answer ({detail}); look at the server if this stays",
    ),
)

OF_OWN = (*MIRROR, *OBJECTS, *FORMATS, *HERE, *LOCAL)
OF_FOLDER = (*IN_FOLDER, *OBJECTS, *FORMATS, *HERE, *LOCAL, *LOST, *NETWORK, *ENDED)
_OF_HTTP = (*OBJECTS, *HERE, *PROXY, *HTTP, *MISSING, *NETWORK, *TLS)
OF_SCHEME = {
    "file": OF_FOLDER,
    "https": _OF_HTTP,
    "http": _OF_HTTP,
    "ssh": (*OBJECTS, *HERE, *SSH, *MISSING, *NETWORK, *ENDED),
    "git": (*OBJECTS, *HERE, *MISSING, *NETWORK, *ENDED),
}
