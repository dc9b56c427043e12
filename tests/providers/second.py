"""The second provider: Debian's glewlwyd, in C, with a database of its own, set up through its own API.

It differs from the first usefully: its issuer has a path, subjects are random, `auth_time` is 0, the callback carries a
`session_state`. Its pages need scripts, so somebody without a browser does what those scripts would ask of its API.

What is expected of the service that asks it is in the tests.
"""

import contextlib
import gzip
import json
import shutil
import sqlite3
from pathlib import Path
from string import Template
from urllib.parse import parse_qs, urlsplit

import httpx2
from joserfc.jwk import RSAKey

from tests.providers import found
from tests.providers.markup import Page
from tests.providers.people import TIMEOUT_SECONDS, Person
from tests.servers import processes

CLIENT = "reconciler"
SECRET = "canary-client-secret-at-the-second-provider"
PASSWORD = "canary-password-at-the-second-provider"
ADMINISTRATOR = {"username": "admin", "password": "password"}  # of every new database of it
SCOPES = ("openid", "profile", "email")
LISTS = ("groups", "roles")
TEXTS = ("service_projects", "service_default_role", "service_org_admin", "email_verified")

CONFIGURATION = Template("""\
port=$port
bind_address="127.0.0.1"
external_url="http://localhost:$port"
login_url="login.html"
api_prefix="api"
log_mode="console"
log_level="WARNING"
cookie_secure=0
session_key="session"
user_module_path="$unpacked/usr/lib/glewlwyd/user"
client_module_path="$unpacked/usr/lib/glewlwyd/client"
user_auth_scheme_module_path="$unpacked/usr/lib/glewlwyd/scheme"
plugin_module_path="$unpacked/usr/lib/glewlwyd/plugin"
static_files_path="$pages"
static_files_mime_types=(
  {extension=".html"; mime_type="text/html";},
  {extension=".css"; mime_type="text/css";},
  {extension=".js"; mime_type="application/javascript";},
  {extension=".json"; mime_type="application/json";},
  {extension=".ico"; mime_type="image/x-icon";}
)
hash_algorithm="SHA512"
database={type="sqlite3"; path="$database";};
""")

PLUGIN = {
    "jwt-type": "rsa",
    "jwt-key-size": "256",
    "jwks-show": True,
    "subject-type": "public",
    "access-token-duration": 600,
    "refresh-token-duration": 600,
    "code-duration": 60,
    "refresh-token-rolling": False,
    "allow-non-oidc": False,
    "auth-type-code-enabled": True,
    "auth-type-code-revoke-replayed": True,
    "auth-type-id-token-enabled": True,
    **{f"auth-type-{one}-enabled": False for one in ("token", "none", "password", "client", "device", "refresh")},
    "name-claim": "mandatory",
    "email-claim": "mandatory",
    "scope-claim": "no",
    "pkce-allowed": True,
    "pkce-required": True,
    "pkce-method-plain-allowed": False,
    "session-management-allowed": True,
    "session-cookie-name": "oidc",
    "session-cookie-expiration": 600,
}


