package k8swatchlistreceiver

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// docs/troubleshooting.md explains every message that is logged as a warning or an error, and every state.
func TestEveryMessageIsExplained(t *testing.T) {
	text, err := os.ReadFile("docs/troubleshooting.md")
	require.NoError(t, err)
	messages := loggedMessages(t)
	require.Greater(t, len(messages), 20)
	var explained []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^`]+`(?:<br>`[^`]+`)*) \\| [^|]+ \\| [^|]+ \\|$").FindAllSubmatch(text, -1) {
		for _, message := range regexp.MustCompile("`([^`]+)`").FindAllSubmatch(row[1], -1) {
			explained = append(explained, string(message[1]))
		}
	}
	slices.Sort(explained)
	assert.Equal(t, messages, explained)
}

// loggedMessages returns the texts in the code of the receiver that are logged as a warning or an error, sorted. They are
// the first literal argument of Warn and Error, and of the functions that log a message they are given, or what the
// function message returns.
func loggedMessages(t *testing.T) []string {
	t.Helper()
	found := map[string]bool{}
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "bench", "cmd", "test", "tools", "testkit"}, entry.Name()):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(filepath.Base(path), "generated_"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.CallExpr:
				if logs(node) {
					if text := firstLiteral(node.Args); text != "" {
						found[text] = true
					}
				}
			case *ast.FuncDecl:
				if node.Name.Name == "message" {
					ast.Inspect(node, func(node ast.Node) bool {
						if r, ok := node.(*ast.ReturnStmt); ok {
							if text := firstLiteral(r.Results); text != "" {
								found[text] = true
							}
						}
						return true
					})
				}
			}
			return true
		})
		return nil
	}))
	all := make([]string, 0, len(found))
	for text := range found {
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// logs reports whether a call logs a warning or an error.
func logs(call *ast.CallExpr) bool {
	function, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch function.Sel.Name {
	case "Warn", "Error", "showLocked":
		return true
	case "report": // of the catalog
		return len(call.Args) == 3
	case "log", "Log":
		if level, ok := call.Args[0].(*ast.SelectorExpr); ok {
			return level.Sel.Name == "WarnLevel" || level.Sel.Name == "ErrorLevel"
		}
	}
	return false
}

func firstLiteral(of []ast.Expr) string {
	for _, e := range of {
		if literal, ok := e.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				return text
			}
		}
	}
	return ""
}
