package k8swatchlistreceiver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
)

// schemaFile describes the configuration for editors, in the place where mdatagen would write it. It is made here rather than
// by mdatagen, because its section config: would be a second list of all keys, and makes a Config of its own.
const schemaFile = "config.schema.json"

// The schema is made from Config, its comments, its defaults and its validation. CONFIG_SCHEMA=write writes it.
func TestSchemaIsThatOfTheConfig(t *testing.T) {
	want := newSchemaWriter(t).file()
	if os.Getenv("CONFIG_SCHEMA") == "write" {
		require.NoError(t, os.WriteFile(schemaFile, want, 0o600))
	}
	got, err := os.ReadFile(schemaFile)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got), "run make generate")
}

// A schema is a node of a JSON schema.
type jsonSchema map[string]any

// property returns the schema of a key; nil if there is none. Keys of elements follow the key of their list.
func (s jsonSchema) property(key string) jsonSchema {
	for _, node := range s.forms() {
		if properties, ok := node["properties"].(map[string]any); ok {
			if p, ok := properties[key].(map[string]any); ok {
				return p
			}
		}
	}
	return nil
}

// forms returns the forms that a value may have.
func (s jsonSchema) forms() []jsonSchema {
	forms := []jsonSchema{s}
	several, _ := s["anyOf"].([]any)
	for _, form := range several {
		forms = append(forms, jsonSchema(form.(map[string]any)))
	}
	for _, form := range slices.Clone(forms) {
		if items, ok := form["items"].(map[string]any); ok {
			forms = append(forms, jsonSchema(items).forms()...)
		}
	}
	return forms
}

// leaves returns the schemas of all keys that hold no further keys: resources[].name.
func (s jsonSchema) leaves(at string) map[string]jsonSchema {
	found := make(map[string]jsonSchema)
	for _, form := range s.forms() {
		properties, _ := form["properties"].(map[string]any)
		for key, value := range properties {
			p := jsonSchema(value.(map[string]any))
			path := strings.TrimPrefix(at+"."+key, ".")
			if isList := slices.ContainsFunc(p.forms(), func(f jsonSchema) bool { return f["type"] == "array" }); isList && len(p.leaves("")) > 0 {
				path += "[]"
			}
			below := p.leaves(path)
			if len(below) == 0 {
				below = map[string]jsonSchema{path: p}
			}
			for leaf, of := range below {
				found[leaf] = of
			}
		}
	}
	return found
}

func readSchema(t *testing.T) jsonSchema {
	t.Helper()
	text, err := os.ReadFile(schemaFile)
	require.NoError(t, err)
	var s jsonSchema
	require.NoError(t, json.Unmarshal(text, &s))
	return s
}

// Every key of the schema is one of the configuration, with that default: as the Collector loads it.
func TestSchemaHasNothingElse(t *testing.T) {
	all := make(map[string]any)
	n := 0
	for path, leaf := range readSchema(t).leaves("") {
		if strings.Contains(path, "[]") { // has no default
			assert.NotContains(t, leaf, "default", path)
			continue
		}
		if value, ok := leaf["default"]; ok {
			put(all, strings.Split(path, "."), value)
			n++
		}
	}
	require.Greater(t, n, 25)
	conf := confmap.NewFromStringMap(all)
	empty := &Config{} // so that every default has to come from the schema
	require.NoError(t, conf.Unmarshal(empty))
	assert.Equal(t, createDefaultConfig(), empty)
}

func put(into map[string]any, path []string, value any) {
	if len(path) > 1 {
		below, ok := into[path[0]].(map[string]any)
		if !ok {
			below = make(map[string]any)
			into[path[0]] = below
		}
		put(below, path[1:], value)
		return
	}
	into[path[0]] = value
}

// Every key of a configuration is in the schema: of the default one, as confmap prints it, and of the one of the tests that
// has every key.
func TestSchemaHasEveryKey(t *testing.T) {
	every, err := loadConfig(t, "testdata/config/good/every_key.yaml")
	require.NoError(t, err)
	s := readSchema(t)
	for _, cfg := range []any{createDefaultConfig(), every} {
		conf := confmap.New()
		require.NoError(t, conf.Marshal(cfg))
		require.Greater(t, len(conf.AllKeys()), 25)
		assertKeys(t, s, conf.ToStringMap(), "")
	}
}

func assertKeys(t *testing.T, s jsonSchema, value any, at string) {
	t.Helper()
	switch value := value.(type) {
	case map[string]any:
		if s["additionalProperties"] != false && len(s.leaves("")) == 0 {
			return // any keys
		}
		for key, below := range value {
			p := s.property(key)
			if assert.NotNil(t, p, "%s.%s is not in the schema", at, key) {
				assertKeys(t, p, below, at+"."+key)
			}
		}
	case []any:
		for _, element := range value {
			assertKeys(t, s, element, at)
		}
	}
}

