"""Single values: what each type takes, and what it makes of it."""

import re
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from reconciler.settings import repositories, scalars

AMOUNTS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}


@given(st.integers(1, 8784), st.sampled_from(sorted(AMOUNTS)))
def test_a_duration_is_seconds(number: int, unit: str) -> None:
    assert scalars.seconds(f"{number}{unit}") == pytest.approx(number * AMOUNTS[unit])


@given(st.text() | st.integers() | st.none() | st.booleans())
def test_nothing_else_is_a_duration(value: object) -> None:
    if not (isinstance(value, str) and re.fullmatch("[0-9]+(ms|s|m|h)", value)):
        with pytest.raises(ValueError, match=r"^$"):
            scalars.seconds(value)


@pytest.mark.parametrize(
    "text",
    ["0s", "0ms", "8785h", "5", "5 s", "-5s", "1.5s", "1h30m", "5S", "\N{ARABIC-INDIC DIGIT FIVE}s", "", 5, None],
)
def test_a_duration_has_a_unit_and_a_limit(text: object) -> None:
    with pytest.raises(ValueError, match=r"^$"):
        scalars.seconds(text)


TAKES: list[tuple[Any, list[tuple[object, object]]]] = [
    (
        scalars.Listen,
        [
            ("127.0.0.1:3001", scalars.Address("127.0.0.1", 3001)),
            ("[::1]:0", scalars.Address("::1", 0)),
            ("service.example:65535", scalars.Address("service.example", 65535)),
        ],
    ),
    (scalars.Name, [("a", "a"), ("A.b_c-9", "A.b_c-9"), ("x" * 63, "x" * 63)]),
    (scalars.Project, [("default", "default"), ("a-b-2", "a-b-2")]),
    (repositories.Branch, [("main", "main"), ("team/web.v2", "team/web.v2"), (None, None), ("", None)]),
    (repositories.Folder, [("", ""), (".", ""), ("teams/web/", "teams/web"), ("./a", "a"), ("a//b", "a/b")]),
    (repositories.Tag, [("v1.2", "v1.2"), ("release/2026", "release/2026"), (None, None), ("", None)]),
    (repositories.Commit, [("a" * 40, "a" * 40), (None, None), ("", None)]),
    (repositories.FullRef, [("refs/pull/7/head", "refs/pull/7/head"), (None, None), ("", None)]),
    (repositories.Glob, [("*.yaml", "*.yaml"), ("teams/**/x", "teams/**/x")]),
    (
        repositories.Page,
        [
            (page, page)
            for page in (
                "",
                "none",
                "https://github.com/team/telemetry",
                "http://gitlab.example.org:8443/a/b/",
                "https://git.example.org/a/blame/{commit}/{path}?at=x#n{line}",
            )
        ],
    ),
    (repositories.UserName, [("bob", "bob"), ("", ""), ("bob@example.com", "bob@example.com")]),
    (
        repositories.RepositoryURL,
        [
            (url, url)
            for url in (
                "/srv/git/a b.git",
                "file:///srv/git/a",
                "https://git.example:8443/a",
                "ssh://git@git.example/a",
                "http://127.0.0.1:8000/a",
                "http://[::1]/a",
                "git://localhost/a",
            )
        ],
    ),
    (scalars.WebURL, [("https://a.example/", "https://a.example"), ("http://[::1]:80/base", "http://[::1]:80/base")]),
    (
        scalars.StoreURL,
        [
            (url, url)
            for url in (
                "sqlite:////srv/a.db",
                "postgresql://a/b",
                "postgresql:///reconciler?host=/run/postgresql&sslmode=disable",
                "postgresql://ada:se%23cret@one:5432,two:5433/b?target_session_attrs=read-write&passfile=/srv/pass",
            )
        ],
    ),
    (scalars.WorkerURL, [("", ""), ("postgresql://a/b", "postgresql://a/b")]),
    (
        scalars.Network,
        [
            ("10.0.0.0/8", ip_network("10.0.0.0/8")),
            ("0.0.0.0/0", ip_network("0.0.0.0/0")),
            ("192.0.2.1", ip_network("192.0.2.1/32")),
            ("FD00::/8", ip_network("fd00::/8")),
            ("::1", ip_network("::1/128")),
            ("::/0", ip_network("::/0")),
            ("64:ff9b::192.0.2.0/120", ip_network("64:ff9b::c000:200/120")),
        ],
    ),
    (scalars.AbsolutePath, [("/srv", Path("/srv"))]),
    (scalars.OptionalPath, [("", None), ("/srv", Path("/srv"))]),
    (scalars.Percent, [(0, 0), (100, 100)]),
]

