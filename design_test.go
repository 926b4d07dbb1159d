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
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every file, folder and identifier in backticks or links of docs/DESIGN.md exists, and every file that CONTRIBUTING.md
// lists.
func TestDesignNamesWhatExists(t *testing.T) {
	text, err := os.ReadFile("docs/DESIGN.md")
	require.NoError(t, err)
	prose := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(string(text), "")
	code := readDeclarations(t)

	links := regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`).FindAllStringSubmatch(prose, -1)
	require.NotEmpty(t, links)
	for _, link := range links {
		assert.FileExists(t, filepath.Join("docs", link[1]))
	}
	spans := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(prose, -1)
	require.NotEmpty(t, spans)
	for _, span := range spans {
		for _, name := range strings.Fields(span[1]) {
			assert.True(t, code.has(name), "%s does not exist", name)
		}
	}
	contributing, err := os.ReadFile("CONTRIBUTING.md")
	require.NoError(t, err)
	files := regexp.MustCompile("`([\\w/.]+\\.(?:go|md|yaml))`").FindAllStringSubmatch(string(contributing), -1)
	require.NotEmpty(t, files)
	for _, file := range files {
		assert.FileExists(t, file[1])
	}
	for _, none := range []string{"internal/rooms", "adjacent.go", "Keeper.writing", "kubeclient.Reader", "stream.Read"} {
		assert.False(t, code.has(none), none)
	}
}

// declarations holds the names of the module's Go code without its tests.
type declarations struct {
	files []string                       // base names
	names map[string]map[string][]string // by package, the members of each type and the names at the top level
}

// has reports whether a name is a file, a folder, a package, or what a package or type declares: Plan.Decode,
// redact.Object.JSON.
func (d *declarations) has(name string) bool {
	if _, err := os.Stat(name); err == nil || slices.Contains(d.files, name) {
		return true
	}
	first, rest, qualified := strings.Cut(name, ".")
	if declared, ok := d.names[first]; ok {
		return !qualified || declares(declared, rest)
	}
	for _, declared := range d.names {
		if declares(declared, name) {
			return true
		}
	}
	return false
}

func declares(declared map[string][]string, name string) bool {
	outer, member, qualified := strings.Cut(name, ".")
	members, ok := declared[outer]
	return ok && (!qualified || slices.Contains(members, member))
}

func readDeclarations(t *testing.T) *declarations {
	d := &declarations{names: map[string]map[string][]string{}}
	read := func(path string) {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		d.files = append(d.files, filepath.Base(path))
		declared := d.names[file.Name.Name]
		if declared == nil {
			declared = map[string][]string{}
			d.names[file.Name.Name] = declared
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok {
				addFunc(declared, f)
				continue
			}
			for _, spec := range decl.(*ast.GenDecl).Specs {
				addSpec(declared, spec)
			}
		}
	}
	require.NoError(t, filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != "." && path != "internal" && !strings.HasPrefix(path, "internal"+string(filepath.Separator)):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			read(path)
		}
		return nil
	}))
	return d
}

func addFunc(declared map[string][]string, f *ast.FuncDecl) {
	if f.Recv == nil {
		declared[f.Name.Name] = nil
		return
	}
	of := f.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	name := of.(*ast.Ident).Name
	declared[name] = append(declared[name], f.Name.Name)
}

func addSpec(declared map[string][]string, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			declared[name.Name] = nil
		}
	case *ast.TypeSpec:
		declared[s.Name.Name] = append(declared[s.Name.Name], fieldsOf(s.Type)...)
	}
}

func fieldsOf(e ast.Expr) (names []string) {
	var list *ast.FieldList
	switch e := e.(type) {
	case *ast.StructType:
		list = e.Fields
	case *ast.InterfaceType:
		list = e.Methods
	default:
		return nil
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return names
}
