"""Loading settings: precedence, the file that is read, and mistakes at their places."""

import json
import os
import socket
from pathlib import Path

import pytest

from reconciler.model.values import Value
from reconciler.settings import layers, loading
from reconciler.settings.scalars import Address

KEY = "k" * 32


def lines_of(
    tmp_path: Path,
    text: str,
    *,
    environment: dict[str, str] | None = None,
    overrides: dict[str, Value] | None = None,
) -> list[str]:
    """The mistakes in a file, its own folder left out of them."""
    config = tmp_path / "config.yaml"
    config.write_text(text)
    with pytest.raises(loading.SettingsError) as caught:
        loading.load(config=config, environment=environment or {}, overrides=overrides or {})
    return [line.replace(f"{tmp_path}/", "") for line in caught.value.lines]


def load(tmp_path: Path, text: str, **environment: str) -> loading.Loaded:
    config = tmp_path / "config.yaml"
    config.write_text(text)
    return loading.load(config=config, environment=environment, overrides={})


def test_an_option_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("listen: 127.0.0.1:1\nlog: {level: debug, format: json}\nwebURL: https://one.example\n")
    environment = {"SERVICE_LISTEN": "127.0.0.1:2", "SERVICE_LOG_LEVEL": "error"}
    settings = loading.load(config=config, environment=environment, overrides={"listen": "127.0.0.1:3"}).settings
    assert (settings.listen, settings.log.level, settings.log.format, settings.web_url) == (
        Address("127.0.0.1", 3),
        "error",
        "json",
        "https://one.example",
    )


def test_an_option_that_is_not_given_counts_for_nothing(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("log: {level: debug}\n")
    settings = loading.load(config=config, environment={}, overrides={"log.level": None, "listen": None}).settings
    assert settings.log.level == "debug"


def test_the_named_file_is_read_before_that_of_the_environment(tmp_path: Path) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text("log: {level: debug}\n")
    two.write_text("log: {level: error}\n")
    environment = {"SERVICE_CONFIG": str(two)}
    by_option = loading.load(config=one, environment=environment, overrides={})
    by_environment = loading.load(config=None, environment=environment, overrides={})
    assert (by_option.settings.log.level, by_option.config) == ("debug", one)
    assert (by_environment.settings.log.level, by_environment.config) == ("error", two)


def test_the_systems_file_is_read_when_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "SYSTEM_CONFIG", tmp_path / "config.yaml")
    assert loading.load(config=None, environment={}, overrides={}).config is None
    (tmp_path / "config.yaml").write_text("log: {level: debug}\n")
    assert loading.load(config=None, environment={}, overrides={}).settings.log.level == "debug"


@pytest.mark.parametrize("by_option", [True, False])
def test_a_named_file_that_is_missing_is_an_error(tmp_path: Path, by_option: bool) -> None:
    missing = tmp_path / "missing.yaml"
    environment = {} if by_option else {"SERVICE_CONFIG": str(missing)}
    with pytest.raises(loading.SettingsError) as caught:
        loading.load(config=missing if by_option else None, environment=environment, overrides={})
    assert caught.value.lines == (
        f"{missing}: the settings file cannot be read: no such file or directory; "
        "name another with --config or SERVICE_CONFIG",
    )


def test_an_empty_file_gives_the_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path, "# nothing yet\n").settings
    assert (str(settings.listen), settings.repositories, settings.api.max_resources) == ("127.0.0.1:3001", (), 10_000)


def test_every_mistake_is_shown_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = """repositories:
  - name: telemetry
    interval: 5
    url: git@host.example:a/b.git
    prune: {maxPercent: 200, enabled: yes}
  - name: telemetry
    url: /srv/git/b.git
    path: ../x
  - 5
listen: 0.0.0.0:80
repositorys: []
webURL: 5
tls: []
log: {colour: true}
repositories2: {}
"""
    assert lines_of(tmp_path, text) == [
        "config.yaml:3:5: repositories[0].interval: must be a duration such as 250ms, 10s, 5m or 1h",
        "config.yaml:4:5: repositories[0].url: must be written as a URL, ssh://user@host/path, instead of "
        "user@host:path",
        "config.yaml:5:13: repositories[0].prune.maxPercent: must be a whole number from 0 to 100",
        "config.yaml:5:30: repositories[0].prune.enabled: must be true or false",
        "config.yaml:8:5: repositories[1].path: must be a folder in the repository such as teams/web, without `..`, "
        'or ""',
        "config.yaml:9:5: repositories[2]: must be a mapping of keys",
        "config.yaml:11:1: repositorys: is not a known key; did you mean `repositories`?",
        "config.yaml:12:1: webURL: must be an http or https URL without a user or query",
        "config.yaml:13:1: tls: must be a mapping of keys",
        "config.yaml:14:7: log.colour: is not a known key; the keys here are format, level",
        "config.yaml:15:1: repositories2: is not a known key; did you mean `repositories`?",
    ]


