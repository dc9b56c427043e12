"""`notification`: a list of what is news, one with what to do, and what a person says of it."""

from typing import Any

from tests.cli.conftest import Program, Service

LIST = "/v1/api/notifications"


def one(identifier: str, *, state: str = "open", status: str = "unread") -> dict[str, Any]:
    """A notification about the repository telemetry."""
    return {
        "metadata": {
            "id": identifier,
            "displayName": "The repository telemetry cannot be read",
            "dateModified": "2026-11-22T02:03:25.053Z",
            "labels": {"service/state": state, "service/since": "20261122T020300Z", "service/occurrences": "2"},
            "resourceDocLink": "http://service/docs/notifications#repositoryunreachable",
            "additionalInfo": {"message": "It does not answer."},
        },
        "spec": {"severity": "error", "notificationType": "RepositoryUnreachable", "account": "default"},
        "status": {"userStatus": status},
    }


def test_the_list_shows_what_is_there_and_not_dismissed_unless_all_is_wanted(
    program: Program, service: Service
) -> None:
    found = [one("N3"), one("N2", state="resolved"), one("N1", status="dismissed")]
    service.answer(f"GET {LIST}", {"notifications": found})
    outcome = program("notification", "list")
    assert outcome == (
        0,
        "ID   SEVERITY   CHANGED                READ     WHAT\n"
        "N3   error      2026-11-22T02:03:25Z   unread   The repository telemetry cannot be read\n",
        "",
    )
    assert [line.split()[:3] for line in program("notification", "list", "--all").out.splitlines()] == [
        ["ID", "SEVERITY", "STATE"],
        ["N3", "error", "open"],
        ["N2", "error", "resolved"],
        ["N1", "error", "open"],
    ]


def test_what_is_over_says_so_in_its_column_alone(program: Program, service: Service) -> None:
    over = one("N2", state="resolved")
    over["metadata"]["displayName"] = "Resolved: The repository telemetry cannot be read"
    service.answer(f"GET {LIST}", {"notifications": [over]})
    assert program("notification", "list", "--all").out.splitlines()[1] == (
        "N2   error      resolved   2026-11-22T02:03:25Z   unread   The repository telemetry cannot be read"
    )


def test_wide_shows_all_of_it(program: Program, service: Service) -> None:
    service.answer(f"GET {LIST}", {"notifications": [one("01M7ZDJ4517MMPZDG65C85TE2D")]})
    wide = program("notification", "list", "-o", "wide").out.splitlines()
    assert [line.split()[:4] for line in wide] == [
        ["ID", "SEVERITY", "TYPE", "PROJECT"],
        ["01M7ZDJ4517MMPZDG65C85TE2D", "error", "RepositoryUnreachable", "default"],
    ]


def test_those_of_several_projects_are_told_apart(program: Program, service: Service) -> None:
    other = one("01M7ZDJ4517MMPZDG6WAJTS57T")
    other["spec"]["account"] = "shop"
    service.answer(f"GET {LIST}", {"notifications": [one("01M7ZDJ4517MMPZDG65C85TE2D"), other]})
    assert [line.split()[:3] for line in program("notification", "list").out.splitlines()] == [
        ["ID", "SEVERITY", "PROJECT"],
        ["01M7ZDJ4517MMPZDG65C85TE2D", "error", "default"],
        ["01M7ZDJ4517MMPZDG6WAJTS57T", "error", "shop"],
    ]


def test_nothing_is_said_to_be_nothing(program: Program, service: Service) -> None:
    service.answer(f"GET {LIST}", {"notifications": [one("N2", state="resolved")]})
    outcome = program("notification", "list")
    assert outcome == (0, "", "there are no open notifications\n")


def test_one_says_since_when_it_is_there_and_what_to_do(program: Program, service: Service) -> None:
    service.answer(f"GET {LIST}/N1", {"notification": one("N1")})
    assert program("notification", "show", "N1") == (
        0,
        "TYPE                    SEVERITY   PROJECT   STATE   SINCE                  TIMES   READ\n"
        "RepositoryUnreachable   error      default   open    2026-11-22T02:03:00Z   2       unread\n"
        "\n"
        "The repository telemetry cannot be read\n"
        "It does not answer.\n"
        "http://service/docs/notifications#repositoryunreachable\n",
        "",
    )


def test_a_person_reads_dismisses_and_takes_that_back(program: Program, service: Service) -> None:
    said = (("read", "N1", "read"), ("unread", "N2", "unread"), ("dismiss", "N3", "dismissed"))
    for command, identifier, status in said:
        service.answer(f"POST {LIST}/{identifier}/status", {"notification": one(identifier, status=status)})
        assert program("notification", command, identifier) == (0, f"{identifier}: {status}\n", "")
        assert service.requests[-1].body == {"userStatus": status}


def test_what_there_is_not_is_told_with_where_to_look(program: Program, service: Service) -> None:
    service.answer(f"GET {LIST}/N9", {"errors": ["There is no such notification."]}, 404)
    sentence = "error: there is no notification N9; `reconciler notification list --all` shows them\n"
    assert program("notification", "show", "N9") == (1, "", sentence)


def test_what_came_of_test_alerts_is_told_and_the_exit_code_says_whether_all_were_taken(
    program: Program, service: Service
) -> None:
    taken = {"target": "chat", "taken": True, "status": 200, "seconds": 0.081, "message": ""}
    lost = {"target": "pager", "taken": False, "status": 404, "seconds": 1.5, "message": "it answered 404: a wrong URL"}
    for tests in ([taken], [taken, lost]):
        service.answer("POST /v1/alerts/test", {"tests": tests})
    assert program("notification", "test", "chat") == (0, "chat: taken; it answered 200 after 0.08 s\n", "")
    told = "chat: taken; it answered 200 after 0.08 s\npager: not taken after 1.50 s: it answered 404: a wrong URL\n"
    assert program("notification", "test") == (1, told, "")
    assert [request.body for request in service.requests] == [{"target": "chat"}, {}]
