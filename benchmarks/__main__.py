"""Every figure, as a Markdown table: `python -m benchmarks`; `--full` takes the large corpus too."""

import sys

from benchmarks import figures, first_read, get_one, idle, lineage


def main(arguments: list[str]) -> None:
    """Measure and print."""
    print(figures.machine(), end="\n\n", flush=True)
    found = [idle.version(), *idle.memory(), get_one.measure(), first_read.measure(files=10_000)]
    found += lineage.measure(commits=1_000, files=10_000)
    if "--full" in arguments:
        found.append(first_read.measure(files=100_000))
    print(figures.table(found))


if __name__ == "__main__":
    main(sys.argv[1:])
