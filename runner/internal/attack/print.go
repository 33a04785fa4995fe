package attack

import (
	"fmt"
	"io"
	"strings"
)

// PrintResult writes one line: the verdict, the attack, what it met, and what its control got.
func PrintResult(out io.Writer, r Result) {
	fmt.Fprintf(out, "%-9s %-34s %-16.60s control: %.60s\n", r.Verdict, r.ID, r.Seen, oneLine(r.Control))
	if r.Verdict == Succeeded {
		fmt.Fprintf(out, "          it tried to %s; it got %q %s\n", r.Tries, oneLine(r.Seen), oneLine(r.Harm))
	}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// PrintSummary says what an operator wants to know.
func (r Report) PrintSummary(out io.Writer) error {
	fmt.Fprintf(out, "\nlayers: %s\n", strings.Join(r.Layers, " "))
	if r.Elsewhere > 0 {
		fmt.Fprintf(out, "%d are refused here by something else too (their control failed): they prove nothing about the sandbox\n", r.Elsewhere)
	}
	for _, left := range r.Left {
		fmt.Fprintln(out, "left: "+left)
	}
	_, err := fmt.Fprintf(out, "%d attacks, %d succeeded, %d known to be open (SECURITY.md), %d things left\n", r.Attacks, r.Succeeded, r.Open, len(r.Left))
	return err
}

// Matrix is Table as SECURITY.md shows it.
func Matrix() string {
	var b strings.Builder
	open := 0
	for _, a := range Table {
		if a.Open != "" {
			open++
		}
	}
	fmt.Fprintf(&b, "%d attacks: %d are stopped, %d known to be open.\n\n| attack | tries to | case | |\n|---|---|---|---|\n", len(Table), len(Table)-open, open)
	for _, a := range Table {
		result := "stopped"
		if a.Open != "" {
			result = "**open**: " + a.Open
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", a.ID(), a.Tries, a.Case, result)
	}
	return b.String()
}
