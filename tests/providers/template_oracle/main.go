// Evaluates templates as Go does: one JSON object a line in, {"text": ..., "values": {...}}, and one out, {"output": ...}
// or {"error": ...}. The helpers of types give fixed texts here, as in the test that compares.
package main

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

type question struct {
	Text   string         `json:"text"`
	Values map[string]any `json:"values"`
}

func functions() template.FuncMap {
	known := sprig.TxtFuncMap()
	chosen := template.FuncMap{}
	for _, name := range []string{"has", "quote", "nindent", "replace", "int64"} {
		chosen[name] = known[name]
	}
	for _, name := range []string{"bpRenderOtelRetryOnFailureConfig", "bpRenderOtelSendingQueueConfig", "bpRenderStandardParsingOperator"} {
		chosen[name] = func(...any) string { return "helper: true" }
	}
	chosen["bpDisabledCategoryMetrics"] = func(...any) []string { return []string{"one", "two"} }
	return chosen
}

// Whole numbers are integers, as in YAML and in Python; JSON alone would make floats of them.
func settled(value any) any {
	switch one := value.(type) {
	case json.Number:
		if whole, err := one.Int64(); err == nil {
			return int(whole)
		}
		float, _ := one.Float64()
		return float
	case []any:
		for index := range one {
			one[index] = settled(one[index])
		}
	case map[string]any:
		for key := range one {
			one[key] = settled(one[key])
		}
	}
	return value
}

func answer(asked question) map[string]string {
	parsed, err := template.New("t").Option("missingkey=error").Funcs(functions()).Parse(asked.Text)
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	var written strings.Builder
	if err := parsed.Execute(&written, asked.Values); err != nil {
		return map[string]string{"error": err.Error()}
	}
	return map[string]string{"output": written.String()}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		decoder := json.NewDecoder(strings.NewReader(lines.Text()))
		decoder.UseNumber()
		var asked question
		if err := decoder.Decode(&asked); err != nil {
			panic(err)
		}
		settled(asked.Values)
		if err := out.Encode(answer(asked)); err != nil {
			panic(err)
		}
	}
}