def test_rules_between_keys_are_shown_once_each_key_is_right(tmp_path: Path) -> None:
    text = """repositories:
  - {name: telemetry, url: /srv/git/a.git}
  - {name: telemetry, url: /srv/git/b.git}
alerts:
  - {name: chat, url: "https://chat.example"}
  - {name: chat, url: "https://chat.example"}
listen: 0.0.0.0:80
"""
    assert lines_of(tmp_path, text) == [
        "config.yaml:3:6: repositories[1].name: must be unique; repositories[0] has the same name",
        "config.yaml:6:6: alerts[1].name: must be unique; alerts[0] has the same name",
        "config.yaml:7:1: listen: must be on this machine (127.0.0.1 or [::1]), unless tls has both files or "
        "`insecure: true` is set",
    ]
    assert lines_of(tmp_path, f"{text}audit: {{retention: 5}}\n") == [
        "config.yaml:8:9: audit.retention: must be a duration such as 250ms, 10s, 5m or 1h"
    ]


def test_the_file_may_lack_what_a_variable_gives(tmp_path: Path) -> None:
    text = "tls: {certFile: /c.pem}\nlisten: 0.0.0.0:80\n"
    assert load(tmp_path, text, SERVICE_TLS_KEY_FILE="/k.pem").warnings == ()


@pytest.mark.parametrize(
    ("alert", "line"),
    [
        ("{name: chat}", "1:10: alerts[0]: needs url or urlFile"),
        (
            "{name: chat, url: 'https://chat.example', urlFile: /a}",
            "1:52: alerts[0].urlFile: must not be given beside url",
        ),
    ],
)
def test_an_alert_has_one_address(tmp_path: Path, alert: str, line: str) -> None:
    assert lines_of(tmp_path, f"alerts: [{alert}]\n") == [f"config.yaml:{line}"]


def test_a_missing_key_is_shown_where_it_belongs(tmp_path: Path) -> None:
    assert lines_of(tmp_path, "repositories:\n  - name: a\n") == ["config.yaml:2:5: repositories[0].url: is required"]


def test_a_mistake_that_the_environment_hides_is_shown_all_the_same(tmp_path: Path) -> None:
    environment = {"SERVICE_LISTEN": "127.0.0.1:1"}
    assert lines_of(tmp_path, "listen: nowhere\n", environment=environment) == [
        "config.yaml:1:1: listen: must be host:port such as 127.0.0.1:3001 or [::1]:3001"
    ]


def test_mistakes_of_the_environment_and_of_options_name_them(tmp_path: Path) -> None:
    environment = {"SERVICE_LISTEN": "nowhere", "SERVICE_OIDC_DISABLE_INVITATIONS": "perhaps"}
    assert lines_of(tmp_path, "", environment=environment, overrides={"log.level": "loud", "stateDir": "here"}) == [
        "--log-level: must be debug, info, warning or error",
        "--state-dir: must be an absolute path",
        "SERVICE_LISTEN: must be host:port such as 127.0.0.1:3001 or [::1]:3001",
        "SERVICE_OIDC_DISABLE_INVITATIONS: must be true or false",
    ]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [\n", "config.yaml:2:1: "),
        ("log: {level: info}\nlog: {level: info}\n", "config.yaml:2:1: "),
        ("- a\n", "config.yaml:1:1: must be a mapping of keys, such as `listen: ...`"),
        ("log: {}\n---\nlog: {}\n", "config.yaml:3:1: must be the only document in the file"),
    ],
)
def test_a_file_that_is_no_mapping_is_refused_with_its_place(tmp_path: Path, text: str, line: str) -> None:
    (found,) = lines_of(tmp_path, text)
    assert found.startswith(line)


def test_an_unknown_key_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    (line,) = lines_of(tmp_path, '"\\e[31m\\n": 1\n')
    assert line.startswith("config.yaml:1:1: \\x1b[31m\\n: is not a known key")


@pytest.mark.parametrize("key", ["", "short", "k" * 31, "k" * 31 + "\n", "é" * 40])
def test_an_api_key_that_can_be_guessed_stops_the_start(tmp_path: Path, key: str) -> None:
    assert lines_of(tmp_path, "", environment={"SERVICE_API_KEY": key}) == [
        "SERVICE_API_KEY: must be at least 32 characters, all of them printable ASCII"
    ]


def test_the_api_key_comes_from_the_environment_alone(tmp_path: Path) -> None:
    assert lines_of(tmp_path, f"apiKey: {KEY}\n", environment={"SERVICE_API_KEY": KEY}) == [
        "config.yaml:1:1: apiKey: must not be in the file; set SERVICE_API_KEY in the environment"
    ]
    given = load(tmp_path, "", SERVICE_API_KEY=KEY).settings.api_key
    assert given is not None
    assert given.get_secret_value() == KEY
    assert load(tmp_path, "").settings.api_key is None


