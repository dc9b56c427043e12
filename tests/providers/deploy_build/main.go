// Checks what is deployed, as those programs read it that deploy it.
//
//	deploy manifests < FILE     manifests of Kubernetes, one after the other: unknown fields and wrong types fail
//	deploy compose FILE         a compose file, with all that it names: prints it as JSON
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

)

func main() {
	err := errors.New("usage: deploy manifests | deploy compose FILE")
	if len(os.Args) == 2 && os.Args[1] == "manifests" {
		err = manifests(os.Stdin)
	} else if len(os.Args) == 3 && os.Args[1] == "compose" {
		err = compose(os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func manifests(from io.Reader) error {
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	documents := yaml.NewYAMLReader(bufio.NewReader(from))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, kind, err := decoder.Decode(document, nil, nil); err != nil {
			return fmt.Errorf("%v: %w", kind, err)
		}
	}
}

func compose(path string) error {
	options, err := cli.NewProjectOptions([]string{path}, cli.WithOsEnv, cli.WithDotEnv)
	if err != nil {
		return err
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(project)
}
