package manifests

import (
	"maps"
	"slices"
	"strconv"
)

// holds says what the value of a schema keyword is. Only where a keyword holds schemas may they be looked
// for: a property may be named "$ref", and a default may look like a schema.
type holds int

const (
	plainValue     holds = iota // data: type, enum, default, maxLength …
	oneSchema                   // not, items …
	schemasByName               // properties, $defs …
	schemasInOrder              // allOf, prefixItems …
)

// keywords of draft 2020-12 (json-schema.org/draft/2020-12/schema), and what they hold.
var keywords = map[string]holds{
	"$schema": plainValue, "$id": plainValue, "$anchor": plainValue, "$ref": plainValue, "$comment": plainValue,
	"$defs": schemasByName,

	"allOf": schemasInOrder, "anyOf": schemasInOrder, "oneOf": schemasInOrder, "not": oneSchema,
	"if": oneSchema, "then": oneSchema, "else": oneSchema, "dependentSchemas": schemasByName,
	"properties": schemasByName, "patternProperties": schemasByName, "additionalProperties": oneSchema,
	"propertyNames": oneSchema, "unevaluatedProperties": oneSchema,
	"prefixItems": schemasInOrder, "items": oneSchema, "contains": oneSchema, "unevaluatedItems": oneSchema,

	"type": plainValue, "const": plainValue, "enum": plainValue,
	"multipleOf": plainValue, "maximum": plainValue, "exclusiveMaximum": plainValue,
	"minimum": plainValue, "exclusiveMinimum": plainValue,
	"maxLength": plainValue, "minLength": plainValue, "pattern": plainValue, "format": plainValue,
	"maxItems": plainValue, "minItems": plainValue, "uniqueItems": plainValue,
	"maxContains": plainValue, "minContains": plainValue,
	"maxProperties": plainValue, "minProperties": plainValue, "required": plainValue, "dependentRequired": plainValue,

	"title": plainValue, "description": plainValue, "default": plainValue, "examples": plainValue,
	"deprecated": plainValue, "readOnly": plainValue, "writeOnly": plainValue,
	"contentEncoding": plainValue, "contentMediaType": plainValue, "contentSchema": oneSchema,
}

// legacyKeywords are no part of 2020-12, but the validator applies them all the same: they count for the
// size of a schema, and the lint refuses them by name.
var legacyKeywords = map[string]holds{
	"definitions": schemasByName, "dependencies": schemasByName, "additionalItems": oneSchema,
}

// forbiddenKeywords change which document or which dialect a reference speaks of, or are no standard at
// all. A schema that needs them is refused, not half understood.
var forbiddenKeywords = map[string]string{
	"$dynamicRef":      "use $ref to a place in $defs",
	"$dynamicAnchor":   "use $ref to a place in $defs",
	"$recursiveRef":    "use $ref to a place in $defs",
	"$recursiveAnchor": "use $ref to a place in $defs",
	"$vocabulary":      "remove it: only the standard vocabulary is read",
	"regexProperties":  "use propertyNames with format regex",
}

// formats that the validator asserts. Any other would be a note that nobody checks.
var formats = []string{
	"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "iri", "iri-reference",
	"json-pointer", "regex", "relative-json-pointer", "time", "uri", "uri-reference", "uri-template", "uuid",
}

// subschema is a schema inside another one.
type subschema struct {
	pointer string // from the root of the document
	keyword string // the keyword that holds it
	value   any    // map[string]any or bool; anything else is not a schema
}

// subschemas lists the schemas directly below one, in the order of their pointers.
func subschemas(node map[string]any, pointer string) []subschema {
	var list []subschema
	for _, keyword := range slices.Sorted(maps.Keys(node)) {
		kind, known := keywords[keyword]
		if !known {
			kind = legacyKeywords[keyword]
		}
		place, value := child(pointer, keyword), node[keyword]
		switch kind {
		case plainValue:
		case oneSchema:
			list = append(list, subschema{place, keyword, value})
		case schemasByName:
			byName, _ := value.(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(byName)) {
				list = append(list, subschema{child(place, name), keyword, byName[name]})
			}
		case schemasInOrder:
			inOrder, _ := value.([]any)
			for i, v := range inOrder {
				list = append(list, subschema{place + "/" + strconv.Itoa(i), keyword, v})
			}
		}
	}
	return list
}