def test_no_message_and_no_representation_holds_a_secret(tmp_path: Path) -> None:
    text = """apiKey: canary--1
auth: {oidc: {oauth2ClientSecret: [canary--2], issuer: "https://u:canary--3@idp.example"}}
repositories: [{name: "canary- 4", url: "https://u:canary--5@git.example/a"}]
outbound: {proxy: "http://u:canary--6@proxy.example"}
"""
    lines = lines_of(tmp_path, text, environment={"SERVICE_API_KEY": "canary--7"})
    assert len(lines) == 7
    assert "canary-" not in "\n".join(lines)
    secret = {"SERVICE_API_KEY": KEY, "SERVICE_OIDC_OAUTH2_CLIENT_SECRET": "canary--8"}
    settings = load(tmp_path, "", **secret).settings
    assert settings.auth.oidc.oauth2_client_secret.get_secret_value() == "canary--8"
    assert KEY not in repr(settings)
    assert "canary-" not in repr(settings) + settings.model_dump_json()


@pytest.mark.parametrize(
    ("user", "environment", "folder"),
    [
        (1000, {"STATE_DIRECTORY": "/var/lib/one:/var/lib/two", "HOME": "/"}, "/var/lib/one"),
        (0, {"XDG_STATE_HOME": "/x", "HOME": "/root"}, "/var/lib/reconciler"),
        (1000, {"XDG_STATE_HOME": "/x", "HOME": "/home/ada"}, "/x/reconciler"),
        (1000, {"XDG_STATE_HOME": "relative", "HOME": "/home/ada"}, "/home/ada/.local/state/reconciler"),
        (1000, {"HOME": "/home/ada"}, "/home/ada/.local/state/reconciler"),
    ],
)
def test_the_state_folder_is_the_users_own(user: int, environment: dict[str, str], folder: str) -> None:
    assert loading.default_state_dir(environment, user=user) == folder


def test_the_store_is_in_the_state_folder_unless_it_is_elsewhere(tmp_path: Path) -> None:
    assert load(tmp_path, "stateDir: /srv/state\n").settings.store.url == "sqlite:////srv/state/store.db"
    assert load(tmp_path, "", SERVICE_STATE_DIR="/srv/s").settings.store.url == "sqlite:////srv/s/store.db"
    elsewhere = load(tmp_path, "stateDir: /srv/state\nstore: {url: 'sqlite:////other/a.db'}\n").settings
    assert elsewhere.store.url == "sqlite:////other/a.db"
    default = load(tmp_path, "", HOME="/home/ada").settings.state_dir
    assert default == Path("/var/lib/reconciler" if os.geteuid() == 0 else "/home/ada/.local/state/reconciler")


URLS = "{url: 'postgresql://ada:canary-store@db/a', workerUrl: 'postgresql://reader:canary-worker@db/a'}"


def test_the_store_is_on_postgresql_with_a_role_for_the_worker(tmp_path: Path) -> None:
    settings = load(tmp_path, f"store: {URLS}\n").settings
    assert settings.store.is_postgresql
    assert settings.store.worker_url == "postgresql://reader:canary-worker@db/a"
    assert "canary" not in repr(settings)
    assert not load(tmp_path, "").settings.store.is_postgresql


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        (
            "store: {url: 'postgresql://db/a'}\n",
            "store.workerUrl: is required where store.url is postgresql://; name a role there that may only read",
        ),
        ("store: {workerUrl: 'postgresql://db/a'}\n", "must be empty where store.url is sqlite:///"),
    ],
)
def test_the_worker_has_a_role_of_its_own_on_postgresql_alone(tmp_path: Path, text: str, mistake: str) -> None:
    with pytest.raises(loading.SettingsError) as raised:
        load(tmp_path, text)
    [line] = raised.value.lines
    assert line.endswith(mistake)


def test_a_password_of_the_store_is_in_no_mistake(tmp_path: Path) -> None:
    with pytest.raises(loading.SettingsError) as raised:
        load(tmp_path, "store: {url: 'postgresql://ada:canary-store@db/a b'}\n")
    assert "canary" not in str(raised.value)


def test_a_replica_is_named_after_the_host(tmp_path: Path) -> None:
    host = layers.name_like(socket.gethostname()) or "replica"
    assert load(tmp_path, "").settings.replica.name == host
    assert load(tmp_path, "", SERVICE_REPLICA_NAME="one").settings.replica.name == "one"
    replica = load(tmp_path, "replica: {name: two, url: 'http://two:3001/'}\n").settings.replica
    assert (replica.name, replica.url) == ("two", "http://two:3001")


