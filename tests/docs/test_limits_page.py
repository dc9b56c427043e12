"""docs/limits.md names the limits that the program has, and what happens at each."""

import re

import pytest

from api import audit_events, auth, edge, repositories
from api import requests as api_requests
from api.pages import accounts, forms, sign_in
from reconciler.auth import changes, rate_limits, sessions
from reconciler.auth import sign_in as auth_sign_in
from reconciler.auth.oidc import discovery, flows, provider, tokens
from reconciler.collectors import rendering
from reconciler.delivery import contract, intake, manager
from reconciler.delivery.queue import contract as queue_contract
from reconciler.delivery.queue import memory
from reconciler.git import file_selection, hooks, snapshots, trees
from reconciler.git.remotes import following, mirrors, proposals, sources, verification
from reconciler.model import cron, names, positions, text, type_definitions, validators
from reconciler.reconcile import apply, loop
from reconciler.review import kept_plans, service
from reconciler.server import connections
from reconciler.settings import repositories as settings_repositories
from reconciler.settings.models import Delivery
from reconciler.store import operations
from reconciler.worker import client, process, projections, requests, sandbox
from reconciler.worker.messages import CommitJob, RedactJob, RequestJob
from reconciler.worker.trees import COMMIT
from tests.docs import pages

PAGE = pages.read(pages.ROOT / "docs/limits.md")
SECTIONS = ["Texts", "Resources", "Commits", "Requests", "A sign-in provider", "The service itself"]
ROWS = {row["what"]: row for section in SECTIONS for row in pages.table(pages.section(PAGE, section))}
MEBIBYTE = 2**20
FILE = positions.FILE_LIMITS
REQUEST = process.SECONDS[RequestJob]
REDACTION = process.SECONDS[RedactJob]
PROVIDER = discovery.LIMITS


