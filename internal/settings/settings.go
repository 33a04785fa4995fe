// Package settings reads a process's environment against a table of what it knows.
//
// A misspelt security setting that is silently ignored is worse than a start that fails, so a name that looks
// like one of ours and is not known is refused: every unknown XRAY_ name, and every unknown RUNNER_ name that is
// within two letters of a known one (other software also uses RUNNER_, so the rest is only reported).
package settings

import (
	"fmt"
	"slices"
	"strings"
)

// Setting is one row of a process's table; the README's table is tested against it.
type Setting struct {
	Name    string
	Default string
	Text    string // what it does, with unit and range
	Secret  bool   // never logged
}

// Values are the settings by name, defaults filled in.
type Values map[string]string

// Read looks each row up in environ ("NAME=value" as os.Environ gives) and returns the values, remarks for the
// log, and an error that names the first setting that cannot be accepted.
func Read(table []Setting, environ []string) (Values, []string, error) {
	values, known := Values{}, map[string]bool{}
	for _, s := range table {
		values[s.Name], known[s.Name] = s.Default, true
	}
	var remarks []string
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		switch {
		case known[name]:
			values[name] = value
		case strings.HasPrefix(name, "XRAY_"):
			return nil, nil, fmt.Errorf("unknown setting %s%s", name, suggestion(table, name))
		case strings.HasPrefix(name, "RUNNER_"):
			if near := nearest(table, name); near != "" {
				return nil, nil, fmt.Errorf("unknown setting %s: did you mean %s?", name, near)
			}
			remarks = append(remarks, "ignoring unknown variable "+name)
		}
	}
	slices.Sort(remarks)
	return values, remarks, nil
}

func suggestion(table []Setting, name string) string {
	if near := nearest(table, name); near != "" {
		return ": did you mean " + near + "?"
	}
	return ": this process does not know it; remove it"
}

// nearest is the known name within two letters of name, or "".
func nearest(table []Setting, name string) string {
	best, at := "", 3
	for _, s := range table {
		if d := distance(s.Name, name); d < at {
			best, at = s.Name, d
		}
	}
	return best
}

// distance is the Levenshtein distance.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitute := diagonal
			if a[i] != b[j] {
				substitute++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitute, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