@pytest.mark.parametrize(
    ("text", "name"),
    [("web-1.example.org", "web-1.example.org"), ("-a b-", "a-b"), ("x" * 64, "x" * 63), ("...", "")],
)
def test_any_host_name_makes_a_name(text: str, name: str) -> None:
    assert layers.name_like(text) == name


@pytest.mark.parametrize(
    ("more", "starts"),
    [
        ("", False),
        ("insecure: true\n", True),
        ("tls: {certFile: /c.pem, keyFile: /k.pem}\n", True),
        ("insecure: false\n", False),
    ],
)
@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", "192.0.2.1", "service.example"])  # noqa: S104
@pytest.mark.parametrize(
    ("before", "key", "after"), [("", "listen", ""), ("delivery: {", "otlpListen", "}")], ids=["listen", "otlpListen"]
)
def test_a_listener_beyond_this_machine_needs_tls_or_consent(
    tmp_path: Path, *, host: str, more: str, starts: bool, before: str, key: str, after: str
) -> None:
    text = f"{before}{key}: '{host}:3001'{after}\n{more}"
    if starts:
        settings = load(tmp_path, text).settings
        found = settings.delivery.otlp_listen if before else settings.listen
        assert found is not None
        assert not found.loopback
    else:
        where = f"1:{len(before) + 1}: {before.replace(': {', '.')}{key}"
        assert [line.partition(", unless")[0] for line in lines_of(tmp_path, text)] == [
            f"config.yaml:{where}: must be on this machine (127.0.0.1 or [::1])"
        ]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "[::1]", "localhost"])
def test_a_listener_on_this_machine_needs_nothing(tmp_path: Path, host: str) -> None:
    settings = load(tmp_path, f"listen: '{host}:0'\ndelivery: {{otlpListen: '{host}:0'}}\n").settings
    assert settings.listen.loopback
    assert settings.delivery.otlp_listen == settings.listen


def test_half_a_certificate_is_refused(tmp_path: Path) -> None:
    assert lines_of(tmp_path, "tls: {certFile: /c.pem}\n") == ["config.yaml:1:7: tls.certFile: needs keyFile too"]
    assert lines_of(tmp_path, "tls: {keyFile: /k.pem}\n") == ["config.yaml:1:7: tls.keyFile: needs certFile too"]


def test_unknown_variables_are_warnings(tmp_path: Path) -> None:
    loaded = load(tmp_path, "", SERVICE_LISTN="x", SERVICE_ZEBRA="x", SERVICE_SERVER="x", SERVICE_DEBUG="1", LISTEN="x")
    assert loaded.warnings == (
        "SERVICE_LISTN: this environment variable means nothing to the service; did you mean SERVICE_LISTEN?",
        "SERVICE_ZEBRA: this environment variable means nothing to the service",
    )


def test_patterns_of_variables_are_names_and_none_of_the_services_own(tmp_path: Path) -> None:
    text = """secrets:
  env:
    - DESTINATION_<PROJECT>__*
    - "*"
    - a_1
    - SERVICE_*
    - service_API_KEY
    - SERVICE_<PROJECT>
    - "[A-Z]"
    - A?
    - <project>
    - A B
    - ""
    - 5
"""
    allowed = "letters, digits, `_`, `*` and `<PROJECT>`, not beginning with SERVICE_"
    assert lines_of(tmp_path, text) == [
        f"config.yaml:{3 + number}:7: secrets.env[{number}]: must be {allowed}" for number in range(3, 12)
    ]
    assert lines_of(tmp_path, "secrets: {env: A}\n") == ["config.yaml:1:11: secrets.env: must be a list"]
    assert load(tmp_path, "secrets: {env: []}\n").settings.secrets.env == ()


def test_a_host_name_among_the_networks_is_a_mistake_with_its_key_and_line(tmp_path: Path) -> None:
    text = "delivery:\n  egress:\n    deny: ['::/0']\n    allow:\n      - 192.0.2.0/24\n      - siem.example.com\n"
    with pytest.raises(loading.SettingsError) as caught:
        load(tmp_path, text)
    assert [line.replace(f"{tmp_path}/", "") for line in caught.value.lines] == [
        "config.yaml:6:9: delivery.egress.allow[1]: must be a network such as 10.0.0.0/8 or fd00::/8, "
        "without bits after the prefix, or one IP address; no name"
    ]


