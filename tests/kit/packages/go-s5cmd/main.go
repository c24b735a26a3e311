// s5cmd, built from its own packages: the program that its users install.
package main

import (
	"context"
	"os"

	"github.com/peak/s5cmd/v2/command"
)

func main() {
	if err := command.Main(context.Background(), os.Args); err != nil {
		os.Exit(1)
	}
}
