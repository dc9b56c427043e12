"""Which files count by the settings' `include` and `exclude`, and what becomes of what counts no more."""

from reconciler.git import file_selection
from tests.daemons import destination
from tests.worlds import Following, World

NOBODY_READS = {"x/broken.yaml": "a: [", "x/.serviceignore": "a\n" * (file_selection.MAX_PATTERNS + 1)}


def names(world: World) -> dict[str, str | None]:
    """The resources by name, and whose they are."""
    return {row["name"]: row["owner"] for row in world.stored()}


def files(*paths: str) -> dict[str, str]:
    """Files that hold a resource each, which is called like the file's folder and file."""
    return {path: destination(path.removesuffix(".yaml").replace("/", "-")) for path in paths}


def test_only_what_is_included_and_not_excluded_is_read(world: World) -> None:
    world.follow("a", Following(include=("/x/", "a.yaml"), exclude=("drafts/",)))
    world.push("a", files("a.yaml", "b.yaml", "x/c.yaml", "x/drafts/d.yaml", "y/a.yaml") | {"y/broken.yaml": "a: ["})
    ran = world.look("a")
    assert ran is not None
    assert (ran.planned.counts, ran.planned.hold) == ({"created": 3}, None)
    assert sorted(names(world)) == ["a", "x-c", "y-a"]
    world.push("a", files("a.yaml", "b.yaml", "x/c.yaml", "x/drafts/e.yaml", "x/f.yaml"))
    ran = world.look("a")
    assert ran is not None
    assert (ran.planned.full, ran.planned.counts) == (False, {"created": 1, "deleted": 1})


def test_what_counts_no_more_is_deleted_and_what_counts_again_is_created(world: World) -> None:
    world.push("a", files("a.yaml", "x/b.yaml"))
    world.settle()
    for following, expected in (
        (Following(exclude=("x/",)), {"deleted": 1, "unchanged": 1}),
        (Following(), {"created": 1, "unchanged": 1}),
        (Following(include=("x/",)), {"deleted": 1, "unchanged": 1}),
        (Following(include=("x/", "*.yaml")), {"created": 1, "unchanged": 1}),
    ):
        world.follow("a", following)
        ran = world.look("a")
        assert ran is not None
        assert (ran.planned.full, ran.planned.counts) == (True, expected)


def test_when_nothing_counts_any_more_nothing_is_deleted(world: World) -> None:
    world.push("a", files("a.yaml"))
    world.settle()
    world.follow("a", Following(include=("b.yaml",)))
    ran = world.look("a")
    assert ran is not None
    assert (ran.planned.hold, sorted(names(world))) == ("empty", ["a"])


def test_what_cannot_be_read_holds_deletions_only_where_it_counts(world: World) -> None:
    world.push("a", files("a.yaml", "b.yaml") | NOBODY_READS)
    world.settle()
    world.push("a", files("a.yaml") | NOBODY_READS)
    ran = world.look("a")
    assert ran is not None
    assert (ran.planned.hold, sorted(names(world))) == ("prune-held", ["a", "b"])
    world.follow("a", Following(exclude=("/x/",)))
    ran = world.look("a")
    assert ran is not None
    assert (ran.planned.hold, sorted(names(world))) == (None, ["a"])
    world.push("a", files("a.yaml", "c.yaml") | NOBODY_READS)
    ran = world.look("a")
    assert ran is not None
    assert (ran.planned.full, sorted(names(world))) == (False, ["a", "c"])


def test_ignore_files_still_apply(world: World) -> None:
    world.follow("a", Following(include=("x/*",)))
    world.push("a", files("x/a.yaml", "x/b.yaml", "c.yaml") | {".serviceignore": "b.yaml"})
    world.settle()
    assert sorted(names(world)) == ["x-a"]
    world.push("a", files("x/a.yaml", "x/b.yaml", "c.yaml"))
    world.settle()
    assert sorted(names(world)) == ["x-a", "x-b"]


def test_what_is_let_go_passes_to_a_file_that_counts_no_more_until_the_next_run(world: World) -> None:
    both = files("x/a.yaml", "y/b.yaml")
    world.push("a", both | files("c.yaml"))
    world.settle()
    world.push("b", both)
    world.settle()
    assert names(world) == {"x-a": "a", "y-b": "a", "c": "a"}
    world.follow("b", Following(exclude=("y/",)))  # and nobody has looked since
    world.push("a", files("c.yaml"))
    ran = world.look("a")
    assert ran is not None
    assert (ran.planned.counts, ran.planned.note) == (
        {"unchanged": 2},
        "Destination x-a, Destination y-b passed to the repository b.",
    )
    world.settle()
    assert names(world) == {"x-a": "b", "c": "a"}