def test_what_contradicts_in_a_repository_is_shown_at_once(tmp_path: Path) -> None:
    text = """repositories:
  - name: one
    url: https://git.example/one.git
    branch: main
    tag: v1
    credentials: {username: bob, tokenFile: /t, sshKeyFile: /k}
  - name: two
    url: ssh://git@git.example/two.git
    credentials: {knownHostsFile: /etc/hosts, tokenFile: /t}
  - {name: three, url: "http://127.0.0.1/three.git", credentials: {tokenFile: /t, username: bob}}
  - {name: four, url: "file:///srv/four.git", ref: refs/x, credentials: {proxy: "http://proxy.example"}}
  - {name: five, url: "https://git.example/one.git", credentials: {username: bob, passwordFile: /p, tokenFile: /t}}
  - {name: six, url: "https://git.example/one.git", credentials: {passwordFile: /p}}
  - {name: seven, url: "https://git.example/one.git", credentials: {username: bob}}
  - {name: eight, url: "ssh://git.example/one.git", credentials: {knownHostsFile: '/etc/$hosts', nothing: 1}}
"""
    unknown = "is not a known key; the keys here are caFile, knownHostsFile, passwordFile, proxy, sshKeyFile, "
    https = "is for https URLs, and the URL is"
    one = "a repository follows one of branch, tag, commit and ref"
    assert lines_of(tmp_path, text) == [
        f"config.yaml:5:5: repositories[0].tag: must not be given beside `branch`: {one}",
        "config.yaml:6:49: repositories[0].credentials.sshKeyFile: is for ssh URLs, and the URL is an https one; "
        "leave it out, or change `url`",
        "config.yaml:8:5: repositories[1].url: needs credentials.sshKeyFile, since a host is trusted by its key alone",
        f"config.yaml:9:47: repositories[1].credentials.tokenFile: {https} an ssh one; leave it out, or change `url`",
        f"config.yaml:10:68: repositories[2].credentials.tokenFile: {https} an http one; leave it out, or change `url`",
        f"config.yaml:10:83: repositories[2].credentials.username: {https} an http one; leave it out, or change `url`",
        f"config.yaml:11:74: repositories[3].credentials.proxy: {https} a local one; leave it out, or change `url`",
        "config.yaml:12:101: repositories[4].credentials.tokenFile: must not be given beside passwordFile; "
        "leave one of them out",
        "config.yaml:13:67: repositories[5].credentials.passwordFile: needs username too",
        "config.yaml:14:69: repositories[6].credentials.username: needs passwordFile or tokenFile too",
        'config.yaml:15:67: repositories[7].credentials.knownHostsFile: must be a path without `$`, `"` and '
        "backslashes, which ssh reads as its own",
        f"config.yaml:15:98: repositories[7].credentials.nothing: {unknown}sshPassphraseFile, tokenFile, username",
    ]


def test_a_remote_repository_has_what_its_url_can_use(tmp_path: Path) -> None:
    text = """repositories:
  - name: basic
    url: https://git.example/one.git
    tag: v1
    include: ["teams/*.yaml"]
    exclude: ["drafts/"]
    verify: {signersFile: /etc/signers}
    hook: {secretFile: /etc/hook}
    credentials: {username: bob, passwordFile: /p, caFile: /ca, proxy: "http://proxy.example:3128"}
  - {name: bearer, url: "https://git.example/one.git", credentials: {tokenFile: /t}}
  - name: ssh
    url: ssh://git@git.example:2222/two.git
    credentials: {sshKeyFile: /a key, sshPassphraseFile: /passphrase, knownHostsFile: /hosts}
  - {name: loopback, url: "git://127.0.0.1:9418/three.git", ref: refs/pull/7/head}
"""
    repositories = load(tmp_path, text).settings.repositories
    assert [(one.tag, one.ref, one.include, one.hook.secret_file) for one in repositories] == [
        ("v1", None, ("teams/*.yaml",), Path("/etc/hook")),
        (None, None, (), None),
        (None, None, (), None),
        (None, "refs/pull/7/head", (), None),
    ]
    assert repositories[2].credentials.ssh_passphrase_file == Path("/passphrase")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("HttP://127.0.0.1/a.git", "must begin with https, ssh or file in small letters, as git reads it"),
        ("https://git.example/a?b", "must not hold a query or a fragment, which name no repository"),
        ("ssh://git@git.example/a#b", "must not hold a query or a fragment, which name no repository"),
        ("https://bob@git.example/a", "must not hold a user name or password; put them under credentials"),
        ("http://bob@127.0.0.1/a", "must not hold a user name or password; put them under credentials"),
        ("ssh://git:word@git.example/a", "must not hold a user name or password; put them under credentials"),
        (
            "http://git.example/a",
            "must not use http:// beyond this machine, since nothing protects it; use https or ssh",
        ),
    ],
)
def test_a_url_that_would_tell_or_lose_something_is_refused(tmp_path: Path, url: str, why: str) -> None:
    assert lines_of(tmp_path, f"repositories: [{{name: a, url: '{url}'}}]\n") == [
        f"config.yaml:1:26: repositories[0].url: {why}"
    ]


