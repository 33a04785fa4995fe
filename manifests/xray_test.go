package manifests_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/manifests"
)

// goodXray is the base of the tests below; each line of it can be replaced.
const goodXray = `{
  "class": "safe",
  "category": "data",
  "network": "none",
  "scripts": {
    "stats.py": {
      "description": "Summary of a CSV text.",
      "input": {
        "type": "object",
        "properties": {
          "csv": {"type": "string", "maxLength": 20}
        },
        "required": ["csv"],
        "additionalProperties": false
      },
      "output": {"type": "object", "properties": {"rows": {"type": "integer"}}},
      "limits": {"timeout_seconds": 10, "memory_mb": 64},
      "warm": true,
      "examples": [
        {"input": {"csv": "a\n1\n2"}, "output": {"rows": 2}}
      ]
    }
  }
}
`

func TestParseXray(t *testing.T) {
	for name, raw := range map[string]string{
		"plain": goodXray, "mark": "\ufeff" + goodXray, "CRLF": strings.ReplaceAll(goodXray, "\n", "\r\n"),
	} {
		x, findings := manifests.ParseXray("csv-stats", []byte(raw))
		if len(findings) > 0 {
			t.Fatalf("%s: %v", name, findings)
		}
		s := x.Scripts["stats.py"]
		want := manifests.DefaultLimits()
		want.TimeoutSeconds, want.MemoryMB = 10, 64
		if diff := cmp.Diff(want, s.Limits); diff != "" {
			t.Errorf("%s: limits (-want +got):\n%s", name, diff)
		}
		if x.Class != manifests.Safe || x.Category != "data" || x.Network != manifests.NetworkNone || s.Interpreter != "python3" ||
			s.Stdout != manifests.StdoutJSON || !s.Warm || len(s.Examples) != 1 || s.InputSchema() == nil || s.OutputSchema() == nil {
			t.Errorf("%s: %+v %+v", name, x, s)
		}
		if got := string(s.Examples[0].Input); got != `{"csv":"a\n1\n2"}` {
			t.Errorf("%s: example input %s", name, got)
		}
	}
}

