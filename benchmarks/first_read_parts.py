"""What two parts of reading give of a first read: helpers that read beside the child, and texts read by their shape.

The same daemon is started with either of them left out, by turns with the plain script; its reader child is started by
a program that puts something that does nothing in their place. The product has no switch for either.
"""

import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks import corpus, first_read, processes
from benchmarks.daemons import daemon, first_run, resource
from benchmarks.figures import Figure

ROUNDS = 5
WITHOUT_HELPERS = "from reconciler.worker import crew; crew.most_helpers = lambda: 0"
WITHOUT_SHAPES = "from reconciler.model.yaml_documents import Shapes; Shapes._is_worth_a_look = lambda _: False"
VARIANTS: Mapping[str, tuple[str, ...]] = {
    "with neither": (WITHOUT_HELPERS, WITHOUT_SHAPES),
    "with helpers": (WITHOUT_SHAPES,),
    "with shapes": (WITHOUT_HELPERS,),
    "with both": (),
}
CORPORA: Mapping[str, bool] = {"one shape": False, "no common shape": True}
READER = "from reconciler.worker.child import main; main()"
DAEMON = """\
import runpy, sys
from reconciler.worker.client import WorkerClient as Reader
Reader.__init__.__kwdefaults__["command"] = (sys.executable, "-I", "-c", {program!r})
sys.argv[:] = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def measure(*, files: int) -> list[Figure]:
    """Of files of one shape, and of files of which no two have one."""
    return [figure for told, shapeless in CORPORA.items() for figure in _of(told, files=files, shapeless=shapeless)]


def _of(told: str, *, files: int, shapeless: bool) -> list[Figure]:
    script: list[float] = []
    ours: dict[str, list[tuple[float, float]]] = {variant: [] for variant in VARIANTS}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        repository = folder / "corpus.git"
        corpus.make(repository, files=files, shapeless=shapeless)
        for number in range(ROUNDS):
            for variant, left_out in VARIANTS.items():
                place = folder / f"{number} {variant}"
                place.mkdir()
                ours[variant].append(_daemon(repository, place, files=files, left_out=left_out))
            script.append(first_read.plain(repository, folder / f"{number}.db"))
    return [_figure(f"first read of {files:,} files, {told}, {variant}", ours[variant], script) for variant in VARIANTS]


def _figure(what: str, ours: list[tuple[float, float]], script: list[float]) -> Figure:
    wall, used = (statistics.median(one) for one in zip(*ours, strict=True))
    ratio = statistics.median(one / other for (one, _), other in zip(ours, script, strict=True))
    beside = f"the plain script, {statistics.median(script):.2f} s"
    return Figure(what, f"{wall:.2f} s, {used:.2f} s of processors", beside, f"{ratio:.2f}")


def _daemon(repository: Path, folder: Path, *, files: int, left_out: tuple[str, ...]) -> tuple[float, float]:
    """The seconds that the run took, and those of processors in all that there is meanwhile."""
    program = DAEMON.format(program="\n".join([*left_out, READER]))
    with daemon(folder, repository=None, prefix=(sys.executable, "-c", program)) as running:
        running.apply(resource("stored"))  # once the child has answered, all of the service has started
        before = processes.cpu_seconds(running.process.pid)
        wall = first_run(running, repository, files=files)
        return wall, processes.cpu_seconds(running.process.pid) - before
