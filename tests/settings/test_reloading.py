"""Settings that a reload takes over, and what waits for a restart."""

from pathlib import Path

import pytest

from reconciler.settings import loading
from reconciler.settings.models import Settings


def settings(tmp_path: Path, text: str) -> Settings:
    config = tmp_path / "config.yaml"
    config.write_text(text)
    return loading.load(config=config, environment={"HOME": "/home/ada"}, overrides={}).settings


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("", ()),
        ("log: {level: debug}\nrepositories: [{name: a, url: /a}]\n", ()),
        ("log: {level: debug, format: json}\n", ("log.format",)),
        ("log: {format: json}\napi: {maxResources: 5, maxBodyBytes: 8388608}\n", ("api.maxResources", "log.format")),
        ("listen: 127.0.0.1:3002\nwebURL: https://web.example\n", ("webURL", "listen")),
        ("stateDir: /srv/state\n", ("stateDir", "store.url")),
        ("auth: {type: none, oidc: {oauth2ClientSecret: hush}}\n", ("auth.type", "auth.oidc.oauth2ClientSecret")),
        ("delivery: {egress: {deny: [10.0.0.0/8]}}\n", ("delivery.egress.deny",)),
        ("trustedProxies: [10.0.0.0/8]\n", ("trustedProxies",)),
        ("insecure: true\n", ("insecure",)),
        # Whether there is TLS at all is settled at the start.
        ("tls: {certFile: /a.pem, keyFile: /a.key}\n", ("tls.certFile", "tls.keyFile")),
    ],
)
def test_each_changed_key_that_waits_is_named(tmp_path: Path, text: str, keys: tuple[str, ...]) -> None:
    running = settings(tmp_path, "# the defaults\n")
    assert loading.need_restart(running, settings(tmp_path, text)) == keys
    assert loading.need_restart(settings(tmp_path, text), running) == keys


def test_another_certificate_does_not_wait(tmp_path: Path) -> None:
    running = settings(tmp_path, "tls: {certFile: /a.pem, keyFile: /a.key}\n")
    assert loading.need_restart(running, settings(tmp_path, "tls: {certFile: /b.pem, keyFile: /b.key}\n")) == ()
