"""Files that are read together with helpers come out as if one thread had read them, whatever they hold."""

import random
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.file_selection import FileGlobs
from reconciler.git.snapshots import Snapshot
from reconciler.model import positions
from reconciler.planner.candidates import CandidateRules
from reconciler.store.planning_view import PlanningView
from reconciler.store.sqlite import SqliteStore
from reconciler.worker import crew, trees
from reconciler.worker.crew import Crew, CrewBegin, CrewBroken, CrewChunk, CrewEnd, CrewRead, Helper, SharedReading
from reconciler.worker.limits import ASIDE, Allowance, CommitLimits, Exhausted, UsedAllowance
from reconciler.worker.messages import Failed
from reconciler.worker.trees import FileReading, FileScope, ReadFiles, TreeReading
from tests.daemons import destination
from tests.repositories import Repository
from tests.worker import crews

RULES = CandidateRules(api_versions=frozenset({"service/v1"}), hmac_key=b"k" * 32)
MOST_FILES = 300

VALID = [destination(f"valid-{number}").encode() for number in range(20)]
BROKEN = [
    b"a: b: c\n",
    b"",
    b"# nothing\n",
    b"\xff",
    b"kind: Destination\n  metadata: [\n",
    destination("one").replace("type:", "typ:").encode(),
    destination("").encode(),
    b"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: one}\n",
    b"---\n".join([*VALID[:3], b"a: b: c\n"]),
    b"[" * 1_000,
]
HUGE = [
    b"# " + b"x" * positions.FILE_LIMITS.bytes,  # more than a file may have
    *(f"{destination('huge')}# {letter * 300_000}\n".encode() for letter in "ab"),  # more than a chunk has
    b"---\n".join(destination(f"of-many-{number}").encode() for number in range(200)),
]
IGNORING = [b"a*\n", b"x\n" * 20_000, b"\xff\n", b"!*\n*9.yaml\n"]
NAMES = [
    b"%03d.yaml",
    b"a%03d.yml",
    b"z%03d.json",
    b"%03d.txt",
    b"bad\xff%03d.yaml",
    b"new\nline%03d.yaml",
    b"b\\s%03d.yaml",
]