func TestDefaultLimits(t *testing.T) {
	want := manifests.Limits{TimeoutSeconds: 30, CPUSeconds: 30, MemoryMB: 128, FileMB: 16, OpenFiles: 64, Processes: 1}
	if diff := cmp.Diff(want, manifests.DefaultLimits()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestXrayFindings: each row changes one part of the good file.
func TestXrayFindings(t *testing.T) {
	tests := []struct {
		name, old, new string
		severity       manifests.Severity
		message        string
		line           int
	}{
		{"class missing", "  \"class\": \"safe\",\n", "", manifests.Warning, "no class; safe is assumed", 1},
		{"class unknown", `"class": "safe"`, `"class": "read"`, manifests.Error, `the class "read" is not known`, 2},
		{"class in capitals", `"class": "safe"`, `"class": "Safe"`, manifests.Error, `the class "Safe" is not known`, 2},
		{"class dangerous", `"class": "safe"`, `"class": "dangerous"`, "", "", 0},
		{"network unknown", `"network": "none"`, `"network": "host"`, manifests.Error, `the network "host" is not known`, 4},
		{"network missing", "  \"network\": \"none\",\n", "", "", "", 0},
		{"key in another case", `"category"`, `"Category"`, manifests.Error, `did you mean "category"?`, 3},
		{"unknown key of a script", `"warm": true`, `"warn": true`, manifests.Error, `unknown key "warn"`, 18},
		{"duplicate key", `"category": "data"`, `"class": "data"`, manifests.Error, "there twice", 3},
		{"no scripts", goodXray, `{"class":"safe","scripts":{}}`, manifests.Error, "no scripts", 1},
		{"null script", goodXray, "{\"class\":\"safe\",\"scripts\":{\n\"a.py\":null}}", manifests.Error, "null is not a script", 2},
		{"script name", `"stats.py": {`, `"st ats.py": {`, manifests.Error, "the script name", 6},
		{"script above", `"stats.py": {`, `"../stats.py": {`, manifests.Error, "clean relative path", 6},
		{"script in a folder", `"stats.py": {`, `"bin/stats.py": {`, "", "", 0},
		{"no description", "      \"description\": \"Summary of a CSV text.\",\n", "", manifests.Warning, "no description", 6},
		{"warm bash", `"stats.py": {`, `"stats.sh": {`, manifests.Error, "warm is for .py", 18},
		{"warm with several processes", `"memory_mb": 64`, `"processes": 2`, manifests.Error, "warm is for scripts with one process", 18},
		{"stdout unknown", `"warm": true`, `"stdout": "xml"`, manifests.Error, `stdout "xml"`, 18},
		{"limit too high", `"memory_mb": 64`, `"memory_mb": 257`, manifests.Error, "from 16 to 256", 17},
		{"limit at the ceiling", `"memory_mb": 64`, `"memory_mb": 256`, "", "", 0},
		{"limit of zero", `"memory_mb": 64`, `"memory_mb": 0`, manifests.Error, "from 16 to 256", 17},
		{"limit as a fraction", `"memory_mb": 64`, `"memory_mb": 64.5`, manifests.Error, "whole number", 17},
		{"limit as null", `"memory_mb": 64`, `"memory_mb": null`, manifests.Error, "null", 17},
		{"limit unknown", `"memory_mb": 64`, `"memory_mib": 64`, manifests.Error, `did you mean "memory_mb"?`, 17},
		{"string without end", `"maxLength": 20`, `"minLength": 0`, manifests.Error, "a string without a longest length", 11},
		{"open input", `        "required": ["csv"],
        "additionalProperties": false`, `        "required": ["csv"]`, manifests.Error, "an open object", 8},
		{"input by reference", `"maxLength": 20`, `"maxLength": 20, "$ref": "file:///etc/passwd"`, manifests.Error, "leaves the document", 11},
		{"misspelt output", `"rows": {"type"`, `"rows": {"typ"`, manifests.Error, `did you mean "type"?`, 16},
		{"output is no object", `"output": {"type": "object", "prop`, `"output": {"type": "array", "prop`, manifests.Error, "must have type object", 16},
		{"example input", `{"csv": "a\n1\n2"}`, `{"csv": "aaa\n1\n2\n3\n4\n5\n6\n7\n8\n9\n"}`, manifests.Error, "length must be <= 20, but got", 20},
		{"example output", `{"rows": 2}`, `{"rows": "2"}`, manifests.Error, "expected integer, but got string", 20},
		{"example output is no object", `{"rows": 2}`, `[]`, manifests.Error, "not a JSON object", 20},
		{"example with a control character", `{"csv": "a\n1\n2"}`, `{"csv": "a\u001b"}`, manifests.Error, "U+001B", 20},
		{"example without output", `, "output": {"rows": 2}`, ``, manifests.Error, "both input and output", 20},
		{"no example", `{"input": {"csv": "a\n1\n2"}, "output": {"rows": 2}}`, "", manifests.Warning, "no example", 19},
		{"hidden character", `"Summary of`, "\"Summary \u202eof", manifests.Warning, "invisible character", 7},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			raw := strings.Replace(goodXray, tt.old, tt.new, 1)
			if raw == goodXray {
				t.Fatal("nothing was changed")
			}
			_, findings := manifests.ParseXray("csv-stats", []byte(raw))
			if tt.message == "" {
				if len(findings) > 0 {
					t.Errorf("unexpected %v", findings)
				}
				return
			}
			found := findingsWith(findings, tt.severity, tt.message)
			if len(found) != 1 || found[0].Cure == "" || found[0].File != "csv-stats/xray.json" {
				t.Fatalf("got %v, want one %s %q", findings, tt.severity, tt.message)
			}
			if found[0].Line != tt.line {
				t.Errorf("line %d, want %d: %v", found[0].Line, tt.line, found[0])
			}
		})
	}
}

func TestExampleOfText(t *testing.T) {
	text := strings.NewReplacer(`"warm": true`, `"stdout": "text"`, `"properties": {"rows": {"type": "integer"}}`, `"title": ""`)
	for output, refused := range map[string]bool{`{"text": "x"}`: false, `{"text": 1}`: true, `{"rows": 2}`: true, `{}`: true} {
		raw := strings.Replace(text.Replace(goodXray), `{"rows": 2}`, output, 1)
		if _, findings := manifests.ParseXray("s", []byte(raw)); manifests.HasErrors(findings) != refused {
			t.Errorf("%s: %v", output, findings)
		}
	}
}

func TestExampleInputIsAtMost4096Bytes(t *testing.T) {
	for n, refused := range map[int]bool{4096 - len(`{"csv":""}`): false, 4097 - len(`{"csv":""}`): true} {
		raw := strings.NewReplacer(`"maxLength": 20`, `"maxLength": 4096`, `a\n1\n2`, strings.Repeat("x", n)).Replace(goodXray)
		if _, findings := manifests.ParseXray("s", []byte(raw)); manifests.HasErrors(findings) != refused {
			t.Errorf("%d bytes of csv: %v", n, findings)
		}
	}
}

func TestEgressNeedsNoExample(t *testing.T) {
	raw := strings.NewReplacer(`"network": "none"`, `"network": "egress"`, `{"input": {"csv": "a\n1\n2"}, "output": {"rows": 2}}`, "").Replace(goodXray)
	if _, findings := manifests.ParseXray("s", []byte(raw)); len(findings) > 0 {
		t.Error(findings)
	}
}

func TestXrayIsBounded(t *testing.T) {
	for n, refused := range map[int]bool{1 << 20: false, 1<<20 + 1: true} {
		raw := goodXray + strings.Repeat(" ", n-len(goodXray))
		if _, findings := manifests.ParseXray("s", []byte(raw)); manifests.HasErrors(findings) != refused {
			t.Errorf("%d bytes: %v", n, findings)
		}
	}
}
