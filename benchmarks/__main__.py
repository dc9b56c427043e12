"""Every figure, as a Markdown table: `python -m benchmarks`; `--full` takes the large corpus too, and its time.

It ends with 1 when a figure is over its limit.
"""

import argparse
import sys

from benchmarks import (
    authorization,
    delivery,
    delivery_backlog,
    failing,
    figures,
    first_read,
    get_one,
    hooks,
    idle,
    lineage,
    many,
    otlp,
    planning,
    plans,
    polls,
    queueing,
    validating,
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--full", action="store_true", help="measure more files, more repositories, longer")
    arguments = parser.parse_args()
    print(figures.machine(), end="\n\n", flush=True)
    found = [idle.version(), validating.measure(), *idle.memory(), get_one.measure(), first_read.measure(files=10_000)]
    found.append(planning.measure(files=10_000))
    found += plans.rendering()
    found += lineage.measure(commits=1_000, files=10_000)
    found += authorization.measure()
    found.append(hooks.measure())
    found += polls.measure(polls=100)
    found += otlp.measure() + queueing.measure(appends=20_000)
    found += delivery.measure(seconds=10 if arguments.full else 4, rounds=5 if arguments.full else 3)
    if arguments.full:
        found += delivery_backlog.measure(gigabytes=10)
        found += failing.measure(seconds=600) + many.measure(repositories=1_000, interval=60)
        found.append(first_read.measure(files=100_000))
    else:
        # As many looks a second as of a thousand repositories that are polled each minute.
        found += failing.measure(seconds=75) + many.measure(repositories=200, interval=12)
    print(figures.table(found))
    if missed := figures.over(found):
        sys.exit(f"over the limit: {'; '.join(missed)}")


if __name__ == "__main__":
    main()
