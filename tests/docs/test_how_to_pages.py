"""The pages on setting up: their settings start a service, and what they name is where they say."""

import re
import textwrap
from pathlib import Path

import pytest

from api.pages.forms import PagePath
from reconciler.settings import loading
from tests.docs import pages

DOCS = pages.ROOT / "docs"
UNIT = (pages.ROOT / "systemd/reconciler.service").read_text(encoding="utf-8")
ENVIRONMENT = {"SERVICE_OIDC_OAUTH2_CLIENT_SECRET": "canary-client-secret", "SERVICE_WEB_URL": "https://r.example.com"}


def settings(page: Path) -> list[str]:
    """The blocks with settings, also those within a list."""
    found = re.findall(r"^( *)```yaml\n(.*?)^\1```", pages.read(page), re.MULTILINE | re.DOTALL)
    blocks = [textwrap.dedent(block) for _, block in found]
    return [block for block in blocks if re.search(r"^(?:repositories|auth|webURL):", block, re.MULTILINE)]


@pytest.mark.parametrize("name", ["how-to/nginx", "sign-in"])
def test_the_settings_are_right(name: str, tmp_path: Path) -> None:
    found = settings(DOCS / f"{name}.md")
    assert len(found) == 1
    config = tmp_path / "config.yaml"
    config.write_text(found[0])
    assert loading.load(config=config, environment=ENVIRONMENT, overrides={}).warnings == ()


def test_what_is_registered_at_a_provider_is_where_the_pages_are() -> None:
    told = pages.read(DOCS / "sign-in.md")
    assert f"`https://reconciler.example.com{PagePath.CALLBACK}` |" in told
    assert f"`https://reconciler.example.com{PagePath.SIGNED_OUT}` |" in told


def test_what_the_unit_does_is_what_it_says() -> None:
    told = pages.read(DOCS / "install.md")

    def setting(name: str) -> str:
        return str(re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)[-1])

    watchdog = int(setting("WatchdogSec").removesuffix("s"))
    assert f"it reports in every {watchdog // 2} s; after {watchdog} s of silence" in told
    assert f"systemd starts it again after {setting('RestartSec').removesuffix('s')} s" in told
    assert (setting("StartLimitBurst"), setting("StartLimitIntervalSec")) == ("5", "5min")
    assert "five failed starts in five minutes" in told
