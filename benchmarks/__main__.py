"""Every figure, as a Markdown table: `python -m benchmarks`; `--full` takes the large corpus too, and its time;
`--only NAME`, which may come again, measures nothing else; `--before PATH` names an earlier checkout with its .venv,
for the rows that compare with it by turns.

It ends with 1 when a figure is over its limit.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import (
    auditing,
    authorization,
    console,
    delivery,
    delivery_backlog,
    failing,
    figures,
    first_read,
    get_one,
    hooks,
    idle,
    large_reconcile,
    lineage,
    listing,
    many,
    metrics,
    notifications,
    one_change,
    otlp,
    planning,
    plans,
    polls,
    queueing,
    renderings,
    replicas,
    starting,
    validating,
)
from benchmarks.figures import Figure

Measure = Callable[[], list[Figure]]


def measures(*, full: bool, before: Path | None = None) -> Mapping[str, Measure]:
    """Return all measurements by name, in the order in which they are shown."""
    most_files = 100_000 if full else 10_000
    return {
        "version": lambda: [idle.version()],
        "validating": lambda: [validating.measure()],
        "idle": idle.memory,
        "idle-following": lambda: idle.following(seconds=60),
        "starting": lambda: starting.measure(files=10_000),
        "get-one": lambda: [get_one.measure()],
        "listing": lambda: listing.measure(files=10_000),
        "first-read": lambda: [first_read.measure(files=10_000, distinct=distinct) for distinct in (False, True)],
        "large-reconcile": lambda: large_reconcile.measure(files=100_000 if full else 20_000),
        "one-change": lambda: one_change.measure(files=most_files, flat_files=most_files),
        "planning": lambda: planning.measure(files=10_000),
        "plans": plans.rendering,
        "renderings": lambda: renderings.measure(configurations=1_000),
        "lineage": lambda: lineage.measure(commits=1_000, files=10_000),
        "auditing": lambda: auditing.measure(files=10_000),
        "authorization": authorization.measure,
        "hooks": lambda: [hooks.measure()],
        "polls": lambda: polls.measure(polls=100),
        "notifications": notifications.measure,
        "otlp": otlp.measure,
        "queueing": lambda: queueing.measure(appends=20_000),
        "metrics": lambda: metrics.measure(destinations=1_000, seconds=10),
        "console": lambda: console.measure(files=10_000, destinations=1_000, seconds=30 if full else 10),
        "delivery": lambda: delivery.measure(seconds=10 if full else 4, rounds=5 if full else 3, before=before),
        **(_of_full() if full else _of_short()),
    }


def _of_full() -> Mapping[str, Measure]:
    return {
        "delivery-backlog": lambda: delivery_backlog.measure(gigabytes=10),
        "failing": lambda: failing.measure(seconds=600),
        "many": lambda: many.measure(repositories=1_000, interval=60),
        "replicas": lambda: replicas.measure(resources=10_000, files=100_000, seconds=60),
        "first-read-large": lambda: [first_read.measure(files=100_000)],
    }


def _of_short() -> Mapping[str, Measure]:
    return {
        "failing": lambda: failing.measure(seconds=75),
        # As many looks a second as of a thousand repositories that are polled each minute.
        "many": lambda: many.measure(repositories=200, interval=12),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--full", action="store_true", help="measure more files, more repositories, longer")
    parser.add_argument("--only", action="append", metavar="NAME", help="one measurement; may come again")
    parser.add_argument("--before", type=Path, metavar="PATH", help="an earlier checkout to compare with")
    arguments = parser.parse_args()
    chosen = measures(full=arguments.full, before=arguments.before)
    if unknown := set(arguments.only or ()) - chosen.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(chosen)}")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every process compiles what it imports
    print(figures.machine(), end="\n\n", flush=True)
    print(figures.HEADING, flush=True)
    found = []
    for name in arguments.only or chosen:
        for one in chosen[name]():  # each is shown as soon as it is known: all of them take most of an hour
            print(figures.row(one), flush=True)
            found.append(one)
    if missed := figures.over(found):
        sys.exit(f"over the limit: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
