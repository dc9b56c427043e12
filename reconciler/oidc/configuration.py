"""Which provider, and as whom.

Belongs here: the value. Does not: where it comes from (`reconciler.settings`), whether it is right (`discovery`).
"""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProviderConfiguration:
    """What the settings say; `redirect_uri` is `<webURL>/oidc/redirect`."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    scopes: tuple[str, ...]
    redirect_uri: str
    signed_out_uri: str  # `<webURL>/signed-out`, registered there as post-logout redirect URI
    proxy: str = ""
    ca_file: Path | None = None
