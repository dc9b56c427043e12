"""`notification`: a list of what is news, one with what to do, and what a person says of it."""

from typing import Any

from tests.cli.conftest import Program, Service

LIST = "/v1/api/notifications"


def one(identifier: str, *, state: str = "open", status: str = "unread") -> dict[str, Any]:
    """A notification about the repository telemetry."""
    return {
        "metadata": {
            "id": identifier,
            "displayName": "The repository telemetry cannot be reached",
            "dateModified": "2026-11-22T02:03:25.053Z",
            "labels": {"service/state": state},
            "resourceDocLink": "http://service/docs/notifications#repositoryunreachable",
            "additionalInfo": {"message": "It does not answer."},
        },
        "spec": {"severity": "error", "notificationType": "RepositoryUnreachable", "account": "default"},
        "status": {"userStatus": status},
    }


def ids(out: str) -> list[str]:
    """The first column."""
    return [line.split()[0] for line in out.splitlines()]


def test_the_list_shows_what_is_there_and_not_dismissed_unless_all_is_wanted(
    program: Program, service: Service
) -> None:
    found = [one("N3"), one("N2", state="resolved"), one("N1", status="dismissed")]
    service.answer(f"GET {LIST}", {"notifications": found})
    outcome = program("notification", "list")
    assert outcome == (
        0,
        "ID   SEVERITY   TYPE                    PROJECT   CHANGED                READ     WHAT\n"
        "N3   error      RepositoryUnreachable   default   2026-11-22T02:03:25Z   unread   "
        "The repository telemetry cannot be reached\n",
        "",
    )
    assert ids(program("notification", "list", "--all").out) == ["ID", "N3", "N2", "N1"]


def test_nothing_is_said_to_be_nothing(program: Program, service: Service) -> None:
    service.answer(f"GET {LIST}", {"notifications": [one("N2", state="resolved")]})
    outcome = program("notification", "list")
    assert outcome == (0, "", "there is nothing that somebody should know of\n")


def test_one_says_what_to_do_and_where_it_is_explained(program: Program, service: Service) -> None:
    service.answer(f"GET {LIST}/N1", {"notification": one("N1")})
    assert program("notification", "show", "N1") == (
        0,
        "The repository telemetry cannot be reached\n"
        "It does not answer.\n"
        "http://service/docs/notifications#repositoryunreachable\n",
        "",
    )


def test_a_person_reads_and_dismisses(program: Program, service: Service) -> None:
    for command, identifier, status in (("read", "N1", "read"), ("dismiss", "N2", "dismissed")):
        service.answer(f"POST {LIST}/{identifier}/status", {"notification": one(identifier, status=status)})
        assert program("notification", command, identifier) == (0, f"{identifier}: {status}\n", "")
        assert service.requests[-1].body == {"userStatus": status}


def test_what_there_is_not_is_told_with_where_to_look(program: Program, service: Service) -> None:
    service.answer(f"GET {LIST}/N9", {"errors": ["There is no such notification."]}, 404)
    sentence = "error: there is no notification N9; `reconciler notification list --all` shows them\n"
    assert program("notification", "show", "N9") == (1, "", sentence)
