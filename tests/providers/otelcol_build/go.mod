module otelcol

go 1.25.0

require (
	github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage v0.160.0
	github.com/open-telemetry/opentelemetry-collector-contrib/processor/attributesprocessor v0.160.0
	github.com/open-telemetry/opentelemetry-collector-contrib/processor/filterprocessor v0.160.0
	github.com/open-telemetry/opentelemetry-collector-contrib/processor/redactionprocessor v0.160.0
	github.com/open-telemetry/opentelemetry-collector-contrib/processor/resourcedetectionprocessor v0.160.0
	github.com/open-telemetry/opentelemetry-collector-contrib/processor/resourceprocessor v0.160.0
	github.com/open-telemetry/opentelemetry-collector-contrib/processor/transformprocessor v0.160.0
	github.com/open-telemetry/opentelemetry-collector-contrib/receiver/filelogreceiver v0.160.0
	github.com/open-telemetry/opentelemetry-collector-contrib/receiver/hostmetricsreceiver v0.160.0
	github.com/open-telemetry/opentelemetry-collector-contrib/receiver/journaldreceiver v0.160.0
	github.com/open-telemetry/opentelemetry-collector-contrib/receiver/prometheusreceiver v0.160.0
	github.com/open-telemetry/opentelemetry-collector-contrib/receiver/syslogreceiver v0.160.0
	go.opentelemetry.io/collector/exporter/debugexporter v0.160.0
	go.opentelemetry.io/collector/exporter/nopexporter v0.160.0
	go.opentelemetry.io/collector/exporter/otlpexporter v0.160.0
	go.opentelemetry.io/collector/exporter/otlphttpexporter v0.160.0
	go.opentelemetry.io/collector/processor/batchprocessor v0.160.0
	go.opentelemetry.io/collector/receiver/nopreceiver v0.156.0
	go.opentelemetry.io/collector/receiver/otlpreceiver v0.160.0
)
