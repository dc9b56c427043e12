"""The options of `reconciler plan`, checked before anything is read."""

from dataclasses import dataclass
from pathlib import Path

import click

from reconciler.review import plan


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What is to be planned, as the options say."""

    folder: Path
    base: str | None
    head: str | None
    worktree: bool
    strict: bool
    whole: bool
    config: Path | None
    paths: tuple[str, ...]
    repositories: tuple[str, ...]

    def check(self) -> None:
        """Raises UsageError for options that contradict each other."""
        if self.worktree and self.head is not None:
            raise click.UsageError("--worktree is what HEAD and its files hold; leave out --head")
        if self.paths and self.config is not None:
            raise click.UsageError("--path and --config both say what is planned; give one of them")

    def check_live(self) -> None:
        """The same for a plan that a server makes."""
        if self.worktree or self.paths or self.config or self.strict or self.whole:
            told = "with --server the settings are the server's and what is planned is there; leave out"
            raise click.UsageError(f"{told} --worktree, --path, --config, --strict and --whole")
        if not self.repositories:
            raise click.UsageError("name a repository of the server with --repository")


def fail_on(words: str) -> tuple[str, ...]:
    """The words of `--fail-on`, each once. Raises UsageError."""
    found = tuple(dict.fromkeys(word.strip() for word in words.split(",") if word.strip()))
    unknown = [word for word in found if word not in plan.FAIL_ON]
    if unknown:
        raise click.UsageError(f"--fail-on does not know {', '.join(unknown)}; it knows {', '.join(plan.FAIL_ON)}")
    return found
