package external_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

const run = "#!/bin/bash\necho '{}'\n"

// fault is one that people make; want is part of the line that names it, at the line of its file (0: the whole file).
type fault struct {
	name  string
	files map[string]string
	make  func(dir string) error // what files cannot say
	want  string
	line  int
}

func manifest(members string) map[string]string {
	return map[string]string{"skill.json": "{\n  \"name\": \"s\",\n  \"description\": \"x\",\n  \"class\": \"safe\",\n  \"entry\": \"run.sh\"" + members + "\n}\n", "run.sh*": run}
}

// with replaces the text of one file.
func with(files map[string]string, name, text string) map[string]string {
	delete(files, name+"*")
	files[name] = text
	return files
}

var faults = []fault{
	{name: "empty", files: map[string]string{"skill.json": ""}, want: "unexpected end of JSON input", line: 1},
	{name: "not JSON", files: map[string]string{"skill.json": "name: s\n"}, want: "invalid character 'a' in literal null", line: 1},
	{name: "a comma too many", files: map[string]string{"skill.json": "{\n \"name\": \"s\",\n}"}, want: "invalid character '}' looking for beginning of object key", line: 3},
	{name: "a comma too few", files: map[string]string{"skill.json": "{\n \"name\": \"s\"\n \"entry\": \"x\"}"}, want: "invalid character '\"' after object key:value pair", line: 3},
	{name: "a comment", files: map[string]string{"skill.json": "{\n // what it does\n \"name\": \"s\"}"}, want: "invalid character '/'", line: 2},
	{name: "single quotes", files: map[string]string{"skill.json": "{'name': 's'}"}, want: "invalid character '\\''", line: 1},
	{name: "cut off", files: map[string]string{"skill.json": "{\n \"name\": \"s\",\n \"descr"}, want: "unexpected end of JSON input", line: 3},
	{name: "two documents", files: map[string]string{"skill.json": "{}\n{}"}, want: "invalid character '{' after top-level value", line: 2},
	{name: "UTF-16", files: map[string]string{"skill.json": "{\x00\"\x00"}, want: "UTF-16", line: 0},
	{name: "Latin-1", files: map[string]string{"skill.json": "{\n\"name\": \"caf\xe9\"}"}, want: "UTF-8", line: 2},
	{name: "an array", files: map[string]string{"skill.json": "[]"}, want: "array", line: 1},
	{name: "the same key twice", files: manifest(",\n  \"name\": \"t\""), want: "name", line: 6},
	{name: "an unknown key", files: manifest(",\n  \"timeout\": 5"), want: "timeout", line: 6},
	{name: "another letter case", files: manifest(",\n  \"Category\": \"x\""), want: "Category", line: 6},
	{name: "null", files: manifest(",\n  \"category\": null"), want: "null is not allowed", line: 6},
	{name: "a number as text", files: manifest(",\n  \"timeout_seconds\": \"60\""), want: "timeout_seconds", line: 6},
	{name: "half a second", files: manifest(",\n  \"timeout_seconds\": 0.5"), want: "timeout_seconds", line: 6},
	{name: "an hour", files: manifest(",\n  \"timeout_seconds\": 3600"), want: "it must be from 1 to 120", line: 6},
	{name: "a negative time", files: manifest(",\n  \"timeout_seconds\": -1"), want: "it must be from 1 to 120", line: 6},
	{name: "no name", files: map[string]string{"skill.json": `{"description":"x","entry":"run.sh"}`}, want: "the name is missing", line: 1},
	{name: "a hyphen in the name", files: map[string]string{"skill.json": "{\"description\":\"x\",\"entry\":\"run.sh\",\n\"name\":\"disk-cleaner\"}"}, want: `the name "disk-cleaner" may hold only`, line: 2},
	{name: "no description", files: map[string]string{"skill.json": `{"name":"s","entry":"run.sh"}`}, want: "the description is missing", line: 1},
	{name: "no entry", files: map[string]string{"skill.json": `{"name":"s","description":"x"}`}, want: "the entry is missing", line: 1},
	{name: "an unknown class", files: map[string]string{"skill.json": "{\"name\":\"s\",\"description\":\"x\",\"entry\":\"run.sh\",\n\"class\":\"read\"}"}, want: `the class "read" is not known`, line: 2},
	{name: "a schema with a typo", files: manifest(",\n  \"schema\": {\"type\": \"objekt\"}"), want: "the schema cannot be used", line: 6},
	{name: "a schema that reads files", files: manifest(",\n  \"schema\": {\"$ref\": \"file:///etc/passwd\"}"), want: "the schema cannot be used", line: 6},
	{name: "a schema of another draft", files: manifest(",\n  \"schema\": {\"$schema\": \"http://json-schema.org/draft-07/schema#\"}"), want: "the schema cannot be used", line: 6},
	{name: "a variable with its value", files: manifest(",\n  \"env_allow\": [\"A=B\"]"), want: "is not the name of a variable", line: 6},
	{name: "variables in one text", files: manifest(",\n  \"env_allow\": \"PATH HOME\""), want: "env_allow", line: 6},
	{name: "a loader variable", files: manifest(",\n  \"env_allow\": [\"LD_PRELOAD\"]"), want: "LD_PRELOAD makes a loader", line: 0},
	{name: "a mount for writing, and safe", files: manifest(",\n  \"mounts\": [{\"name\": \"cache\", \"mode\": \"rw\"}]"), want: "whoever writes is mutating", line: 6},
	{name: "a mount by its path", files: manifest(",\n  \"mounts\": [{\"name\": \"/var/cache\", \"mode\": \"ro\"}]"), want: "the mount name", line: 6},
	{name: "a dry run of what is safe", files: manifest(",\n  \"dry_run\": \"dry\""), want: "dry_run is for the class mutating", line: 6},
	{name: "a dry run that says true", files: manifest(",\n  \"dry_run\": true"), want: "dry_run", line: 6},
	{name: "no program", files: map[string]string{"skill.json": manifest("")["skill.json"]}, want: "no such file", line: 0},
	{name: "a program outside", files: map[string]string{"skill.json": `{"name":"s","description":"x","class":"safe","entry":"/bin/true"}`}, want: "escapes allowlist root", line: 0},
	{name: "a #! line with CRLF", files: with(manifest(""), "run.sh", "#!/bin/bash\r\necho\r\n"), want: "CRLF", line: 1},
	{name: "a byte-order mark before #!", files: with(manifest(""), "run.sh", "\ufeff#!/bin/bash\n"), want: "byte-order mark", line: 1},
	{name: "no way to start it", files: map[string]string{"skill.json": `{"name":"s","description":"x","class":"safe","entry":"run"}`, "run": "echo\n"}, want: "not executable", line: 0},
	{name: "a compiled program without its bit", files: map[string]string{"skill.json": `{"name":"s","description":"x","class":"safe","entry":"run"}`, "run": "\x7fELF"}, want: "not executable", line: 0},
	{name: "a link to the data", files: with(manifest(""), "data", "->/etc/hosts"), want: "a symbolic link", line: 0},
	{name: "a cache of bytecode", files: with(manifest(""), "__pycache__/x.pyc", "x"), want: "bytecode cache", line: 0},
	{name: "sitecustomize", files: with(manifest(""), "sitecustomize.py", "x"), want: "by itself", line: 0},
	{name: "a module that hides json", files: with(manifest(""), "json.py", "x"), want: "hides the module", line: 0},
	{name: "a pipe", files: manifest(""), make: func(d string) error { return syscall.Mkfifo(d+"/pipe", 0o644) }, want: "not a plain file", line: 0},
	{name: "skill.json is a pipe", make: func(d string) error { return syscall.Mkfifo(d+"/skill.json", 0o644) }, want: "not a plain file", line: 0},
	{name: "skill.json is a link", files: map[string]string{"skill.json": "->/etc/hosts"}, want: "not a plain file", line: 0},
	{name: "skill.json is a folder", files: map[string]string{"skill.json/x": ""}, want: "not a plain file", line: 0},
	{name: "a set-user-id bit", files: manifest(""), make: func(d string) error { return os.Chmod(d+"/run.sh", 0o755|os.ModeSetuid) }, want: "set-user-id", line: 0},
	{name: "a huge skill.json", files: map[string]string{"skill.json": "{}"}, make: func(d string) error { return os.Truncate(d+"/skill.json", 1<<30) }, want: "more than 131072 bytes", line: 0},
	{name: "a huge file", files: with(manifest(""), "data", ""), make: func(d string) error { return os.Truncate(d+"/data", 1<<40) }, want: "more than 16 MiB", line: 0},
	{name: "deep brackets", files: map[string]string{"skill.json": strings.Repeat("[", 100_000)}, want: "deep", line: 1},
	{name: "a megabyte", files: manifest(",\n  \"category\": \"" + strings.Repeat("x", 1<<20) + "\""), want: "more than 131072 bytes", line: 0},
	{name: "a key without end", files: manifest(",\n" + strings.TrimSuffix(strings.Repeat("  \"timeout_second\": 1,\n", 4_000), ",\n")), want: "is there twice", line: 7},
	{name: "keys without end", files: manifest(",\n" + many(4_000, "  \"k%d\": 1", ",\n")), want: "k0", line: 6},
	{name: "a schema of deep parts", files: manifest(",\n  \"schema\": " + strings.Repeat(`{"properties":{"a":`, 5_000) + "{}" + strings.Repeat("}}", 5_000)), want: "exceeded max depth", line: 6},
	{name: "a schema in itself", files: manifest(",\n  \"schema\": {\"$ref\": \"#\"}"), want: "leads back to itself", line: 6},
	{name: "a schema of many parts", files: manifest(",\n  \"schema\": {\"properties\": {" + many(4_000, `"k%d": {"type": "string"}`, ",") + "}}"), want: "at most 65536 are allowed", line: 6},
	{name: "a number without end", files: manifest(",\n  \"timeout_seconds\": 1" + strings.Repeat("0", 100_000)), want: "at most 4300 are allowed", line: 6},
	{name: "an exponent without end", files: manifest(",\n  \"timeout_seconds\": 1e999999999"), want: "the exponent of a number is over 400", line: 6},
	{name: "a text without end", files: manifest(",\n  \"category\": \"" + strings.Repeat("x", 100_000) + "\""), want: "longer than 64 bytes", line: 6},
	{name: "variables without end", files: manifest(",\n  \"env_allow\": [" + many(8_000, `"A=%d"`, ",") + "]"), want: "env_allow names 8000 variables", line: 6},
	{name: "mounts without end", files: manifest(",\n  \"mounts\": [" + many(3_000, `{"name":"a%d","mode":"ro"}`, ",") + "]"), want: "more than 8 mounts", line: 6},
	{name: "too many files", files: manifest(""), make: manyFiles, want: "more than 512 files", line: 0},
	{name: "folders without end", files: with(manifest(""), strings.Repeat("d/", 30)+"x", ""), want: "inside each other", line: 0},
}