// The table in the README has the keys of the schema, and its defaults.
func TestTableOfTheReadmeIsThatOfTheSchema(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), "\n## Configuration\n")
	require.True(t, ok)
	leaves := readSchema(t).leaves("")
	described := make(map[string]bool)
	code := regexp.MustCompile("`([^`]*)`")
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.HasPrefix(line, "| `") {
			if rows > 0 {
				break
			}
			continue
		}
		rows++
		keys, defaults := code.FindAllStringSubmatch(cells[1], -1), code.FindAllStringSubmatch(cells[2], -1)
		prefix := ""
		for i, match := range keys {
			key := match[1]
			if i == 0 && strings.Contains(key, "[].") {
				prefix = key[:strings.LastIndex(key, ".")+1]
			} else if i > 0 && leaves[key] == nil {
				key = prefix + key
			}
			leaf, isLeaf := leaves[key]
			if !isLeaf { // a map whose keys the row describes
				below := 0
				for path := range leaves {
					if last := path[strings.LastIndex(path, ".")+1:]; strings.HasPrefix(path, key+".") || strings.HasPrefix(path, key+"[].") {
						below++
						if regexp.MustCompile(`\b` + last + `\b`).MatchString(strings.Join(cells[3:], "|")) {
							described[path] = true
						}
					}
				}
				assert.Positive(t, below, "the table of README.md has %s, which is no key", key)
				continue
			}
			described[key] = true
			if value, ok := leaf["default"]; ok && len(defaults) == len(keys) {
				want := strings.Trim(fmt.Sprint(value), `"`)
				if number, isNumber := value.(float64); isNumber {
					want = fmt.Sprintf("%.0f", number)
				}
				assert.Equal(t, want, defaults[i][1], "the default of %s in the table of README.md", key)
			}
		}
	}
	require.Greater(t, rows, 40)
	for path := range leaves {
		assert.True(t, described[path], "the table of README.md does not have %s", path)
	}
}

// schemaWriter makes the schema.
type schemaWriter struct {
	t        *testing.T
	comments map[string]string // by type and field: Config.AuthType
	config   *Config           // with an element in each list
}

func newSchemaWriter(t *testing.T) *schemaWriter {
	t.Helper()
	w := &schemaWriter{t: t, comments: make(map[string]string), config: createDefaultConfig().(*Config)}
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file.Name(), nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			of, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			fields, ok := of.Type.(*ast.StructType)
			if !ok {
				return true
			}
			comment := "" // one may be of several fields
			for _, field := range fields.Fields.List {
				if field.Doc != nil {
					comment = strings.Join(strings.Fields(field.Doc.Text()), " ")
				}
				for _, name := range field.Names {
					w.comments[of.Name.Name+"."+name.Name] = comment
				}
			}
			return true
		})
	}
	return w
}

