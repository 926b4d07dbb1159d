package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/servertext"
)

// streams are what a command reads and writes: results go to out, everything else to err.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// Exit codes.
const (
	exitFine        = 0
	exitFindings    = 1
	exitUsage       = 2 // wrong arguments, configuration or input
	exitUnreachable = 3 // the cluster does not answer, or refuses the credentials
)

const exitCodes = `Exit codes:
  0  nothing was found wrong
  1  something was found wrong
  2  arguments, configuration or input cannot be used
  3  the cluster cannot be reached, or does not grant what the command needs`

// coded is an error with its exit code.
type coded struct {
	error
	code int
}

func (c coded) Unwrap() error { return c.error }

// unreachable marks an error of a request to the cluster. Its text may be the server's, and is made safe to print.
func unreachable(err error) error {
	return coded{errors.New(servertext.Clean(err.Error())), exitUnreachable}
}

// errFindings ends a command that has already printed what it found.
var errFindings = coded{errors.New("findings"), exitFindings}

// run runs the command of a command line, whose first argument is the program's name, and returns its exit code.
func run(ctx context.Context, args []string, s streams) int {
	root := newRoot(programName(args[0]), s)
	root.SetArgs(args[1:])
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitFine
	}
	if !errors.Is(err, errFindings) {
		fmt.Fprintln(s.err, "error:", err)
	}
	if c, ok := errors.AsType[coded](err); ok {
		return c.code
	}
	return exitUsage
}

// programName is how the user calls the program: as a plugin of kubectl, or by its own name.
// https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/
func programName(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".exe")
	if plugin, ok := strings.CutPrefix(name, "kubectl-"); ok {
		return "kubectl " + strings.ReplaceAll(plugin, "-", " ")
	}
	return "k8swatchlist"
}

func newRoot(name string, s streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "k8swatchlist",
		Short: "Prepare and check the k8s_watchlist receiver of an OpenTelemetry Collector",
		Long: "Prepare and check the k8s_watchlist receiver of an OpenTelemetry Collector.\n\n" + exitCodes +
			"\n\nResults are printed to standard output, and everything else to standard error.",
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: name},
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.AddCommand(newCheck(name, s), newRBAC(name, s), newTail(name, s), newVerify(name, s))
	return root
}

// examples returns the examples of a command's help, with the program's name for $.
func examples(name, text string) string {
	return strings.ReplaceAll(strings.TrimPrefix(text, "\n"), "$ ", name+" ")
}
