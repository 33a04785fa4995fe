package protocol_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

var update = flag.Bool("update", false, "write docs/codes.md anew from the tables")

// constants reads the values of all constants of one type from source files, so that one without a row is found.
func constants(t *testing.T, typeName string, files ...string) []string {
	t.Helper()
	var values []string
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || spec.Type == nil || len(spec.Values) == 0 || exprName(spec.Type) != typeName {
				return true
			}
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
			return true
		})
	}
	if len(values) == 0 {
		t.Fatalf("no constants of type %s in %v", typeName, files)
	}
	return values
}

// exprName is the last part of a type's name: Code of guard.Code.
func exprName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

func TestRefusals(t *testing.T) {
	rows := map[guard.Code]protocol.Refusal{}
	texts := map[string]guard.Code{}
	for _, r := range protocol.Refusals {
		if _, twice := rows[r.Code]; twice {
			t.Errorf("%s has two rows", r.Code)
		}
		rows[r.Code] = r
		if r.Text == "" || texts[r.Text] != "" {
			t.Errorf("%s: text %q is empty or also that of %s", r.Code, r.Text, texts[r.Text])
		}
		texts[r.Text] = r.Code
		if r.Status < 400 || r.Status > 599 || http.StatusText(r.Status) == "" {
			t.Errorf("%s: status %d is not a refusal's", r.Code, r.Status)
		}
		switch r.Retry {
		case protocol.RetryNo, protocol.RetryAfter, protocol.RetryFix:
		default:
			t.Errorf("%s: retry %q", r.Code, r.Retry)
		}
	}
	codes := constants(t, "Code", "../../guard/code.go", "codes.go")
	for _, c := range codes {
		if _, ok := rows[guard.Code(c)]; !ok {
			t.Errorf("%s is a code and has no row", c)
		}
	}
	if len(codes) != len(rows) {
		t.Errorf("%d codes and %d rows", len(codes), len(rows))
	}
}

func TestOutcomes(t *testing.T) {
	seen := map[protocol.Outcome]bool{}
	for _, o := range protocol.Outcomes {
		if seen[o.Outcome] || o.Outcome == "" || o.Text == "" {
			t.Errorf("%q: twice, or without text", o.Outcome)
		}
		seen[o.Outcome] = true
		if got := protocol.OutcomeText(o.Outcome); got != o.Text {
			t.Errorf("OutcomeText(%s) = %q, want %q", o.Outcome, got, o.Text)
		}
	}
	for _, c := range constants(t, "Outcome", "codes.go") {
		if !seen[protocol.Outcome(c)] {
			t.Errorf("%s is an outcome and has no row", c)
		}
	}
	for _, none := range []protocol.Outcome{"", "fine", "OK"} {
		if got := protocol.OutcomeText(none); got != "" {
			t.Errorf("OutcomeText(%q) = %q, want nothing", none, got)
		}
	}
}

// TestUnknownCodeIsOurFault: what has no row never passes for something milder.
func TestUnknownCodeIsOurFault(t *testing.T) {
	for _, c := range []guard.Code{"", "moon_phase", "OK"} {
		if got := protocol.NewProblem(c, "x"); got.Code != guard.GuardError || got.Status != http.StatusInternalServerError {
			t.Errorf("NewProblem(%q) = %+v", c, got)
		}
	}
	if got := protocol.ProblemOf(guard.Decision{}); got.Code != guard.GuardError {
		t.Errorf("the zero decision became %+v", got)
	}
}

func TestProblem(t *testing.T) {
	got := protocol.ProblemOf(guard.Decision{Code: guard.InputInvalid, Rule: 3, Reason: "because", Pointer: "/a"})
	want := &protocol.Problem{Type: "urn:xray-runner:refusal:input_invalid", Title: "the input does not fit the script's schema", Status: 422,
		Detail: "because", Code: guard.InputInvalid, Retry: protocol.RetryFix, Pointer: "/a"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for _, r := range protocol.Refusals {
		if p := protocol.NewProblem(r.Code, ""); (p.RetryAfterMS > 0) != (p.Retry == protocol.RetryAfter) {
			t.Errorf("%s: retry %s, retry_after_ms %d", r.Code, p.Retry, p.RetryAfterMS)
		}
	}
}

// document is docs/codes.md.
func document() []byte {
	var b bytes.Buffer
	b.WriteString(`# Refusals and outcomes

Made from the tables in runner/protocol/codes.go: ` + "`go test ./runner/protocol -update`" + `. Do not edit.

## Refusals

No run started. The answer is ` + "`application/problem+json`" + `; decide by its ` + "`code`" + `. What to do is in ` + "`retry`" + `: ` + "`no`" + ` (the same
call will be refused again), ` + "`fix_input`" + ` (another input or name may pass), ` + "`after_ms`" + ` (the same call may pass after ` + "`retry_after_ms`" + `).

| code | HTTP | retry | meaning |
|---|---|---|---|
`)
	for _, r := range protocol.Refusals {
		later := ""
		if r.Later {
			later = " (not given by this version)"
		}
		fmt.Fprintf(&b, "| `%s` | %d | `%s` | %s%s |\n", r.Code, r.Status, r.Retry, r.Text, later)
	}
	b.WriteString(`
## Outcomes

A run started and has exactly one of these; the first that holds, from the top, is given (` + "`sandbox_error`" + ` and ` + "`lost`" + ` stand apart: they
say that we failed, or that nobody knows). The HTTP status is 200. ` + "`result`" + ` is there only with ` + "`ok`" + `.

| outcome | meaning |
|---|---|
`)
	for _, o := range protocol.Outcomes {
		fmt.Fprintf(&b, "| `%s` | %s |\n", o.Outcome, o.Text)
	}
	return b.Bytes()
}

func TestDocument(t *testing.T) {
	const path = "../../docs/codes.md"
	if *update {
		if err := os.WriteFile(path, document(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(document()), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("docs/codes.md is not what the tables say: go test ./runner/protocol -update (-want +got)\n%s", diff)
	}
}
