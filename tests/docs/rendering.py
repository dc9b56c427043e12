"""Output of `reconciler plan` in docs/review.md and docs/environments.md: the repositories there, the pages' blocks.

A block follows a comment with its name, `<!-- rendered: NAME -->`. Tests compare; `python -m tests.docs.rendering`
writes the blocks anew.

Belongs here: making the examples, running the program on them. Does not: other parts of the pages.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from reconciler.review.plan import AGAIN
from tests.docs import pages
from tests.repositories import Repository

PROGRAM = Path(sys.executable).parent / "reconciler"
REVIEW = pages.ROOT / "docs" / "review.md"
ENVIRONMENTS = pages.ROOT / "docs" / "environments.md"
CODEOWNERS = "/shared/ @example/platform\n/teams/payments/ @example/payments\n/teams/checkout/ @example/checkout\n"

_RENDERED = re.compile(r"^<!-- rendered: (.+) -->\n(?:\n(`{3,})\w*\n(?s:.*?)^\2\n)?", re.MULTILINE)

AUDIT = """\
apiVersion: service/v1
kind: Destination
metadata:
  name: checkout-audit
  labels:
    owner: checkout
spec:
  type: webhook
  parameters:
    - name: hostname
      value: audit.example.com
    - name: port
      value: 443
    - name: headers
      value:
        Authorization: ${env:DESTINATION_DEFAULT__CHECKOUT_AUDIT}
"""
SIEM = """\
apiVersion: service/v1
kind: Destination
metadata:
  name: siem
spec:
  type: webhook
  parameters:
    - name: hostname
      value: siem.example.com
    - name: port
      value: 443
    - name: timeout
      value: 10
    - name: headers
      value:
        Authorization: Bearer ${file:siem/token}
"""
ERRORS = """\
apiVersion: service/v1
kind: ProcessorType
metadata:
  name: keep_severity
spec:
  version: 1.0.0
  supportedPlatforms: [linux]
  parameters:
    - name: at_least
      label: At least
      description: The least severe level that passes.
      type: enum
      validValues: [info, warn, error]
      default: warn
  logs:
    processors: |
      - keep_severity:
          at_least: {{ .at_least }}
"""


class Block(NamedTuple):
    """A fenced block: its language, and what is in it."""

    language: str
    text: str

    def fenced(self) -> str:
        longest = max((len(run) for run in re.findall(r"^`{3,}", self.text, re.MULTILINE)), default=2)
        fence = "`" * max(3, longest + 1)
        return f"{fence}{self.language}\n{self.text}{fence}\n"


def names(page: str) -> list[str]:
    """The blocks that a page wants, in order."""
    return [found[1] for found in _RENDERED.finditer(page)]


def filled(page: str, blocks: Mapping[str, Block]) -> str:
    """The page with each block as given."""
    return _RENDERED.sub(lambda found: f"<!-- rendered: {found[1]} -->\n\n{blocks[found[1]].fenced()}", page)


def review(folder: Path) -> dict[str, Block]:
    """The plan of one change to the example repository, in a new folder."""
    told = _plan(_changed(folder), "--base", "main", "--head", "change")
    return {"text": Block("console", f"$ reconciler plan --base main --head change\n{told}")}


def _changed(folder: Path) -> Repository:
    repository = Repository.init(folder)
    shutil.copytree(pages.ROOT / "examples" / "repo", folder, dirs_exist_ok=True)
    repository.write(".github/CODEOWNERS", CODEOWNERS)
    repository.commit("The example")
    repository.git("switch", "--quiet", "--create", "change")
    _edit(repository, "teams/payments/destination-alerts.yaml", "value: 10\n", "value: 5\n")
    repository.commit("Page sooner")
    alerts = "PAYMENTS_AUTHORIZATION", "PAYMENTS_ON_CALL"
    _edit(repository, "teams/payments/destination-alerts.yaml", *alerts)
    _edit(repository, "shared/destinations/long-term-archive.yaml", "value: 9\n", "value: 12\n")
    repository.write("teams/checkout/destination-audit.yaml", AUDIT)
    repository.remove("fleets/gateway.yaml")
    repository.remove("shared/processors/keep-warnings.yaml")
    repository.move("teams/orders/orders.yaml", "teams/orders/desk.yaml")
    repository.commit("Audit the checkout")
    repository.git("switch", "--quiet", "main")
    _edit(repository, "shared/processors/label-production.yaml", "eu-central", "eu-north")
    repository.commit("Move north")
    return repository


def environments(folder: Path) -> dict[str, Block]:
    """The plan of a promotion, with the page's own settings, in a new folder."""
    for text in pages.blocks(pages.read(ENVIRONMENTS), "yaml"):
        name = text.partition("\n")[0].removeprefix("# ")
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    shown = "reconciler plan --config folders.yaml --base main --head promote"
    arguments = shown.replace("--config ", f"--config {folder}/").split()[2:]
    told = _plan(_folders(folder / "folders"), *arguments).partition(f"\n{AGAIN}\n")[0]  # the command has the folder
    return {"promoting by copying": Block("console", f"$ {shown}\n{told}")}


def _folders(folder: Path) -> Repository:
    repository = Repository.init(folder)
    repository.write("shared/keep_severity.yaml", ERRORS)
    repository.write("environments/staging/siem.yaml", SIEM.replace("value: 10", "value: 5"))
    repository.write("environments/production/siem.yaml", SIEM)
    repository.commit("Two environments")
    repository.git("switch", "--quiet", "--create", "promote")
    shutil.copy(folder / "environments/staging/siem.yaml", folder / "environments/production/siem.yaml")
    repository.commit("Promote the timeout")
    return repository


def _edit(repository: Repository, path: str, old: str, new: str) -> None:
    text = (repository.path / path).read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path} has not one {old!r}"
    repository.write(path, text.replace(old, new))


def _plan(repository: Repository, *arguments: str) -> str:
    done = subprocess.run(
        [PROGRAM, "plan", *arguments], cwd=repository.path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


PAGES: dict[Path, Callable[[Path], dict[str, Block]]] = {REVIEW: review, ENVIRONMENTS: environments}


def main() -> None:
    """Write the blocks of the pages anew."""
    for path, blocks in PAGES.items():
        with tempfile.TemporaryDirectory() as folder:
            path.write_text(filled(pages.read(path), blocks(Path(folder) / "example")), encoding="utf-8")


if __name__ == "__main__":
    main()
