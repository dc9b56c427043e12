//go:build tools

// Helm, which the tests lint and render the chart with, as a dependency that go.sum pins.
package main

import _ "helm.sh/helm/v3/cmd/helm"