class Second:
    """The provider, which knows one client: the service at `service`."""

    client, secret, password = CLIENT, SECRET, PASSWORD

    def __init__(self, folder: Path, *, service: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port = processes.free_port()
        self.base = f"http://localhost:{self.port}"
        self.issuer = f"{self.base}/api/oidc"
        self._unpacked = found.glewlwyd()
        self._folder, self._service = folder, service
        self._known = set[str]()
        self._running = contextlib.ExitStack()
        self._administrator = httpx2.Client(base_url=f"{self.base}/api", timeout=TIMEOUT_SECONDS, trust_env=False)
        self._make_database()
        self._make_pages()

    def start(self) -> "Second":
        """Start it; the first time also tell it of the service."""
        libraries = ":".join(str(path) for path in sorted((self._unpacked / "usr" / "lib").glob("*-linux-gnu*")))
        configuration = self._folder / "configuration"
        values = {
            "port": self.port,
            "unpacked": self._unpacked,
            "database": self._folder / "database",
            "pages": self._folder / "pages",
        }
        configuration.write_text(CONFIGURATION.substitute(values))
        command = [str(self._unpacked / "usr" / "bin" / "glewlwyd"), f"--config-file={configuration}"]
        environment = {"LD_LIBRARY_PATH": libraries}
        log = self._folder / "log"
        self._running.enter_context(processes.listening(command, port=self.port, log=log, environment=environment))
        self._tell()
        return self

    def stop(self) -> None:
        """End it: nothing listens there."""
        self._running.close()
        self._administrator.close()

    def say(self, login: str, *, name: str = "", email: str = "", **claims: object) -> None:
        """Return what it says of somebody, whole, from their next sign-in on."""
        properties = {key: "true" if value is True else value for key, value in claims.items()}
        person = {"username": login, "name": name, "email": email, "scope": ["g_profile", *SCOPES], **properties}
        if login in self._known:
            self._ask("PUT", f"/user/{login}", person)
        else:
            self._ask("POST", "/user/", {**person, "password": PASSWORD})
        self._known.add(login)

    def let_in(self, person: Person, page: Page) -> Page:
        """Sign in at the provider, where `page` is, and consent; where that leads."""
        assert page.url.startswith(self.base), (page.url, page.text)
        [back] = parse_qs(urlsplit(page.url).query)["callback_url"]
        credentials = {"username": person.login, "password": PASSWORD}
        self._by(person, "POST", "/auth/", credentials)
        self._by(person, "PUT", f"/auth/grant/{CLIENT}", {"scope": " ".join(SCOPES)})
        return person.visit(f"{back}&g_continue")

    def sign_out(self, person: Person, page: Page) -> Page:
        """Say yes to its question; where that leads."""
        assert page.url.startswith(self.base), (page.url, page.text)
        query = parse_qs(urlsplit(page.url).query)
        assert query["prompt"] == ["end_session"]
        self._by(person, "DELETE", f"/oidc/session/{query['sid'][0]}/", None)
        [back] = query.get("post_logout_redirect_uri", [f"{self._service}/signed-out"])
        return person.visit(back)

    def _make_database(self) -> None:
        script = self._unpacked / "usr" / "share" / "doc" / "glewlwyd" / "database" / "init.sqlite3.sql.gz"
        properties = {name: {"multiple": name in LISTS, "read": True, "write": True} for name in LISTS + TEXTS}
        parameters = json.dumps({"use-glewlwyd-connection": True, "data-format": properties})
        with contextlib.closing(sqlite3.connect(self._folder / "database")) as database:
            database.executescript(gzip.decompress(script.read_bytes()).decode())
            database.execute("UPDATE g_user_module_instance SET gumi_parameters = ?", (parameters,))
            database.commit()

    def _make_pages(self) -> None:
        """Its pages with what they need, which is in other packages; not what is nowhere, as its `config.json`."""
        shared, pages = self._unpacked / "usr" / "share" / "glewlwyd", self._folder / "pages"
        shutil.copytree(shared / "webapp", pages, ignore=_nowhere)
        shutil.copy(shared / "templates" / "config.json", pages / "config.json")

    def _tell(self) -> None:
        """Of the service, of the scopes, and how ID tokens are made."""
        key = RSAKey.generate_key(2048, parameters={"alg": "RS256", "kid": "first", "use": "sig"})
        claims = [_claim(name) for name in LISTS + TEXTS]
        keys = json.dumps({"keys": [key.as_dict(private=True)]})
        parameters = {**PLUGIN, "iss": self.issuer, "jwks-private": keys, "default-kid": "first", "claims": claims}
        plugin = {"module": "oidc", "name": "oidc", "display_name": "OIDC", "enabled": True, "parameters": parameters}
        client = {
            "client_id": CLIENT,
            "name": "The service",
            "confidential": True,
            "client_secret": SECRET,
            "enabled": True,
            "scope": [],
            "authorization_type": ["code"],
            "token_endpoint_auth_method": ["client_secret_basic"],
            "redirect_uri": [f"{self._service}/oidc/redirect"],
            "post_logout_redirect_uri": f"{self._service}/signed-out",
        }
        self._ask("POST", "/auth/", ADMINISTRATOR)
        self._ask("POST", "/mod/plugin/", plugin)
        self._ask("POST", "/client/", client)
        for scope in SCOPES[1:]:
            about = {"name": scope, "display_name": scope, "description": scope}
            self._ask("POST", "/scope/", {**about, "password_required": False, "scheme": {}})

    def _ask(self, method: str, path: str, body: object) -> None:
        answer = self._administrator.request(method, path, json=body)
        assert answer.status_code == httpx2.codes.OK, (method, path, answer.status_code, answer.text)

    def _by(self, person: Person, method: str, path: str, body: object) -> None:
        answer = person.client.request(method, f"{self.base}/api{path}", json=body)
        assert answer.status_code == httpx2.codes.OK, (method, path, answer.status_code, answer.text)


def _nowhere(folder: str, names: list[str]) -> list[str]:
    """The links that lead to nothing."""
    return [name for name in names if not (Path(folder) / name).exists()]


def _claim(name: str) -> dict[str, object]:
    """That this property of a person is a claim of every ID token."""
    claim = {"name": name, "user-property": name, "type": "string", "mandatory": True, "scope": []}
    truth = {"type": "boolean", "boolean-value-true": "true", "boolean-value-false": "false"}
    return {**claim, **truth} if name == "email_verified" else claim
