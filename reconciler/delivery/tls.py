"""TLS contexts for endpoints, from files in the project's folder of secrets; and the validity of certificates.

The only module that imports cryptography. Everything here reads files or computes for milliseconds: it belongs on a
thread.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from reconciler.delivery import secrets
from reconciler.delivery.secrets import SecretSources, UnusableSecretFile
from reconciler.model.errors import Refused
from reconciler.model.routes import Endpoint
from reconciler.settings import bounded_io

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


class CertificateSpan(NamedTuple):
    """The validity of a certificate, in UTC."""

    since: datetime
    until: datetime


def certificate_span(pem: str) -> CertificateSpan | None:
    """Return the validity of the first certificate in a PEM file, the leaf of a chain; None if it cannot be read."""
    from cryptography import x509  # noqa: PLC0415 - 8 MB, which a service without certificates does without

    start, end = pem.find(_BEGIN), pem.find(_END)
    if not 0 <= start < end:
        return None
    try:
        found = x509.load_pem_x509_certificate(pem[start : end + len(_END)].encode())
        return CertificateSpan(found.not_valid_before_utc, found.not_valid_after_utc)
    except (ValueError, TypeError):
        return None


MOST_BYTES = 1 << 20  # of `outbound.caFile`; the system's own is a quarter of that


class UnusableFile(Refused):
    """A TLS file cannot be read, or has the wrong content."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The texts of an endpoint's TLS files. Without an `authority` the system's authorities are trusted. The others are
    empty if they are not configured.
    """

    authority: str | None = field(default=None, repr=False)
    certificate: str = field(default="", repr=False)
    key: str = field(default="", repr=False)


def read_tls_file(endpoint: Endpoint, *, sources: SecretSources, project: str, authorities: Path | None) -> TlsFiles:
    """Read the TLS files of an endpoint. Without a `ca_file`, `authorities` takes its place. Raises UnusableFile."""

    def text(parameter: str, name: str) -> str:
        try:
            return secrets.read_secret_file(sources.directory, name, project=project)
        except UnusableSecretFile:
            place = sources.directory.place(name, project=project)
            raise UnusableFile(
                f"`{parameter}` leads to nothing: put a PEM file of at most 64 KiB at {place}, which the service can "
                "read and to which no link leads."
            ) from None

    if endpoint.scheme != "https":
        return TlsFiles()
    authority = text("ca_file", endpoint.ca_file) if endpoint.ca_file else _outbound(authorities)
    if not endpoint.mutual_tls:
        return TlsFiles(authority)
    return TlsFiles(authority, text("cert_file", endpoint.cert_file), text("key_file", endpoint.key_file))


def _outbound(authorities: Path | None) -> str | None:
    if authorities is None:
        return None
    try:
        return bounded_io.read_file(authorities, limit=MOST_BYTES).decode()
    except (OSError, ValueError, bounded_io.NotAFile, bounded_io.FileTooLarge):
        raise UnusableFile(f"`outbound.caFile` cannot be read: put a PEM file at {authorities}.") from None


def tls_context(endpoint: Endpoint, files: TlsFiles) -> ssl.SSLContext:
    """Make the context of connections to the endpoint. With `ca_file`, its authorities are the only ones. Raises
    UnusableFile.
    """
    try:
        if files.authority == "":
            raise ValueError  # the library would ignore an empty text, and trust the system's authorities
        made = ssl.create_default_context(cadata=files.authority)
    except (ssl.SSLError, ValueError):
        raise UnusableFile(
            f"{'`ca_file`' if endpoint.ca_file else '`outbound.caFile`'} does not hold certificates in PEM; "
            "correct the file."
        ) from None
    if endpoint.insecure_skip_verify:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if files.certificate:
        _load(made, files)
    return made


def expired_certificates(files: TlsFiles, *, now: datetime) -> str:
    """Return the end of a sentence if the client certificate is not valid now; otherwise ''."""
    span = certificate_span(files.certificate) if files.certificate else None
    if span is not None and now > span.until:
        return f"the client certificate in `cert_file` expired on {span.until:%Y-%m-%d}; renew it."
    if span is not None and now < span.since:
        return f"the client certificate in `cert_file` holds from {span.since:%Y-%m-%d} on; check the service's clock."
    return ""


def _load(made: ssl.SSLContext, files: TlsFiles) -> None:
    with _in_memory(files.certificate) as certificate, _in_memory(files.key) as key:
        try:
            made.load_cert_chain(certificate, key, password=_no_password)
        except (ssl.SSLError, ValueError, OSError):
            raise UnusableFile(
                "`cert_file` and `key_file` do not hold a certificate and its key, in PEM and without a password; "
                "correct the files."
            ) from None


def _no_password() -> str:
    """Return no password: without a function, OpenSSL would ask for one on the terminal."""
    return ""


@contextmanager
def _in_memory(text: str) -> Iterator[str]:
    """Yield a path to a text in memory, because `load_cert_chain` only accepts paths."""
    descriptor = os.memfd_create("reconciler-tls", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
