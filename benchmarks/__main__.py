"""Every figure, as a Markdown table: `python -m benchmarks`; `--full` takes the large corpus too."""

import argparse

from benchmarks import authorization, figures, first_read, get_one, idle, lineage


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--full", action="store_true", help="measure 100,000 files as well")
    arguments = parser.parse_args()
    print(figures.machine(), end="\n\n", flush=True)
    found = [idle.version(), *idle.memory(), get_one.measure(), first_read.measure(files=10_000)]
    found += lineage.measure(commits=1_000, files=10_000)
    found += authorization.measure()
    if arguments.full:
        found.append(first_read.measure(files=100_000))
    print(figures.table(found))


if __name__ == "__main__":
    main()
