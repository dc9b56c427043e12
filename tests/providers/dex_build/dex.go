//go:build tools

// The identity provider that tests/providers/dex.py starts, as a dependency that go.sum pins.
package dex

import _ "github.com/dexidp/dex/cmd/dex"
