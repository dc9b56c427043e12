"""The listener's certificate: read and checked, and another one shown while connections last.

Belongs here: TLS. Does not: the server that speaks it (`serving`).
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

from reconciler.model import errors
from reconciler.settings.models import Settings


@dataclass(frozen=True, slots=True)
class Certificate:
    """The listener's certificate chain and private key, PEM files."""

    chain: Path
    key: Path


def configured_certificate(settings: Settings) -> Certificate | None:
    """The one that the settings name; None without TLS."""
    chain, key = settings.tls.cert_file, settings.tls.key_file
    return None if chain is None or key is None else Certificate(chain=chain, key=key)


def read_certificate(certificate: Certificate) -> ssl.SSLContext:
    """What shows this certificate, by TLS 1.2 or later. Raises Refused for files that are missing or do not fit."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        for file in (certificate.chain, certificate.key):
            file.open("rb").close()  # the library does not say which of the two it cannot read
        # A key with a password must not ask for it on a terminal: there is none to give.
        context.load_cert_chain(certificate.chain, certificate.key, password=str)
    except (OSError, ValueError) as error:
        files = f"{certificate.chain} with the key {certificate.key}"
        raise errors.Refused(
            f"The certificate {files} cannot be used ({_reason(error)}); mend `tls.certFile` or `tls.keyFile`."
        ) from error
    return context


def _reason(error: OSError | ValueError) -> str:
    """What is wrong with the files, without the places in the library's source that its own words name."""
    if isinstance(error, ssl.SSLError):
        if error.reason == "KEY_VALUES_MISMATCH":
            return "the key is not this certificate's"
        named = (error.reason or "").lower().replace("_", " ")
        return named or "one of them is not PEM, or the key has a password"
    return f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error)


class PresentedCertificate:
    """The certificate that new connections get.

    The listener keeps the context of its start, and hands each handshake over to the current one: to load another
    certificate into a context in use would leave the old one there beside it when the kinds of their keys differ.
    """

    def __init__(self, first: ssl.SSLContext) -> None:
        self.listener = first
        self._current = first
        first.sni_callback = self._hand_over

    def replace(self, context: ssl.SSLContext) -> None:
        """Show this one from the next handshake on; what is connected goes on."""
        self._current = context

    def _hand_over(self, connection: ssl.SSLObject, _name: str | None, _of: ssl.SSLContext) -> None:
        """Called in each handshake, whether or not the client names a host."""
        connection.context = self._current
