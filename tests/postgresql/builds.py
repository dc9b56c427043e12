"""A later build of the product: the same program with another version number, one more migration of PostgreSQL, and a
table more that plans read.

It is an environment of its own, which takes the libraries from that of the tests.
"""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]
MIGRATIONS = "reconciler/store/postgresql/migrations"
VERSION = "99.0.0"
# What an upgrade may do while the version before it runs: add. The first two take a lock of a busy table.
MIGRATION = """\
-- oldest program: {oldest}
alter table resource add column added_later text;
create index resource_added_later on resource (added_later);
create table later (name text);
"""
READABLE = "later"
SCRIPT = """\
#!{python}
import sys
from reconciler.cli.main import main
sys.exit(main())
"""


def later(folder: Path) -> Path:
    """Make the build in a folder; its console script."""
    sources = folder / "sources"
    for package in ("api", "reconciler", "schemas"):
        shutil.copytree(ROOT / package, sources / package, ignore=shutil.ignore_patterns("__pycache__"))
    (sources / "reconciler" / "version.py").write_text(f'__version__ = "{VERSION}"\n')
    last = max(int(path.name.split("_")[0]) for path in (sources / MIGRATIONS).glob("*.sql"))
    (sources / MIGRATIONS / f"{last + 1:04}_later.sql").write_text(MIGRATION.format(oldest=last))
    rights = sources / "reconciler/store/postgresql/rights.py"
    rights.write_text(rights.read_text().replace('    "wanted",\n)', f'    "wanted",\n    "{READABLE}",\n)'))
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=60)
    [packages] = environment.glob("lib/python*/site-packages")
    # The libraries' folder alone: what its own .pth files add, such as these sources, is not.
    (packages / "later.pth").write_text(f"{sources}\n{sysconfig.get_path('purelib')}\n")
    program = environment / "bin" / "reconciler"
    program.write_text(SCRIPT.format(python=environment / "bin" / "python"))
    program.chmod(0o755)
    return program