func many(n int, form, between string) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(form, i))
	}
	return strings.Join(all, between)
}

func manyFiles(d string) error {
	for i := range 600 {
		if err := os.WriteFile(filepath.Join(d, "f"+string(rune('a'+i/26))+string(rune('a'+i%26))), nil, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// TestFaults: each is named with file, line and cure, hides no other skill, and costs at most 50 ms and 10 MB.
func TestFaults(t *testing.T) {
	if len(faults) < 30 {
		t.Fatalf("only %d faults", len(faults))
	}
	var longest time.Duration
	var most uint64
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, "faulty")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, dir, f.files)
			if f.make != nil {
				if err := f.make(dir); err != nil {
					t.Fatal(err)
				}
			}
			write(t, root, map[string]string{"zz/skill.json": strings.Replace(good, "NAME", "other", 1), "zz/run.sh*": run})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			set := load(root) // the first time is not the measured one: it fills tables that are made once
			runtime.ReadMemStats(&before)
			quickest := time.Hour
			times := 0
			for ; times < 3 || times < 20 && quickest > slower*50*time.Millisecond; times++ { // the machine may be busy; what the loader needs is the least
				began := time.Now()
				set = load(root)
				quickest = min(quickest, time.Since(began))
			}
			runtime.ReadMemStats(&after)
			each := (after.TotalAlloc - before.TotalAlloc) / uint64(times)
			if quickest > slower*50*time.Millisecond || each > 10<<20 {
				t.Errorf("it costs %v and %d bytes", quickest, each)
			}
			longest, most = max(longest, quickest), max(most, each)
			if set.Skills["other"] == nil || set.Skills["s"] != nil {
				t.Errorf("registered: %v", set.Skills)
			}
			for _, l := range set.Lines {
				if strings.Contains(l.Text, f.want) && l.Line == f.line && l.Cure != "" && strings.HasPrefix(l.File, dir) {
					return
				}
			}
			t.Errorf("no line with %q at line %d, a file and a cure:\n%+v", f.want, f.line, set.Lines)
		})
	}
	t.Logf("%d faults; the most: %v, %d bytes", len(faults), longest, most)
}
