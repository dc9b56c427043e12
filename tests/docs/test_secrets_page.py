"""docs/secrets.md says what the code that judges and reads secrets does."""

import json
import re

import yaml

from reconciler.delivery import secrets
from reconciler.model import secret_references, type_checks
from reconciler.model.secret_references import NO_SECRETS, AvailableSecrets
from reconciler.settings.models import Secrets
from tests import worlds
from tests.docs import pages
from tests.worlds import Following

PAGE = pages.read(pages.ROOT / "docs/secrets.md")
EXAMPLE, *_ = pages.blocks(PAGE, "yaml")
TOLD = "destinations/siem.yaml"


def test_the_example_is_stored_with_the_variable_and_the_files_that_the_page_names() -> None:
    setup, *_ = pages.blocks(PAGE, "sh")
    folder = re.findall(r"/var/lib/reconciler/secrets/default/(\w+)$", setup, re.MULTILINE)
    [(names, target)] = re.findall(r"-m 400 (.+) /var/lib/reconciler/secrets/default/(\w+)/", setup)
    files = frozenset(f"{target}/{name}" for name in names.split())
    assert folder == [target]
    with worlds.world({"a": Following()}) as world:
        world.secrets = NO_SECRETS
        world.push("a", {TOLD: EXAMPLE})
        ran = world.look("a")
        assert ran is not None
        [refused] = ran.told
        assert str(refused.reason).splitlines()[0] == pages.blocks(PAGE, "")[0].strip()
        assert len(str(refused.reason).splitlines()) == 3
        world.secrets = AvailableSecrets(frozenset(re.findall(r"'(\w+)=", setup)), files)
        assert world.read_all("a").planned.counts == {"created": 1}


def test_the_bounds_are_those_of_the_code() -> None:
    numbers = {
        f"at most {secret_references.LONGEST_NAME} characters",
        f"at most {secrets.MOST_SECRET_BYTES // 1024} KiB",
        f"at most {secrets.MOST_FILES:,} of a project, {secrets.MOST_LEVELS} levels deep",
        f"more than {secrets.MOST_FILES:,} files, or more than {secrets.MOST_LEVELS} levels",
    }
    assert [told for told in sorted(numbers) if told not in PAGE] == []


def test_the_settings_are_those_of_the_code() -> None:
    *_, settings = pages.blocks(PAGE, "yaml")
    shown = yaml.safe_load(settings)["secrets"]
    assert (tuple(shown["env"]), shown.keys()) == (Secrets().env, Secrets.model_fields.keys())


def test_the_parameters_that_take_references_are_told() -> None:
    rows = json.dumps(pages.table(PAGE.partition("Where a reference may stand:")[2]))
    assert [key.name for key in sorted(type_checks.EXECUTED) if f"`{key.name}`" not in rows] == []
