package manifests

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Schema is a compiled JSON Schema. It is the only way into the validator: all callers share its bounds.
// It is safe for concurrent use.
type Schema struct {
	compiled *jsonschema.Schema
}

// schemaURL is the base of every document. Nothing is ever read from it.
const schemaURL = "schema://local/schema.json"

// CompileSchema compiles a schema of draft 2020-12 whose references all stay inside the document: no
// file is opened and no connection made, whatever it says (case 17). Formats are asserted. The error says
// what the author of the schema has to change.
func CompileSchema(raw []byte) (s *Schema, err error) {
	defer func() {
		if r := recover(); r != nil { // the validator panics on what it did not foresee: fail closed
			s, err = nil, fmt.Errorf("the schema cannot be compiled: %s", printable(shorten(fmt.Sprint(r))))
		}
	}()
	if len(raw) > MaxSchemaBytes {
		return nil, fmt.Errorf("the schema has %d bytes; at most %d are allowed", len(raw), MaxSchemaBytes)
	}
	bounds := Bounds{Depth: MaxSchemaDepth, Digits: InputBounds.Digits, Exponent: InputBounds.Exponent}
	if err := CheckJSON(raw, bounds); err != nil {
		return nil, err
	}
	if _, err := readDocument(decodeAny(raw)); err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.Draft = jsonschema.Draft2020
	c.AssertFormat = true
	c.AssertContent = false
	c.LoadURL = func(string) (io.ReadCloser, error) {
		return nil, errors.New("a reference leaves the document; only #/… is allowed")
	}
	if err := c.AddResource(schemaURL, bytes.NewReader(raw)); err != nil {
		return nil, compileError(err)
	}
	compiled, err := c.Compile(schemaURL)
	if err != nil {
		return nil, compileError(err)
	}
	return &Schema{compiled}, nil
}

// compileError puts the meta-schema's verdict in the words of SchemaError, and drops our made-up URL.
func compileError(err error) error {
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return pickCause(invalid)
	}
	text := printable(bound(stripURL(err.Error()), maxMessage))
	return errors.New(text)
}

// Validate judges one JSON text, and returns nil when it is valid. Numbers are judged exactly as they are
// written, within OutputBounds; a caller that has tighter bounds asks CheckJSON first. It never panics: a
// panic of the validator is a refusal.
func (s *Schema) Validate(raw []byte) (refusal *SchemaError) {
	defer func() {
		if r := recover(); r != nil {
			refusal = &SchemaError{Keyword: "validator", Message: "at the top level: the validator cannot judge this value"}
		}
	}()
	if err := CheckJSON(raw, OutputBounds); err != nil {
		return &SchemaError{err.Pointer, "json", bound(err.Error(), maxMessage)}
	}
	err := s.compiled.Validate(decodeAny(raw))
	if err == nil {
		return nil
	}
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		return pickCause(invalid)
	}
	return &SchemaError{Keyword: "validator", Message: bound("at the top level: "+printable(stripURL(err.Error())), maxMessage)}
}