def test_a_mistake_about_the_repository_of_the_environment_names_its_variable(tmp_path: Path) -> None:
    assert lines_of(tmp_path, "", environment={"SERVICE_REPOSITORY": "ssh://git@git.example/team/config.git"}) == [
        "SERVICE_REPOSITORY: needs credentials.sshKeyFile and credentials.knownHostsFile, since a host is trusted by "
        "its key alone"
    ]


@pytest.mark.parametrize(
    ("pattern", "allowed"), [("", False), ("!a", False), ("#a", False), ("a\nb", False), ("*.yaml", True)]
)
def test_a_pattern_of_files_that_means_something_else_is_refused(
    tmp_path: Path, pattern: str, *, allowed: bool
) -> None:
    text = json.dumps({"repositories": [{"name": "a", "url": "/a", "exclude": [pattern]}]})
    if allowed:
        assert load(tmp_path, text).settings.repositories[0].exclude == (pattern,)
        return
    assert lines_of(tmp_path, text) == [
        "config.yaml:1:58: repositories[0].exclude[0]: must be a pattern such as teams/**/*.yaml of 1 to 1024 "
        "characters that can match, without `..`, not beginning with `!` or `#`"
    ]


@pytest.mark.parametrize("url", ["file:///a?b", "file:///a#b", "file:///a%0Ab", "file://host/a", "FILE:///a"])
def test_a_file_url_that_git_would_not_be_given_is_refused(tmp_path: Path, url: str) -> None:
    assert lines_of(tmp_path, f"repositories: [{{name: a, url: '{url}'}}]\n") == [
        "config.yaml:1:26: repositories[0].url: must be file:// and an absolute path, without a host, query or "
        "control characters"
    ]


def test_variables_count_by_the_table_and_by_no_other_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LISTEN", "127.0.0.1:1")
    monkeypatch.setenv("SERVICE_LISTEN", "127.0.0.1:2")  # only what is handed in counts
    (tmp_path / ".env").write_text("listen=127.0.0.1:3\n")
    monkeypatch.chdir(tmp_path)
    assert load(tmp_path, "", SERVICE_LISTEN="127.0.0.1:4").settings.listen.port == 4
    assert load(tmp_path, "", SERVICE_LISTEN="").settings.listen.port == 3001


@pytest.mark.parametrize(
    ("address", "name", "url"),
    [
        ("/srv/git/telemetry.git", "telemetry", "/srv/git/telemetry.git"),
        ("/srv/git/telemetry/", "telemetry", "/srv/git/telemetry"),
        ("/srv/git/telemetry/.git", "telemetry", "/srv/git/telemetry/.git"),
        ("https://git.example/team/config.git", "config", "https://git.example/team/config.git"),
        ("file:///srv/git/a%20b", "a-20b", "file:///srv/git/a%20b"),
        ("/", "repository", "/"),
    ],
)
def test_one_variable_names_one_repository(address: str, name: str, url: str) -> None:
    found = layers.environment_layer({"SERVICE_REPOSITORY": address}).values
    assert found == {"repositories": [{"name": name, "url": url}]}


def test_the_repository_of_the_environment_stands_for_all_of_the_file(tmp_path: Path) -> None:
    text = "repositories: [{name: x, url: /x}]\n"
    (repository,) = load(tmp_path, text, SERVICE_REPOSITORY="/srv/git/telemetry.git").settings.repositories
    assert (repository.name, repository.url, repository.project) == ("telemetry", "/srv/git/telemetry.git", "default")


def test_a_relative_repository_of_the_environment_is_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (repository,) = load(tmp_path, "", SERVICE_REPOSITORY="here").settings.repositories
    assert repository.url == str(tmp_path / "here")


def test_lists_in_the_environment_are_separated_by_commas(tmp_path: Path) -> None:
    assert load(tmp_path, "", SERVICE_OIDC_SCOPES="openid, groups,").settings.auth.oidc.scopes == ("openid", "groups")


def test_keys_of_the_whole_shape_are_accepted(tmp_path: Path) -> None:
    text = """webURL: http://127.0.0.1:3001
listen: 127.0.0.1:3001
stateDir: /var/lib/reconciler
store: {url: "sqlite:////var/lib/reconciler/store.db"}
tls: {certFile: "", keyFile: ""}
outbound: {proxy: "", caFile: ""}
api: {apiVersions: [service/v1], maxBodyBytes: 8388608, maxResources: 10000}
repositories:
  - name: telemetry
    url: /srv/git/telemetry.git
    branch: main
    path: ""
    project: default
    interval: 60s
    fullInterval: 24h
    timeout: 60s
    allow: {kinds: ["*"], names: ["*"]}
    prune: {enabled: true, maxPercent: 25, minCount: 3}
    atomic: false
    acceptInvalid: false
    suspend: false
    verify: {signersFile: ""}
    credentials:
      {username: "", passwordFile: "", tokenFile: "", sshKeyFile: "", knownHostsFile: "", caFile: "", proxy: ""}
    tag: ""
    commit: ""
    ref: ""
    include: []
    exclude: []
    hook: {secretFile: ""}
secrets: {env: ["DESTINATION_<PROJECT>__*"], directory: ""}
auth: {type: local}
delivery:
  otlpListen: ""
  maxInFlightBytes: 134217728
  maxRequestBytes: 20971520
  maxRequestRecords: 100000
  recordsPerSecond: 1000000
  drainTimeout: 5s
  egress: {allow: [], deny: []}
log: {level: info, format: auto}
"""
    written = load(tmp_path, text, HOME="/home/ada").settings
    fewest = (
        "stateDir: /var/lib/reconciler\nrepositories: [{name: telemetry, url: /srv/git/telemetry.git, branch: main}]\n"
    )
    assert written == load(tmp_path, fewest).settings


