// A Collector with the components of the built-in types: it validates and runs what the service renders.
package main

import (
	"os"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/attributesprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/filterprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/redactionprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/resourcedetectionprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/resourceprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/processor/transformprocessor"
	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/filelogreceiver"
	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/hostmetricsreceiver"
	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/journaldreceiver"
	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/prometheusreceiver"
	"github.com/open-telemetry/opentelemetry-collector-contrib/receiver/syslogreceiver"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/envprovider"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/confmap/provider/httpprovider"
	"go.opentelemetry.io/collector/confmap/provider/httpsprovider"
	"go.opentelemetry.io/collector/confmap/provider/yamlprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/debugexporter"
	"go.opentelemetry.io/collector/exporter/nopexporter"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/batchprocessor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/nopreceiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

// Only two factories of one type could fail here, and none are.
func byType[F component.Factory](factories ...F) map[component.Type]F {
	found, err := otelcol.MakeFactoryMap(factories...)
	if err != nil {
		panic(err)
	}
	return found
}

func components() (otelcol.Factories, error) {
	return otelcol.Factories{
		Telemetry: otelconftelemetry.NewFactory(),
		Extensions: byType[extension.Factory](
			filestorage.NewFactory(),
		),
		Receivers: byType[receiver.Factory](
			filelogreceiver.NewFactory(),
			hostmetricsreceiver.NewFactory(),
			journaldreceiver.NewFactory(),
			nopreceiver.NewFactory(),
			otlpreceiver.NewFactory(),
			prometheusreceiver.NewFactory(),
			syslogreceiver.NewFactory(),
		),
		Processors: byType[processor.Factory](
			attributesprocessor.NewFactory(),
			batchprocessor.NewFactory(),
			filterprocessor.NewFactory(),
			redactionprocessor.NewFactory(),
			resourcedetectionprocessor.NewFactory(),
			resourceprocessor.NewFactory(),
			transformprocessor.NewFactory(),
		),
		Exporters: byType[exporter.Factory](
			debugexporter.NewFactory(),
			nopexporter.NewFactory(),
			otlpexporter.NewFactory(),
			otlphttpexporter.NewFactory(),
		),
	}, nil
}

func main() {
	settings := otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "otelcol", Description: "A Collector for tests", Version: "0.160.0"},
		Factories: components,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{
			ResolverSettings: confmap.ResolverSettings{
				ProviderFactories: []confmap.ProviderFactory{
					envprovider.NewFactory(),
					fileprovider.NewFactory(),
					httpprovider.NewFactory(),
					httpsprovider.NewFactory(),
					yamlprovider.NewFactory(),
				},
				DefaultScheme: "env",
			},
		},
	}
	if err := otelcol.NewCommand(settings).Execute(); err != nil {
		os.Exit(1) // the command wrote why
	}
}
