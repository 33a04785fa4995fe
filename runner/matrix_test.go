package main

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/runner/internal/attack"
)

var update = flag.Bool("update", false, "write the matrix of attacks into SECURITY.md")

// TestMatrixIsCurrent: SECURITY.md lists the attacks that the suite makes, no more and no fewer.
func TestMatrixIsCurrent(t *testing.T) {
	const file, begin, end = "../SECURITY.md", "<!-- attacks: go test ./runner -update -->\n", "<!-- end of attacks -->\n"
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(raw), begin)
	got, tail, found := strings.Cut(rest, end)
	if !ok || !found {
		t.Fatal("SECURITY.md has no place for the matrix")
	}
	want := "\n" + attack.Matrix() + "\n"
	if *update {
		if err := os.WriteFile(file, []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("go test ./runner -update (-want +got):\n%s", diff)
	}
}