OPEN = "must be local or oidc, since `listen` is beyond this machine (127.0.0.1 or [::1])"


@pytest.mark.parametrize(
    ("text", "environment", "overrides", "line"),
    [
        ("listen: 0.0.0.0:80\ninsecure: true\nauth: {type: none}\n", {}, {}, f"config.yaml:3:8: auth.type: {OPEN}"),
        (
            "listen: host.example:80\ntls: {certFile: /a, keyFile: /b}\nauth:\n  type: none\n",
            {},
            {},
            f"config.yaml:4:3: auth.type: {OPEN}",
        ),
        (
            "listen: '[::]:80'\ninsecure: true\n",
            {"SERVICE_AUTH_TYPE": "none"},
            {},
            f"SERVICE_AUTH_TYPE: auth.type: {OPEN}",
        ),
        (
            "insecure: true\nauth: {type: none}\n",
            {},
            {"listen": "192.0.2.1:80"},
            f"config.yaml:2:8: auth.type: {OPEN}",
        ),
        (
            "delivery: {otlpListen: 0.0.0.0:4318}\ninsecure: true\nauth: {type: none}\n",
            {},
            {},
            f"config.yaml:3:8: auth.type: {OPEN.replace('`listen`', '`delivery.otlpListen`')}",
        ),
    ],
)
def test_without_sign_in_the_listener_is_on_this_machine(
    tmp_path: Path, text: str, environment: dict[str, str], overrides: dict[str, Value], line: str
) -> None:
    found = lines_of(tmp_path, text, environment=environment, overrides=overrides)
    assert found == [line.replace("SERVICE_AUTH_TYPE: auth.type:", "SERVICE_AUTH_TYPE:")]


OIDC = "issuer: https://idp.example/tenant/, oauth2ClientID: reconciler, oauth2ClientSecret: canary--hush"
REQUIRED = {
    key: f"is required where auth.type is oidc; set auth.oidc.{key} in the file, or {variable}"
    for key, variable in (
        ("issuer", "SERVICE_OIDC_ISSUER"),
        ("oauth2ClientID", "SERVICE_OIDC_OAUTH2_CLIENT_ID"),
        ("oauth2ClientSecret", "SERVICE_OIDC_OAUTH2_CLIENT_SECRET"),
    )
}
WHOLE = "must not end in /.well-known/openid-configuration, which is looked for there; leave that part out"
PLAIN = "must begin with https:// beyond this machine, since nothing else proves who answers"
URL = 'must be an http or https URL without a user or query, or ""'


def test_a_provider_with_all_that_it_takes_is_fine_and_keeps_its_slash(tmp_path: Path) -> None:
    loaded = load(tmp_path, f"auth: {{type: oidc, oidc: {{{OIDC}}}}}\n")
    assert (loaded.settings.auth.oidc.issuer, loaded.warnings) == ("https://idp.example/tenant/", ())


