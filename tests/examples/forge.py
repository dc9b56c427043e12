"""A forge on a free port of this machine, as far as comments go: the routes, fields, headers and pages that GitHub,
GitLab and Gitea document, and a list of comments.

    with forge.running("github") as server:
        server.add("mallory", "hello")
        ...  # run the script with server.environment()
        assert server.texts() == ["hello", "the plan"]

Belongs here: what forges do. Does not: what is expected of who talks to them.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

TOKEN = "canary-token-of-a-job"
REPOSITORY = "team/telemetry"
PROJECT = 42
NUMBER = 7
ME = {"github": "github-actions[bot]", "gitlab": "project_42_bot_7d1f", "gitea": "gitea-actions"}
API = {"github": "/api/v3", "gitlab": "/api/v4", "gitea": "/api/v1"}
LISTS = {
    "github": f"/api/v3/repos/{REPOSITORY}/issues/{NUMBER}/comments",
    "gitlab": f"/api/v4/projects/{PROJECT}/merge_requests/{NUMBER}/notes",
    "gitea": f"/api/v1/repos/{REPOSITORY}/issues/{NUMBER}/comments",
}
ONES = {
    "github": f"/api/v3/repos/{REPOSITORY}/issues/comments/",
    "gitlab": LISTS["gitlab"] + "/",
    "gitea": f"/api/v1/repos/{REPOSITORY}/issues/comments/",
}
PAGE = {"github": 30, "gitlab": 20}  # when nobody asks for more; Gitea gives all at once
EDITS = {"github": "PATCH", "gitlab": "PUT", "gitea": "PATCH"}


class Asked(NamedTuple):
    """One request."""

    method: str
    path: str
    page: int


class Answer(NamedTuple):
    status: int
    body: Any
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed


@dataclass
class Forge:
    """One of the forges. `faults` are answers that come before any other, the first one first; `losing` counts answers
    to POST that get lost after what was asked for has been done.
    """

    kind: str
    writable: bool = True
    faults: list[Answer] = field(default_factory=list)
    losing: int = 0
    comments: list[dict[str, Any]] = field(default_factory=list)
    requests: list[Asked] = field(default_factory=list)
    url: str = ""

    def environment(self) -> dict[str, str]:
        """Return what a job's environment holds."""
        if self.kind == "gitlab":
            return {
                "CI_API_V4_URL": self.url + API["gitlab"],
                "CI_MERGE_REQUEST_PROJECT_ID": str(PROJECT),
                "CI_MERGE_REQUEST_IID": str(NUMBER),
            }
        return {
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": self.url + API[self.kind],
            "GITHUB_REPOSITORY": REPOSITORY,
            "PULL_REQUEST": str(NUMBER),
            **({"GITHUB_GRAPHQL_URL": self.url + "/api/graphql"} if self.kind == "github" else {}),
        }

    def add(self, login: str, body: str) -> None:
        """A comment by somebody, after all others."""
        kind = "Bot" if login == ME["github"] else "User"
        writer = {"id": _id(login), "login": login, "username": login, "type": kind}
        self.comments.append(
            {"id": 1001 + len(self.comments), "author" if self.kind == "gitlab" else "user": writer, "body": body}
        )

    def texts(self) -> list[str]:
        """Return what the comments say, the oldest first."""
        return [one["body"] for one in self.comments]

    def writes(self) -> list[str]:
        """The methods of the requests that change something."""
        return [one.method for one in self.requests if one.method != "GET" and "graphql" not in one.path]

    def answer(self, method: str, target: str, headers: dict[str, str], body: Any) -> Answer:
        """Return what a request gets."""
        parts = urlsplit(target)
        query = dict(parse_qsl(parts.query))
        self.requests.append(Asked(method, parts.path, int(query.get("page", "1"))))
        if self.faults:
            return self.faults.pop(0)
        if not self._knows(headers):
            return Answer(401, {"message": "401 Unauthorized"})
        if parts.path in ("/api/graphql", API[self.kind] + "/user"):
            return self._me(method, parts.path)
        if parts.path == LISTS[self.kind] and method == "GET":
            return self._page(parts.path, query)
        if not self.writable:
            return Answer(403, {"message": "Resource not accessible by integration"})
        return self._write(method, parts.path, body)

    def _knows(self, headers: dict[str, str]) -> bool:
        shown = headers.get("private-token") if self.kind == "gitlab" else headers.get("authorization")
        schemes = {"github": ("Bearer ",), "gitea": ("token ", "Bearer "), "gitlab": ("",)}
        return shown in [scheme + TOKEN for scheme in schemes[self.kind]]

    def _me(self, method: str, path: str) -> Answer:
        login = ME[self.kind]
        if self.kind != "github":
            return Answer(200, {"id": _id(login), "login": login, "username": login})
        if (method, path) == ("POST", "/api/graphql"):
            return Answer(200, {"data": {"viewer": {"login": login}}})
        return Answer(403, {"message": "Resource not accessible by integration"})

    def _page(self, path: str, query: dict[str, str]) -> Answer:
        if self.kind == "gitea":
            return Answer(200, self.comments, {"X-Total-Count": str(len(self.comments))})
        newest_first = self.kind == "gitlab" and query.get("sort", "desc") == "desc"
        ordered = self.comments[::-1] if newest_first else self.comments
        size, page = min(100, int(query.get("per_page", PAGE[self.kind]))), int(query.get("page", "1"))
        more = page * size < len(ordered)
        # Behind a proxy it may well name another host.
        following = f"https://inside.invalid{path}?{urlencode({**query, 'page': page + 1})}"
        links = {"Link": f'<{following}>; rel="next", <{following}>; rel="last"'} if more else {}
        return Answer(200, ordered[(page - 1) * size : page * size], links)

    def _write(self, method: str, path: str, body: Any) -> Answer:
        if method == "POST" and path == LISTS[self.kind]:
            self.add(ME[self.kind], body["body"])
            if self.losing:
                self.losing -= 1
                return Answer(502, "<html>Bad gateway</html>", {"Retry-After": "0"})
            return Answer(201, self.comments[-1])
        found = [one for one in self.comments if path == f"{ONES[self.kind]}{one['id']}"]
        if found and method == EDITS[self.kind]:
            found[0]["body"] = body["body"]
            return Answer(200, found[0])
        return Answer(404, {"message": "Not Found"})


def _id(login: str) -> int:
    return -2 if login == ME["gitea"] else 100 + sum(login.encode())


@contextmanager
def running(kind: str) -> Iterator[Forge]:
    """A forge that answers until the end of the block."""
    forge = Forge(kind)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(forge))
    server.daemon_threads = True
    forge.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, name=f"forge-{kind}")
    thread.start()
    try:
        yield forge
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(forge: Forge) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = forge.answer(self.command, self.path, headers, json.loads(data) if data else None)
            content = answer.body.encode() if isinstance(answer.body, str) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            for name, value in {**answer.headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one  # noqa: N815 - names of http.server

        def log_message(self, *_: object) -> None:
            """Tests are quiet."""

    return Handler