REFUSES: list[tuple[Any, list[object]]] = [
    (scalars.Listen, ["", ":3001", "127.0.0.1", "127.0.0.1:65536", "::1:80", "[x]:80", "a b:80", "a:80\n", 80, None]),
    (scalars.Name, ["", "-a", "a-", "a b", "ä", "x" * 64, "a\n", 5]),
    (scalars.Project, ["", "A", "a_b", "-a", "a--b", "a-", "x" * 64]),
    (
        repositories.Branch,
        [
            "-x",
            "a..b",
            "a b",
            "a/",
            "/a",
            "a//b",
            ".a",
            "a/.b",
            "a.lock",
            "a.",
            "@",
            "a@{1}",
            "a\n",
            "a\u200bb",
            "a\xa0b",
            "x" * 1025,
        ],
    ),
    (repositories.Tag, ["-x", "a..b", "a b", "a\n", 5]),
    (repositories.Commit, ["a" * 39, "A" * 40, "g" * 40, "a" * 64, "HEAD", 5]),
    (repositories.FullRef, ["main", "heads/main", "refs/a b", "refs/../x", "-refs/x", "refs/", 5]),
    (repositories.Globs, [["a"] * 101, "a", [5]]),
    (repositories.Glob, ["", " ", "!a", "#a", "a\n", "a" * 1025, "a[/", "[abc", "a\\", "../x", "a//b", "./a", 5]),
    (
        repositories.Page,
        [
            "off",
            "javascript:{path}",
            "https:///{path}",
            "https://user@github.com/a/b",
            "https://github.com:x/a/b",
            "https://github.com/a/b\n",
            "https://github.com/a/b?tab=x",
            f"https://github.com/{'a' * 1024}",
            5,
        ],
    ),
    (repositories.UserName, ["a:b", "a\n", "a" * 256, 5]),
    (repositories.Folder, ["/a", "..", "a/../b", "a\nb", 5]),
    (
        repositories.RepositoryURL,
        [
            "",
            "-x",
            "relative/path",
            "~/a",
            "git@git.example:a",
            "ext::sh -c id",
            "ext::sh://x",
            "http://git.example/a",
            "git://git.example/a",
            "ftp://git.example/a",
            "https://user@git.example/a",
            "https://user:pass@git.example/a",
            "ssh://git:pass@git.example/a",
            "ssh://-oProxyCommand=id/a",
            "ssh://-l@git.example/a",
            "https:///a",
            "https://git.example:x/a",
            "file://git.example/a",
            "file://a",
            "/a\nb",
            "https://git.example/\x1b",
        ],
    ),
    (scalars.WebURL, ["", "a.example", "ftp://a.example", "http://u@a.example", "http://a.example?x", "http://[x"]),
    (scalars.StoreURL, ["", "sqlite:///store.db", "sqlite:////a?mode=ro", "sqlite:////a\n"]),
    (scalars.StoreURL, ["postgres://a/b", "postgresql:a", "postgresql://a/b c", "postgresql://a/#b"]),
    (scalars.StoreURL, ["postgresql://a/b\n", "mysql://a/b", "host=a dbname=b"]),
    (scalars.StoreURL, [f"postgresql://ada:se{mark}cret@db/a" for mark in "@/?#"]),
    (scalars.WorkerURL, ["sqlite:////srv/a.db", "postgresql://a/b\n"]),
    (
        scalars.Network,
        [
            "",
            "siem.example.com",
            "*.example.com",
            "localhost",
            "10.0.0.1/8",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.0/255.0.0.0",
            "10.0.0.0/",
            "10.0.0/8",
            "010.0.0.0/8",
            "10.0.0.0/8 ",
            "10.0.0.0/8\n",
            "10.0.0.1-10.0.0.9",
            "[::1]",
            "fe80::1%eth0",
            "::ffff:10.0.0.0/104",
            "::ffff:10.0.0.1",
            167772160,
            None,
        ],
    ),
    (scalars.AbsolutePath, ["", "a", "./a", 5, None, "/a\nb"]),
    (scalars.Percent, [-1, 101, "5", 5.5, True]),
    (scalars.Boolean, ["yes", "true", 1, 0, None]),
    (scalars.Bytes, [0, 1023, (1 << 30) + 1]),
]


@pytest.mark.parametrize(
    ("kind", "value", "result"), [(kind, value, result) for kind, pairs in TAKES for value, result in pairs]
)
def test_what_a_type_takes(kind: Any, value: object, result: object) -> None:
    assert TypeAdapter(kind).validate_python(value) == result


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in REFUSES for value in values])
def test_what_a_type_refuses_with_what_it_allows(kind: Any, value: object) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value)
    (error,) = caught.value.errors()
    assert error["type"] == scalars.OURS
    assert error["msg"].startswith("must ")


def test_a_page_at_an_unknown_forge_is_refused_with_what_to_give_instead() -> None:
    with pytest.raises(ValidationError, match="for others give the address of a line, with placeholders"):
        TypeAdapter(repositories.Page).validate_python("https://git.example.org/a/b")


@pytest.mark.parametrize("text", ["127.0.0.1:3001", "[::1]:80", "a.example:1"])
def test_an_address_is_written_as_it_was_read(text: str) -> None:
    assert str(scalars.listen_address(text)) == text