@pytest.mark.parametrize(
    ("oidc", "lines"),
    [
        ("{}", [f"1:20: auth.oidc.{key}: {required}" for key, required in REQUIRED.items()]),
        ("{issuer: '', oauth2ClientID: a, oauth2ClientSecret: b}", [f"1:27: auth.oidc.issuer: {REQUIRED['issuer']}"]),
        (
            "{issuer: 'https://a.example/.well-known/openid-configuration', oauth2ClientID: a, oauth2ClientSecret: b}",
            [f"1:27: auth.oidc.issuer: {WHOLE}"],
        ),
        (
            f"{{{OIDC}, scopes: [profile]}}",
            ["1:126: auth.oidc.scopes: must hold `openid`, without which a provider tells nobody's identity"],
        ),
        (
            "{issuer: http://idp.example, oauth2ClientID: a, oauth2ClientSecret: b}",
            [f"1:27: auth.oidc.issuer: {PLAIN}"],
        ),
        ("{issuer: 'http://127.0.0.1:8080', oauth2ClientID: a, oauth2ClientSecret: b}", []),
        ("{issuer: 'http://[::1]:8080', oauth2ClientID: a, oauth2ClientSecret: b}", []),
        (
            "{issuer: 'https://a.example/?x=y', oauth2ClientID: a, oauth2ClientSecret: b}",
            [f"1:27: auth.oidc.issuer: {URL}"],
        ),
        (
            "{issuer: 'https://a.example/#x', oauth2ClientID: a, oauth2ClientSecret: b}",
            [f"1:27: auth.oidc.issuer: {URL}"],
        ),
        (
            f"{{{OIDC}, firstAdmin: {{claim: email}}}}",
            ["1:139: auth.oidc.firstAdmin.claim: needs value too"],
        ),
        (
            f"{{{OIDC}, firstAdmin: {{value: ada}}}}",
            ["1:139: auth.oidc.firstAdmin.value: needs claim too"],
        ),
    ],
)
def test_a_provider_that_cannot_work_stops_the_start(tmp_path: Path, oidc: str, lines: list[str]) -> None:
    text = f"auth: {{type: oidc, oidc: {oidc}}}\n"
    if lines:
        assert lines_of(tmp_path, text) == [f"config.yaml:{line}" for line in lines]
    else:
        assert load(tmp_path, text).warnings == ()


def test_a_provider_is_judged_only_where_people_sign_in_through_it(tmp_path: Path) -> None:
    text = "webURL: https://a.example/b\nauth: {oidc: {issuer: http://idp.example, scopes: [profile]}}\n"
    assert load(tmp_path, text).warnings == ()


@pytest.mark.parametrize("url", ["https://a.example", "https://a.example/", "https://a.example//", "http://[::1]:1"])
def test_pages_of_people_who_come_through_a_provider_are_at_the_root(tmp_path: Path, url: str) -> None:
    said = "must have no path where auth.type is oidc, since the pages are at the root of a host"
    sign_in = f"auth: {{type: oidc, oidc: {{{OIDC}}}}}\n"
    assert load(tmp_path, f"webURL: '{url}'\n{sign_in}").warnings == ()
    assert lines_of(tmp_path, f"webURL: '{url.rstrip('/')}/b/'\n{sign_in}") == [f"config.yaml:1:1: webURL: {said}"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [("clientId", "oauth2ClientID"), ("clientSecret", "oauth2ClientSecret"), ("issuerURL", "issuer")],
)
def test_what_other_services_call_the_keys_of_a_provider_leads_to_ours(
    tmp_path: Path, written: str, meant: str
) -> None:
    text = f"auth: {{oidc: {{{written}: canary--x}}}}\n"
    assert lines_of(tmp_path, text) == [
        f"config.yaml:1:15: auth.oidc.{written}: is not a known key; did you mean `{meant}`?"
    ]


def test_what_variables_lack_is_told_by_their_names(tmp_path: Path) -> None:
    given = {"SERVICE_AUTH_TYPE": "oidc", "SERVICE_OIDC_ISSUER": "http://idp.example", "SERVICE_OIDC_SCOPES": "email"}
    assert lines_of(tmp_path, "", environment=given) == [
        f"SERVICE_OIDC_ISSUER: {PLAIN}",
        f"SERVICE_OIDC_OAUTH2_CLIENT_ID: {REQUIRED['oauth2ClientID']}",
        f"SERVICE_OIDC_OAUTH2_CLIENT_SECRET: {REQUIRED['oauth2ClientSecret']}",
        "SERVICE_OIDC_SCOPES: must hold `openid`, without which a provider tells nobody's identity",
    ]


@pytest.mark.parametrize("listen", ["127.0.0.1:1", "127.0.0.2:1", "'[::1]:1'", "localhost:1"])
def test_on_this_machine_nobody_need_be_asked(tmp_path: Path, listen: str) -> None:
    assert load(tmp_path, f"listen: {listen}\nauth: {{type: none}}\n").settings.auth.type == "none"


def test_ways_to_sign_in_and_proxies_that_there_are_not_are_named_with_what_is_allowed(tmp_path: Path) -> None:
    network = (
        "must be a network such as 10.0.0.0/8 or fd00::/8, without bits after the prefix, or one IP address; no name"
    )
    text = "auth: {type: basic}\ntrustedProxies:\n  - 10.0.0.0/8\n  - proxy.example\n  - 10.0.0.1/8\n"
    assert lines_of(tmp_path, text) == [
        "config.yaml:1:8: auth.type: must be local, oidc or none",
        f"config.yaml:4:5: trustedProxies[1]: {network}",
        f"config.yaml:5:5: trustedProxies[2]: {network}",
    ]
    found = load(tmp_path, "trustedProxies: [10.0.0.0/8, '::1']\n").settings.trusted_proxies
    assert [str(one) for one in found] == ["10.0.0.0/8", "::1/128"]