@pytest.mark.parametrize(
    ("what", "limit"),
    [
        ("a file in Git", f"{FILE.bytes // MEBIBYTE} MiB"),
        ("one request to it", f"{PROVIDER.request_seconds:g} s"),
        (
            "its discovery document, its key set",
            f"{PROVIDER.document_bytes >> 10} KiB each, {tokens.MOST_KEYS} keys",
        ),
        (
            "the answer of its token endpoint, with the ID token in it",
            f"{PROVIDER.token_bytes // MEBIBYTE} MiB, some 20,000 groups",
        ),
        ("fetching keys because the key of a token is unknown", f"once in {PROVIDER.rotation_seconds:g} s"),
        ("a sign-in in progress", f"{flows.LIFETIME_SECONDS / 60:g} minutes"),
        ("used states that are remembered", f"the last {provider.MOST_STATES:,}"),
        ("the path to return to", f"{flows.LONGEST_PATH:,} characters"),
        (
            "an authorization code; an error's code",
            f"{provider.LONGEST_CODE:,}; {provider.LONGEST_ERROR} characters",
        ),
        (
            "rendering a Configuration",
            f"{rendering.SECONDS:g} s of processor time, {rendering.MOST_PIPELINES:,} pipelines, "
            f"{rendering.MOST_CHARACTERS:,} characters",
        ),
        ("an ID token that is sent back at sign-out", f"{flows.LONGEST_HINT:,} characters"),
        ("audit events in one answer", f"{audit_events.LARGEST_PAGE:,}"),
        (
            "kinds of refused attempts that the audit distinguishes",
            f"{rate_limits.MOST_OF_ONE} a minute of strangers, and of each of {rate_limits.CALLERS} callers",
        ),
        ("a disk of queues that does not answer", f"{intake.HUNG_SECONDS:g} s"),
        (
            "a queue in memory",
            f"{manager.MEMORY_BYTES // MEBIBYTE} MiB, {memory.MOST_BATCHES:,} batches, `sending_queue_queue_size` "
            f"times {queue_contract.BATCH_RECORDS:,} records or {queue_contract.BATCH_BYTES // MEBIBYTE} MiB",
        ),
        ("`delivery_schedule` of a webhook", f"{cron.LONGEST} characters"),
        ("the routes of a project, with their destinations", f"{projections.MOST_BYTES // MEBIBYTE} MiB"),
        ("versions that are searched for a deleted destination", f"{projections.MOST_VERSIONS:,}"),
        (
            "polls of a repository while they fail",
            f"{loop.MOST} in {loop.WINDOW:g} s, 1 if the head cannot be fetched",
        ),
        (
            "git programs that talk to remotes, and as many that read repositories on the same machine or check"
            " signatures",
            f"{following.AT_ONCE} at a time, {following.OF_ONE_HOST} of them for one host and port",
        ),
        (
            "remotes that are polled for proposals; the same for repositories on the same machine",
            f"{following.PROPOSED} at a time, {following.PROPOSED_OF_ONE_HOST} of them on one host; "
            f"{following.PROPOSED}",
        ),
        (
            "the list of refs that is searched for a proposed commit",
            f"{proposals.LISTING_BYTES // MEBIBYTE} MiB",
        ),
        (
            "proposals whose commits may be named by id",
            f"the last {proposals.MOST_HELD} that were requested",
        ),
        (
            "the mirror of proposals, before a fetch into it",
            f"as many bytes as one fetch may bring, {mirrors.MANY_PACKS} packs",
        ),
        ("refs of plans that are remembered", f"{proposals.MOST_TIPS} of one remote"),
        ("documents in a file, empty ones included", f"{FILE.documents:,}"),
        ("nodes in a file, aliases counted in full", f"{FILE.nodes:,}"),
        ("text in a file, aliases counted in full", f"{FILE.text // MEBIBYTE} MiB"),
        ("nesting in a document", f"{FILE.depth} levels"),
        ("the text of a reason", f"{text.MOST_LINES:,} lines, {text.MOST_CHARACTERS // 1024} KiB"),
        ("labels in one place of a resource", f"{validators.MOST_LABELS:,}"),
        ("parameters of a type", f"{type_definitions.MOST_PARAMETERS:,}"),
        ("valid values of a type, with those in its conditions", f"{type_definitions.MOST_VALUES:,} in all"),
        (
            "conditions of a type (`relevantIf`)",
            f"{type_definitions.MOST_CONDITIONS} of one parameter, {type_definitions.MOST_CONDITIONS_IN_ALL:,} in all, "
            f"{type_definitions.MOST_SEARCHES} of them `containsAny`",
        ),
        ("a parameter of the type `yaml`", f"{FILE.bytes // MEBIBYTE} MiB, {FILE.nodes:,} nodes"),
        ("files of a commit that are read", f"{COMMIT.files:,}"),
        ("bytes of these files; content under several paths counts several times", f"{COMMIT.bytes // MEBIBYTE:,} MiB"),
        ("documents in a commit", f"{COMMIT.documents:,}"),
        ("reading and judging a commit", f"{COMMIT.seconds:g} s of processor time"),
        ("entries in the tree of a commit", f"{trees.MAX_ENTRIES:,}"),
        (
            "nested folders; the length of a path",
            f"{trees.MAX_DEPTH} levels, {trees.MAX_PATH_CHARACTERS:,} characters",
        ),
        ("the names in one folder, in bytes", f"{snapshots.MAX_TREE_BYTES // MEBIBYTE} MiB"),
        (
            "a `.serviceignore`",
            f"{file_selection.MAX_IGNORE_BYTES // 1024} KiB, {file_selection.MAX_PATTERNS:,} patterns",
        ),
        ("patterns in the `.serviceignore` files of a commit", f"{COMMIT.patterns:,}"),
        (
            "patterns in `include`, in `exclude`",
            f"{settings_repositories.MAX_GLOBS} of {settings_repositories.MAX_GLOB_CHARACTERS:,} characters each",
        ),
        (
            "one git that talks to a remote, and each process that it starts",
            f"{sources.MAX_MEMORY_BYTES / 2**30:g} GiB of memory, without the files that it maps",
        ),
        ("a file of signers", f"{verification.MOST_BYTES // MEBIBYTE} MiB"),
        ("a commit or tag whose signature is checked", f"{verification.MOST_OBJECT_BYTES // MEBIBYTE} MiB"),
        ("one run of git that checks a signature", f"{verification.SECONDS:g} s"),
        (
            "a request's line and headers",
            f"{connections.HEAD_BYTES // 1024} KiB, within {connections.HEAD_SECONDS:g} s",
        ),
        ("parameters in a query", f"{api_requests.MOST}"),
        ("receiving a request's body", f"{api_requests.READ_SECONDS:g} s"),
        ("the body of a delivery to a hook", f"{repositories.MAX_BYTES // MEBIBYTE} MiB"),
        (
            "the secret of a hook",
            f"at least {hooks.FEWEST_CHARACTERS} characters, {hooks.MOST_BYTES // 1024} KiB",
        ),
        ("reading the secret of a hook", f"{repositories.READ_SECONDS:g} s"),
        ("the signed time of a delivery to a hook", f"{hooks.SECONDS} s from now"),
        (
            "deliveries to hooks that are remembered",
            f"{hooks.MOST:,} of the last {hooks.DELIVERY_SECONDS:,.0f} s",
        ),
        (
            "lines in the log about refused deliveries to hooks",
            f"one each {hooks.REFUSAL_SECONDS:g} s for each repository, and for all unknown ones",
        ),
        ("nodes in one resource of a request", f"{FILE.nodes:,}"),
        ("judging a request", f"{requests.REQUEST_SECONDS:g} s of processor time"),
        (
            "a request in the worker",
            f"{REQUEST.run:g} s, after at most {REQUEST.wait:g} s of waiting; {REQUEST.locked:g} s while its "
            "project is locked",
        ),
        (
            "a redaction, with its project locked",
            f"{(REDACTION.run or 0) / 60:g} minutes, after at most {REDACTION.wait:g} s of waiting",
        ),
        ("requests in progress with one key", f"{edge.MOST}"),
        (
            "failures to sign in",
            f"{rate_limits.PER_PAIR} of one name from one address, {rate_limits.PER_ADDRESS} from one address; "
            f"one is forgotten each {rate_limits.SECONDS:g} s",
        ),
        (
            "passwords that are compared at a time; attempts that wait or are compared",
            f"{auth_sign_in.AT_ONCE}, {auth_sign_in.WAITING}",
        ),
        ("signed-in browsers", f"{sessions.MOST:,}, {sessions.MOST_OF_ONE} of them of one person"),
        ("new and ended sessions that wait to be written", f"{operations.WAITING:,}"),
        (
            "a body of [`/v1/logs`](logs.md), as sent, and decoded",
            f"`delivery.maxRequestBytes`, {Delivery().max_request_bytes // MEBIBYTE} MiB each",
        ),
        ("log records in a request", f"`delivery.maxRequestRecords`, {Delivery().max_request_records:,}"),
        ("log records of one caller", f"`delivery.recordsPerSecond`, {Delivery().records_per_second:,} a second"),
        (
            "bytes of requests with log records in memory",
            f"`delivery.maxInFlightBytes`, {Delivery().max_in_flight_bytes // MEBIBYTE} MiB, "
            "half of it for one sender; a single request may be larger",
        ),
        ("callers whose log records are counted", f"{contract.MOST_SENDERS:,}, and those in debt"),
        ("trusted proxies in a row", f"{auth.HOPS}"),
        (
            "sign-ins that one address begins or ends; its forms with a password or a code",
            f"{sign_in.MOST_AT_ONCE}, and one more each second",
        ),
        ("addresses for which these are counted", f"{rate_limits.MOST:,}"),
        ("a form of a page", f"{forms.MAX_BYTES // 1024} KiB, {forms.MOST} fields"),
        ("cookies in a request; the value of one of ours", f"{auth.MOST}; {auth.LONGEST:,} bytes"),
        ("projects and keys on a page", f"{accounts.MOST_SHOWN} of each"),
        ("projects, people, keys, pending invitations", f"{changes.MOST:,} of each"),
        (
            "a password",
            f"at least {changes.SHORTEST_PASSWORD} characters, at most {changes.LONGEST_PASSWORD:,} characters",
        ),
        ("a display name, the name of a key", f"one line of {changes.LONGEST_TEXT} characters"),
        ("the expiry of a key", f"{changes.KEY_LASTS.days} days away"),
        ("personal keys", f"{changes.MOST_PERSONAL} of each"),
        (
            "the body of a request about access, a suspension, an approval or a plan",
            f"{api_requests.MAX_BYTES // 1024} KiB",
        ),
        (
            "plans that are made at a time; plans that wait for another one of their repository",
            f"one of each repository; {service.MOST_WAITING} in all",
        ),
        ("a plan", f"the repository's `timeout` and {service.GRACE:g} s"),
        (
            "plans that are kept",
            f"{kept_plans.MOST}, {kept_plans.MOST_BYTES // MEBIBYTE} MiB in all, until a restart",
        ),
        ("conflicting files in an answer", f"{kept_plans.FILES_TOLD}"),
        ("requests waiting on one connection", f"{connections.PIPELINED}"),
        ("open connections", f"{connections.CONNECTIONS}"),
        ("stored resources in the answer to an apply or delete", f"{requests.ANSWER_BYTES // MEBIBYTE} MiB"),
        ("a selector", f"{names.LONGEST_SELECTOR:,} characters, {names.MOST_REQUIREMENTS} requirements"),
        (
            "the worker",
            f"{sandbox.ADDRESS_SPACE_BYTES // 2**30} GiB of address space, {sandbox.OPEN_FILES} open files; "
            "it writes no file and starts no process",
        ),
        (
            "a commit in the worker",
            f"{process.SECONDS[CommitJob].run / 60:g} minutes; "
            f"{(process.SECONDS[CommitJob].locked or 0) / 60:g} while its "
            "project is locked",
        ),
        ("a request that waits for other changes of its project", f"{apply.LOCK_SECONDS:g} s"),
        ("a file of a commit that has a process of its own", f"{process.SECONDS[CommitJob].file:g} s"),
        (
            "files that crashed or hung the worker twice",
            f"the last {client.MOST_REMEMBERED:,}, until a restart",
        ),
        (
            "storing one change, with its wait for those of other projects",
            f"{apply.STORE_SECONDS / 60:g} minutes",
        ),
        (
            "the change of one commit or request, with the values that it masks",
            f"{process.CHANGE_BYTES // 2**30} GiB",
        ),
    ],
)
def test_a_limit_is_the_program_s(what: str, limit: str) -> None:
    assert ROWS[what]["limit"] == limit


def test_nodes_of_a_request_grow_with_its_body() -> None:
    told = re.findall(r"\d[\d,]*", ROWS["nodes in a request"]["limit"])
    each, least = (int(number.replace(",", "")) for number in told[:2])
    assert positions.limits_of_body(least * each * 4).nodes == least * 4
    assert positions.limits_of_body(1).nodes == least


def test_every_row_says_what_happens() -> None:
    assert [what for what, row in ROWS.items() if not row["then"]] == []
    tables = sum(len(pages.table(pages.section(PAGE, section))) for section in SECTIONS)
    assert tables == len(ROWS)
    assert re.findall(r"^### (.+)$", PAGE, re.MULTILINE) == SECTIONS
