"""OpenTelemetry's own library as a client: log records as its SDK makes them, sent as its OTLP/HTTP exporter does.

    assert otlp_client.send(url, otlp_client.records("a line"), key=daemon.key)

It blocks, and tries 429 and 503 again by itself, no sooner than `Retry-After` says.
"""

from collections.abc import Mapping, Sequence

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, LogRecordExportResult, SimpleLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.util.types import AnyValue

SECONDS = 20.0  # for a whole export, with everything that is tried again
SERVICE = {"service.name": "checkout"}


def records(*bodies: AnyValue, resource: Mapping[str, str] = SERVICE) -> Sequence[ReadableLogRecord]:
    """Log records with these bodies, of one resource."""
    kept = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]
    provider = LoggerProvider(Resource(dict(resource)), shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(kept))
    logger = provider.get_logger("tests")
    for body in bodies:
        logger.emit(LogRecord(body=body, severity_number=SeverityNumber.INFO, severity_text="INFO"))
    return kept.get_finished_logs()


def send(
    url: str,
    batch: Sequence[ReadableLogRecord],
    *,
    key: str,
    project: str | None = None,
    compression: Compression = Compression.Gzip,
) -> bool:
    """Export to `<url>/v1/logs`; whether it was taken."""
    headers = {"Authorization": f"Bearer {key}", **({} if project is None else {"X-Service-Project": project})}
    exporter = OTLPLogExporter(f"{url}/v1/logs", headers=headers, compression=compression, timeout=SECONDS)
    try:
        return exporter.export(batch) is LogRecordExportResult.SUCCESS
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]
