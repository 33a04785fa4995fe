package manifests

import (
	"fmt"
	"strings"
)

// unknownName is the message for a name that is not in a list, with the likely meaning when there is one.
func unknownName(what, name string, known []string) string {
	message := fmt.Sprintf("unknown %s %q", what, shorten(name))
	if near := nearest(name, known); near != "" {
		return message + fmt.Sprintf("; did you mean %q?", near)
	}
	return message
}

// nearest returns the known name that differs from name by letter case, by "-" for "_", or by at most
// two letters; "" when there is none. The first of equals wins, so known should be sorted.
func nearest(name string, known []string) string {
	if len(name) > 64 {
		return ""
	}
	best, bestDistance := "", 3
	short := plain(name)
	for _, k := range known {
		d := editDistance(short, plain(k))
		if d < bestDistance && d < len(k) && k != name {
			best, bestDistance = k, d
		}
	}
	return best
}

func plain(name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(name, "-", ""), "_", "")) // a Replacer made each time costs 12 KB
}

// editDistance counts the letters to insert, delete or replace (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
