package attack

import (
	"encoding/json"
	"fmt"

	"xrayrunner/runner/internal/sandbox"
)

// cellOfAttacks: all attempts are forks of one cell, so that one may try to reach what the next is made of.
const cellOfAttacks = "attacks"

// fromCell is the same attempt as a fork: the same text, in a file's place, with its arguments before it. The file is
// not there; a cell is given the text.
func (c *campaign) fromCell(spec sandbox.Spec) sandbox.Spec {
	text, arguments := spec.Argv[5], spec.Argv[6:]
	words, err := json.Marshal(arguments)
	if err != nil {
		panic("BUG: texts do not encode: " + err.Error())
	}
	quoted, err := json.Marshal(string(words))
	if err != nil {
		panic("BUG: a text does not encode: " + err.Error())
	}
	text = fmt.Sprintf("import json, sys\nsys.argv[1:] = json.loads(%s)\n%s", quoted, text)
	c.warm++
	spec.Argv = []string{c.Python, "-E", "-s", "-B", c.arena.path("skill", fmt.Sprintf("attempt%d.py", c.warm))}
	spec.Warm = &sandbox.Warm{
		Skill: cellOfAttacks, Modules: []string{"ctypes", "errno", "fcntl", "json", "mmap", "resource", "signal", "socket", "struct"},
		Text: func() ([]byte, error) { return []byte(text), nil },
	}
	return spec
}

// cellHarm is what an attempt did to the cell that it came from.
func (c *campaign) cellHarm(exit sandbox.Exit, cell int) []string {
	var out []string
	if !exit.Warm {
		out = append(out, "it was not forked from the cell")
	}
	if c.cells.CellPID(cellOfAttacks) != cell {
		out = append(out, "the cell has ended")
	}
	return out
}