func (w *schemaWriter) file() []byte {
	root := w.of(reflect.ValueOf(w.config).Elem(), nil)
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "k8s_watchlist receiver"
	root["$defs"] = map[string]any{
		"variable": jsonSchema{"type": "string", "pattern": `\$\{[^}]+\}`, "description": "A value that the Collector inserts, such as ${env:NAME}"},
		"duration": jsonSchema{"type": "string", "pattern": `^(0|([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+)$`, "description": "A number with a unit, such as 30s or 1h30m"},
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	require.NoError(w.t, encoder.Encode(root))
	return b.Bytes()
}

var (
	variable = map[string]any{"$ref": "#/$defs/variable"}
	text     = jsonSchema{"type": "string"}
)

// anyOf returns the schema of a value that may have several forms, or be inserted.
func anyOf(forms ...any) jsonSchema { return jsonSchema{"anyOf": append(forms, variable)} }

// of returns the schema of a value. set gives the value another text, for a look at what its validation says; it is nil for
// what is no text.
func (w *schemaWriter) of(v reflect.Value, set func(string)) jsonSchema {
	switch v.Interface().(type) {
	case time.Duration:
		s := anyOf(jsonSchema{"$ref": "#/$defs/duration"}, jsonSchema{"const": 0})
		s["default"] = shortDuration(v.Interface().(time.Duration))
		return s
	case *component.ID:
		return jsonSchema{"type": "string"}
	case map[string]any:
		return jsonSchema{"type": "object", "additionalProperties": jsonSchema{"type": []string{"string", "number", "boolean"}}}
	}
	switch v.Kind() {
	case reflect.Interface: // shard.index
		return anyOf(jsonSchema{"type": "integer", "minimum": 0}, jsonSchema{"enum": []string{shardIndexAuto}})
	case reflect.Struct:
		return w.structure(v)
	case reflect.Slice:
		return w.list(v, set)
	case reflect.String:
		s := jsonSchema{"type": "string"}
		if values := w.values(v, set); values != nil {
			s = anyOf(jsonSchema{"enum": values})
		}
		if v.String() != "" {
			s["default"] = v.String()
		}
		return s
	case reflect.Bool:
		s := anyOf(jsonSchema{"type": "boolean"})
		s["default"] = v.Bool()
		return s
	case reflect.Int:
		s := anyOf(jsonSchema{"type": "integer"})
		s["default"] = v.Int()
		return s
	case reflect.Float32:
		s := anyOf(jsonSchema{"type": "number"})
		s["default"] = v.Float()
		return s
	}
	w.t.Fatalf("no schema for %s", v.Type())
	return nil
}

func (w *schemaWriter) structure(v reflect.Value) jsonSchema {
	properties := make(map[string]any)
	var required []string
	for i := range v.NumField() {
		field := v.Type().Field(i)
		key := field.Tag.Get("mapstructure")
		if key == "" {
			continue
		}
		comment := w.comments[v.Type().Name()+"."+field.Name]
		require.NotEmpty(w.t, comment, "%s.%s has no comment", v.Type().Name(), field.Name)
		value := v.Field(i)
		p := w.of(value, func(s string) { value.SetString(s) })
		p["description"] = w.inKeys(v.Type(), field, comment)
		if strings.HasSuffix(comment, "Required.") || strings.HasSuffix(comment, "At least one.") {
			required = append(required, key)
			if forms, ok := p["anyOf"].([]any); ok && value.Kind() == reflect.Slice {
				forms[0].(jsonSchema)["minItems"] = 1
			} else if value.Kind() == reflect.Slice {
				p["minItems"] = 1
			}
		}
		properties[key] = p
	}
	s := jsonSchema{"type": "object", "additionalProperties": false, "properties": properties}
	if required != nil {
		s["required"] = required
	}
	switch v.Interface().(type) {
	case ResourceConfig: // its short form, a name
		return jsonSchema{"anyOf": []any{text, s}}
	case EntitiesConfig: // its short form, whether they are enabled
		return jsonSchema{"anyOf": []any{jsonSchema{"type": "boolean"}, s, variable}}
	}
	return s
}

// inKeys returns the comment of a field with keys instead of the names of fields.
func (w *schemaWriter) inKeys(of reflect.Type, field reflect.StructField, comment string) string {
	if rest, ok := strings.CutPrefix(comment, field.Name+" "); ok {
		comment = field.Tag.Get("mapstructure") + " " + rest
	}
	for i := range of.NumField() { // names that are no words
		if other := of.Field(i); strings.ContainsFunc(other.Name[1:], unicode.IsUpper) {
			comment = regexp.MustCompile(`\b`+other.Name+`\b`).ReplaceAllString(comment, other.Tag.Get("mapstructure"))
		}
	}
	return comment
}

// list returns the schema of a list, by an element that it does not have in the default configuration.
func (w *schemaWriter) list(v reflect.Value, _ func(string)) jsonSchema {
	v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	defer v.SetZero()
	element := v.Index(0)
	items := w.of(element, func(s string) { element.SetString(s) })
	removeDefaults(items)
	list := jsonSchema{"type": "array", "items": items}
	if element.Kind() == reflect.String { // a text is a list of one
		return jsonSchema{"anyOf": []any{list, items}}
	}
	return list
}

func removeDefaults(s any) {
	switch s := s.(type) {
	case jsonSchema:
		delete(s, "default")
		for _, below := range s {
			removeDefaults(below)
		}
	case map[string]any:
		for _, below := range s {
			removeDefaults(below)
		}
	case []any:
		for _, below := range s {
			removeDefaults(below)
		}
	}
}

var oneOf = regexp.MustCompile(`"no such value" is not one of ([\w, ]+)`)

// values returns the only values that a text may have, according to the error about another.
func (w *schemaWriter) values(v reflect.Value, set func(string)) []string {
	before := v.String()
	set("no such value")
	err := w.config.Validate()
	set(before)
	if err == nil {
		return nil
	}
	match := oneOf.FindStringSubmatch(err.Error())
	if match == nil {
		return nil
	}
	return strings.Split(match[1], ", ")
}

// shortDuration returns a duration as people write it: 6h, not 6h0m0s.
func shortDuration(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	s := strings.TrimSuffix(d.String(), "0s")
	if s == "" || strings.HasSuffix(s, "m") || strings.HasSuffix(s, "h") {
		if rest, ok := strings.CutSuffix(s, "h0m"); ok {
			return rest + "h"
		}
		return s
	}
	return d.String()
}
