package manifests

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// fileBounds hold for files that people or our own tools write: a lock file holds schemas and examples,
// so it may be deeper than each of them.
var fileBounds = Bounds{Depth: 128, Digits: OutputBounds.Digits, Exponent: OutputBounds.Exponent}

// DecodeStrict decodes exactly one JSON value into v, a pointer to a struct, without the guesses of
// encoding/json: an unknown key, a key in another letter case (encoding/json folds case, and U+017F and
// U+212A to s and k: case 02), a duplicate key and bytes after the value are refused at every level, and
// so is null, except for a pointer, json.RawMessage or any. Those three and types with their own
// UnmarshalJSON are not looked into beyond CheckJSON.
func DecodeStrict(raw []byte, v any) *JSONError {
	if err := CheckJSON(raw, fileBounds); err != nil {
		return err
	}
	if err := checkShape(decodeAny(raw), reflect.TypeOf(v).Elem(), ""); err != nil {
		return err
	}
	return fieldError(json.Unmarshal(raw, v))
}

// decodeAny decodes a text that CheckJSON has accepted, keeping numbers as they are written.
func decodeAny(raw []byte) any {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		panic("BUG: CheckJSON accepts what encoding/json refuses: " + err.Error())
	}
	return v
}

func fieldError(err error) *JSONError {
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		pointer := ""
		for _, key := range strings.FieldsFunc(wrong.Field, func(r rune) bool { return r == '.' }) {
			pointer = child(pointer, key)
		}
		return &JSONError{JSONField, printable(pointer), fmt.Sprintf("expected %s, found %s", describeType(wrong.Type), wrong.Value)}
	}
	return &JSONError{JSONField, "", printable(err.Error())}
}

var (
	rawType         = reflect.TypeFor[json.RawMessage]()
	unmarshalerType = reflect.TypeFor[json.Unmarshaler]()
)

func opaque(t reflect.Type) bool {
	return t == rawType || t.Kind() == reflect.Interface || reflect.PointerTo(t).Implements(unmarshalerType)
}

// checkShape compares a decoded value with the type that is to hold it. Kinds that encoding/json judges
// well itself (a string for a number, 1.5 for an int) are left to it.
func checkShape(value any, t reflect.Type, pointer string) *JSONError {
	if opaque(t) {
		return nil
	}
	if t.Kind() == reflect.Pointer {
		if value == nil {
			return nil
		}
		return checkShape(value, t.Elem(), pointer)
	}
	if value == nil {
		return &JSONError{JSONField, printable(pointer), "null is not allowed here; expected " + describeType(t)}
	}
	switch v := value.(type) {
	case map[string]any:
		return checkMembers(v, t, pointer)
	case []any:
		if t.Kind() != reflect.Slice && t.Kind() != reflect.Array {
			return &JSONError{JSONField, printable(pointer), "expected " + describeType(t) + ", found an array"}
		}
		for i, item := range v {
			if err := checkShape(item, t.Elem(), element(pointer, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkMembers(object map[string]any, t reflect.Type, pointer string) *JSONError {
	var fields map[string]reflect.Type
	switch t.Kind() {
	case reflect.Struct:
		fields = fieldTypes(t)
	case reflect.Map:
	default:
		return &JSONError{JSONField, printable(pointer), "expected " + describeType(t) + ", found an object"}
	}
	for _, key := range slices.Sorted(maps.Keys(object)) { // sorted: the same text gives the same message
		memberType, known := fields[key]
		if fields == nil {
			memberType, known = t.Elem(), true
		}
		if !known {
			return &JSONError{JSONField, printable(child(pointer, key)), unknownName("key", key, slices.Sorted(maps.Keys(fields)))}
		}
		if err := checkShape(object[key], memberType, child(pointer, key)); err != nil {
			return err
		}
	}
	return nil
}

// fieldTypes lists the JSON names of a struct. Embedded structs are not used in our formats and are not
// supported: they would need encoding/json's rules of precedence.
func fieldTypes(t reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for f := range t.Fields() {
		if !f.IsExported() {
			continue
		}
		if f.Anonymous {
			panic("BUG: DecodeStrict into " + t.String() + ": embedded fields are not supported")
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		fields[name] = f.Type
	}
	return fields
}

func describeType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return describeType(t.Elem())
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	}
	return "a " + t.Kind().String()
}