class Trees:
    """A repository of trees that no checkout could hold; every content is stored once."""

    def __init__(self, folder: Path) -> None:
        self.source = Repository.init(folder)
        self.valid, self.broken, self.huge, self.ignoring = (
            [self.source.blob(content) for content in contents] for contents in (VALID, BROKEN, HUGE, IGNORING)
        )

    def commit(self, seed: int) -> str:
        """A commit of random files; its id."""
        chance = random.Random(seed)  # noqa: S311 - trees are no secrets
        number = chance.randint(trees.MANY, MOST_FILES)
        here = self._files(chance, number // 2)
        below = self._files(chance, number - number // 2)
        if chance.random() < 0.5:
            below[b".serviceignore"] = ("100644", chance.choice(self.ignoring))
        here[b"d"] = ("40000", self._tree(below))
        commit = self.source.commit_tree(self._tree(here))
        self.source.pack()
        return commit

    def _files(self, chance: random.Random, number: int) -> dict[bytes, tuple[str, str]]:
        return dict(self._file(chance, each) for each in range(number))

    def _file(self, chance: random.Random, number: int) -> tuple[bytes, tuple[str, str]]:
        name = chance.choices(NAMES, weights=[40, 20, 5, 2, 1, 1, 1])[0] % number
        mode = chance.choices(["100644", "100755", "120000", "160000"], weights=[90, 5, 2, 1])[0]
        of = chance.choices([self.valid, self.broken, self.huge], weights=[80, 20, 1])[0]
        return name, (mode, chance.choice(of))

    def _tree(self, files: dict[bytes, tuple[str, str]]) -> str:
        # Git sorts a folder as if its name ended in a slash.
        ordered = sorted(files.items(), key=lambda item: item[0] + b"/" * (item[1][0] == "40000"))
        return self.source.tree(*((mode, name, blob) for name, (mode, blob) in ordered))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Trees:
    return Trees(tmp_path_factory.mktemp("trees"))


@pytest.fixture(scope="module")
def helped() -> Iterator[Crew]:
    with crews.crew(2) as crew:
        yield crew


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlanningView]:
    path = tmp_path_factory.mktemp("store") / "store.db"
    SqliteStore(path)
    view = PlanningView.open(path)
    yield view
    view.close()


def read(
    snapshot: Snapshot, view: PlanningView, together: ReadFiles | None, *, allowance: Allowance
) -> tuple[TreeReading | str, UsedAllowance]:
    """What is read, or why nothing is; and what it took, without the time."""
    scope = FileScope(
        repository="telemetry",
        project="default",
        folder="",
        rules=RULES,
        allowance=allowance,
        globs=FileGlobs(include=(), exclude=(), root=""),
        together=together,
    )
    try:
        found: TreeReading | str = trees.read_all(snapshot, view, scope=scope)
    except GitFault as fault:
        return f"{type(fault).__name__} {fault.state} {fault.message}", UsedAllowance()
    used = allowance.used
    return found, UsedAllowance(used.files, used.bytes, used.documents)


@pytest.mark.parametrize("examples", [5, pytest.param(100, marks=pytest.mark.slow)])
def test_what_is_read_together_is_what_one_thread_reads(
    examples: int, made: Trees, helped: Crew, view: PlanningView
) -> None:
    @settings(max_examples=examples, deadline=None, database=None)
    @given(
        seed=st.integers(0, 10**9),
        least=st.sampled_from(
            [CommitLimits(), CommitLimits(documents=100), CommitLimits(files=250), CommitLimits(bytes=2**20)]
        ),
    )
    def holds(seed: int, least: CommitLimits) -> None:
        commit = made.commit(seed)
        mirror = made.source.path / ".git"
        aside = frozenset(made.valid[:2])
        with Snapshot.open(mirror, commit) as snapshot:
            alone = read(snapshot, view, None, allowance=Allowance(least, aside=aside))
        with Snapshot.open(mirror, commit) as snapshot:
            together = helped.of(str(mirror), commit)
            shared = read(snapshot, view, together, allowance=Allowance(least, aside=aside))
        assert shared == alone

    holds()


def plain(made: Trees, blobs: list[str]) -> str:
    """A commit in which every file has one of these contents, by turns."""
    files = {b"%03d.yaml" % number: ("100644", blobs[number % len(blobs)]) for number in range(MOST_FILES)}
    commit = made.source.commit_tree(made._tree(files))
    made.source.pack()
    return commit


def share(made: Trees, commit: str, crew: Crew, allowance: Allowance) -> list[FileReading]:
    """What the crew reads of a commit."""
    mirror = made.source.path / ".git"
    together = crew.of(str(mirror), commit)
    assert together is not None
    with Snapshot.open(mirror, commit) as snapshot:
        return together(list(snapshot.files("")), snapshot, rules=RULES, allowance=allowance)


def test_an_object_that_is_missing_is_told_as_one_thread_tells_it_and_the_next_commit_is_read(
    made: Trees, helped: Crew, view: PlanningView
) -> None:
    damaged = plain(made, [*made.valid, "1" * 40])
    mirror = made.source.path / ".git"
    with Snapshot.open(mirror, damaged) as snapshot:
        alone, _ = read(snapshot, view, None, allowance=Allowance())
    with Snapshot.open(mirror, damaged) as snapshot:
        shared, _ = read(snapshot, view, helped.of(str(mirror), damaged), allowance=Allowance())
    assert (shared, str(shared).startswith("GitFault mirror-corrupt")) == (alone, True)
    with pytest.raises(GitFault) as caught:
        share(made, damaged, helped, Allowance())
    assert caught.value.state is RepositoryState.MIRROR_CORRUPT
    assert len(share(made, plain(made, made.valid), helped, Allowance())) == MOST_FILES


def test_a_file_that_is_set_aside_is_told_of_whoever_reads_it(made: Trees, helped: Crew) -> None:
    found = share(made, plain(made, made.valid), helped, Allowance(aside=frozenset(made.valid[:1])))
    told = {each.path for each in found if each.fault is not None and ASIDE in each.fault}
    assert told == {f"{number:03}.yaml" for number in range(0, MOST_FILES, len(made.valid))}


def test_the_time_of_helpers_counts(made: Trees, helped: Crew) -> None:
    allowance = Allowance(clock=lambda: 0.0)  # that of the thread here does not pass
    share(made, plain(made, made.valid), helped, allowance)
    used = allowance.used
    assert (used.files, used.documents, used.seconds > 0) == (MOST_FILES, MOST_FILES, True)
    with pytest.raises(Exhausted, match=r"takes more than 0.001 s of processor time"):
        share(made, plain(made, made.valid), helped, Allowance(CommitLimits(seconds=0.001), clock=lambda: 0.0))


def test_what_a_commit_took_before_counts_for_a_helper() -> None:
    allowance = Allowance(
        CommitLimits(files=10), used=UsedAllowance(files=9, bytes=5, documents=3, seconds=1.0), clock=lambda: 0.0
    )
    allowance.file("b", 7)
    assert allowance.used.less(UsedAllowance(files=9, bytes=5, documents=3, seconds=1.0)) == UsedAllowance(
        files=1, bytes=7
    )
    with pytest.raises(Exhausted, match="holds more than 10 files"):
        allowance.add(UsedAllowance(files=1))


def test_documents_that_are_more_than_a_report_has_come_in_several(made: Trees, helped: Crew) -> None:
    text = destination("large").replace("type:", f"description: {'x' * 1_500_000}\n  type:")
    large = [made.source.blob(f"{text}# {number}\n".encode()) for number in range(4)]
    commit = plain(made, [*made.valid * 10, *large])
    alone = helped_by_nobody(made, commit)
    assert share(made, commit, helped, Allowance()) == alone


def helped_by_nobody(made: Trees, commit: str) -> list[FileReading]:
    """What a crew without helpers reads."""
    with Snapshot.open(made.source.path / ".git", commit) as snapshot:
        files = list(snapshot.files(""))
        return SharedReading(files, snapshot, members=(), rules=RULES, allowance=Allowance()).run()


def test_a_child_without_helpers_reads_alone() -> None:
    assert Crew(()).of("mirror", "commit") is None


NONSENSE = {
    "its end": b"",
    "no frame": b"\xff\xff\xff\xff",
    "no message": b"\0\0\0\1\xc1",
    "another type": None,
    "other files": CrewRead(0, (FileReading("other.yaml", "0" * 40),), None),
    "files that are missing": CrewRead(0, (), UsedAllowance()),
    "another chunk": CrewRead(7, (), UsedAllowance()),
    "a state that there is not": Failed(0, "bad", state="no-such-state"),
}


@pytest.mark.parametrize("what", NONSENSE)
def test_a_helper_that_reports_nonsense_is_broken(what: str, made: Trees) -> None:
    ours, theirs = socket.socketpair()
    nonsense = NONSENSE[what]
    with ours, theirs:
        if isinstance(nonsense, bytes):
            theirs.sendall(nonsense)
        else:
            crew.send_message(theirs, CrewEnd() if nonsense is None else nonsense)
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(CrewBroken) as broken:
            share(made, plain(made, made.valid), Crew([Helper(1, ours)]), Allowance())
    assert broken.value.process == 1


def test_a_helper_that_says_nothing_is_broken(made: Trees, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "SILENT_SECONDS", 0.05)
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(CrewBroken, match="it says nothing"):
        share(made, plain(made, made.valid), Crew([Helper(1, ours)]), Allowance())


def test_a_helper_that_is_gone_is_broken(made: Trees) -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours, pytest.raises(CrewBroken, match="it is gone"):
        share(made, plain(made, made.valid), Crew([Helper(1, ours)]), Allowance())


def test_a_helper_that_fails_by_a_fault_of_ours_is_told_with_its_trace(made: Trees) -> None:
    commit = plain(made, made.valid)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for number in range(2):
            crew.send_message(theirs, Failed(number, "", trace="Traceback of the helper"))
        with pytest.raises(RuntimeError, match="Traceback of the helper"):
            share(made, commit, Crew([Helper(1, ours)]), Allowance())


def test_what_holds_secrets_does_not_show_them() -> None:
    begin = CrewBegin(
        mirror="m",
        commit="c",
        api_versions=frozenset(),
        hmac_key=b"canary-key",
        limits=CommitLimits(),
        aside=frozenset(),
    )
    assert (repr(begin), repr(CrewRead(3, (), None))) == ("Begin(c)", "Read(3, 0 files)")


def test_chunks_that_wait_for_a_helper_fit_into_its_socket(made: Trees) -> None:
    """Or sending them could wait for a helper that waits for us."""
    name = "\U0001f9ea".encode() * 4_080 + b"%06d.yaml"  # a character of four bytes
    files = {name % number: ("100644", made.valid[0]) for number in range(MOST_FILES)}
    commit = made.source.commit_tree(made._tree(files))
    made.source.pack()
    ours, theirs = socket.socketpair()
    helper = Helper(1, ours)
    with ours, theirs:
        mirror = made.source.path / ".git"
        with Snapshot.open(mirror, commit) as snapshot:
            shared = SharedReading(
                list(snapshot.files("")), snapshot, members=[helper], rules=RULES, allowance=Allowance()
            )
            helper.send(
                CrewBegin(
                    mirror="m" * 4096,
                    commit=commit,
                    api_versions=frozenset(),
                    hmac_key=b"",
                    limits=CommitLimits(),
                    aside=frozenset(f"{number:040}" for number in range(1_000)),
                )
            )
            ours.setblocking(False)
            theirs.shutdown(socket.SHUT_WR)  # it reads on, and reports nothing
            with pytest.raises(CrewBroken):
                shared.run()
        assert isinstance(crew.read_order(theirs), CrewBegin)
        assert [type(crew.read_order(theirs)) for _ in range(2)] == [CrewChunk, CrewChunk]


def test_a_helper_is_told_how_large_the_files_are(made: Trees) -> None:
    """So that only one of the two looks it up."""
    commit = plain(made, made.valid)
    ours, theirs = socket.socketpair()
    with ours, theirs, Snapshot.open(made.source.path / ".git", commit) as snapshot:
        shared = SharedReading(
            list(snapshot.files("")), snapshot, members=[Helper(1, ours)], rules=RULES, allowance=Allowance()
        )
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(CrewBroken):
            shared.run()
        chunk = crew.read_order(theirs)
        assert isinstance(chunk, CrewChunk)
        assert chunk.sizes == tuple(snapshot.size(file.blob) for file in chunk.files)
