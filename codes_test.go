package xrayrunner_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"xrayrunner/runner/protocol"
)

// TestEveryCodeIsProvoked: a refusal or outcome that can be given has a story that gets it, or a test over the real
// handlers that names it as what it wants. A code that only a later part gives is marked so in the table, and must
// then not be provoked: the mark would be stale.
func TestEveryCodeIsProvoked(t *testing.T) {
	texts := wanted(t)
	for _, r := range protocol.Refusals {
		pattern := `refused: ` + string(r.Code) + `\b|"code":"` + string(r.Code) + `"|\b(guard|protocol)\.` + constant(string(r.Code)) + `\b`
		got := regexp.MustCompile(pattern).MatchString(texts)
		switch {
		case !got && !r.Later:
			t.Errorf("no test provokes the refusal %s", r.Code)
		case got && r.Later:
			t.Errorf("the refusal %s is marked as a later part's, and a test provokes it", r.Code)
		}
	}
	for _, o := range protocol.Outcomes {
		pattern := `"outcome":"` + string(o.Outcome) + `"|outcome: ` + string(o.Outcome) + `\b|ended ` + string(o.Outcome) + `\b`
		if !regexp.MustCompile(pattern).MatchString(stories(t)) {
			t.Errorf("no story gets the outcome %s", o.Outcome)
		}
	}
}

// constant is the Go name of a code where it is not just the words in capitals.
func constant(code string) string {
	special := map[string]string{"control_characters": "ControlChars"}
	if s, ok := special[code]; ok {
		return s
	}
	var b strings.Builder
	for word := range strings.SplitSeq(code, "_") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

func stories(t *testing.T) string { return read(t, "testdata/stories", ".txtar") }

// wanted is the text of all stories and of the runner's own tests.
func wanted(t *testing.T) string {
	return stories(t) + read(t, "runner/internal", "_test.go")
}

func read(t *testing.T, dir, suffix string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, suffix) {
			return err
		}
		raw, err := os.ReadFile(path)
		b.Write(raw)
		return err
	})
	if err != nil || b.Len() == 0 {
		t.Fatalf("%s: nothing to read: %v", dir, err)
	}
	return b.String()
}
