"""Sums of the answers of several instances about their own queues. Pure.

An answer of another version may lack members, or have more. Unknown members are not summed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

Shown: TypeAlias = Mapping[str, Any]

WORST = ("down", "held", "waiting", "orphaned", "sending", "closed", "idle")  # states, the worst first
SUMMED = ("batches", "records", "bytes", "diskBytes", "inFlight", "waiting", "quarantined", "lost")
LIMITS = ("maxBatches", "maxBytes")


def sum_deliveries(found: Sequence[tuple[str, Shown]]) -> dict[str, Any]:
    """Return the delivery of one destination on all instances, at least one, with each instance's own part in
    `instances`.
    """
    shown = [one for _, one in found]
    name, worst = min(found, key=lambda one: _badness(one[1]["state"]))
    queues, letters = [one["queue"] for one in shown], [one["deadLetters"] for one in shown]
    return {
        **worst,
        "message": f"{name}: {worst['message']}" if worst["message"] else "",
        "queue": {
            **worst["queue"],
            **{member: sum(one.get(member, 0) for one in queues) for member in SUMMED},
            **{member: _sum_known(one.get(member) for one in queues) for member in LIMITS},
            "load": round(sum(one["load"] for one in queues), 3),
            "oldest": _first(one["oldest"] for one in queues),
            "refused": any(one["refused"] for one in queues),
        },
        "deadLetters": {
            **_sums(letters, ("batches", "records", "bytes")),
            "oldest": _first(one["oldest"] for one in letters),
        },
        "counts": _sums([one["counts"] for one in shown], shown[0]["counts"]),
        "rates": {
            name: round(rate, 3) for name, rate in _sums([one["rates"] for one in shown], shown[0]["rates"]).items()
        },
        "lastSuccess": _last(one["lastSuccess"] for one in shown),
        "lastFailure": max((one["lastFailure"] for one in shown if one["lastFailure"]), key=_at, default=None),
        "configurations": sorted({each for one in shown for each in one["configurations"]}),
        "instances": [{"instance": instance, "delivery": dict(one)} for instance, one in found],
    }


def sum_projects(found: Sequence[tuple[str, Shown]]) -> dict[str, Any]:
    """Return the deliveries of a project on all instances, and the records that no Configuration took."""
    of: dict[str, list[tuple[str, Shown]]] = {}
    for instance, answer in found:
        for one in answer["deliveries"]:
            of.setdefault(one["destination"], []).append((instance, one))
    unrouted = [answer["unrouted"] for _, answer in found]
    return {
        "deliveries": [sum_deliveries(of[name]) for name in sorted(of)],
        "unrouted": {
            "records": sum(one["records"] for one in unrouted),
            "last": _last(one["last"] for one in unrouted),
        },
    }


def sum_histories(found: Sequence[Sequence[Shown]]) -> list[dict[str, Any]]:
    """Return the summed samples of all instances. Each instance samples once a minute, at its own second, so the last
    samples of all are summed, then those before them, and so on.
    """
    longest = max(map(len, found), default=0)
    rows = [[samples[-ago] for samples in found if len(samples) >= ago] for ago in range(longest, 0, -1)]
    return [
        {
            "at": max(one["at"] for one in row),
            **_sums(row, ("taken", "delivered", "retried", "dead", "queued")),
            "oldestSeconds": max(
                (one["oldestSeconds"] for one in row if one["oldestSeconds"] is not None), default=None
            ),
        }
        for row in rows
    ]


def _badness(state: str) -> int:
    return WORST.index(state) if state in WORST else 0


def _sums(found: Sequence[Shown], names: Iterable[str]) -> dict[str, Any]:
    return {name: sum(one.get(name, 0) for one in found) for name in names}


def _sum_known(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _first(times: Iterable[str | None]) -> str | None:
    """Return the earliest instant. Instants are compared as text."""
    return _chosen(min, times)


def _last(times: Iterable[str | None]) -> str | None:
    return _chosen(max, times)


def _chosen(choose: Callable[..., str], times: Iterable[str | None]) -> str | None:
    known = [time for time in times if time is not None]
    return choose(known) if known else None


def _at(failure: Shown) -> str:
    return str(failure["at"])
