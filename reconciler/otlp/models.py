"""What an export request of log records is to the rest of the service: counted pieces of the bytes that came.

Belongs here: the values. Does not: reading them (`wire`, `json_requests`), what a record says (`bodies`).
"""

from collections.abc import Mapping
from typing import NamedTuple

MOST_RECORDS = 10_000  # of one request
MOST_BYTES = 8 << 20  # of one request, decoded


class RecordGroup(NamedTuple):
    """The records of one resource.

    `data` is the ResourceLogs with the tag and length that it has in a request, so that any groups one after another
    are an ExportLogsServiceRequest in protobuf. `attributes` are the resource's, those that are scalars, as text: true
    and false, decimal integers.
    """

    data: bytes | memoryview
    records: int
    attributes: Mapping[str, str]


class Logs(NamedTuple):
    """One export request that was found to be sound. `size` is the bytes of all groups."""

    groups: tuple[RecordGroup, ...]
    records: int
    size: int
