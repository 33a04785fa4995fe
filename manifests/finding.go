package manifests

import (
	"cmp"
	"fmt"
	"slices"
)

// String is one line for a terminal: file:line:column: severity: message (cure).
func (f Finding) String() string {
	place := f.File
	if f.Line > 0 {
		place += fmt.Sprintf(":%d", f.Line)
	}
	if f.Line > 0 && f.Column > 0 {
		place += fmt.Sprintf(":%d", f.Column)
	}
	text := fmt.Sprintf("%s: %s: %s", place, f.Severity, f.Message)
	if f.Cure != "" {
		text += " (" + f.Cure + ")"
	}
	return printable(text)
}

// SortFindings orders findings by file, line and column, then by what they say.
func SortFindings(list []Finding) {
	slices.SortStableFunc(list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Severity, b.Severity), cmp.Compare(a.Message, b.Message))
	})
}

// HasErrors reports whether one of them disables its skill.
func HasErrors(list []Finding) bool {
	return slices.ContainsFunc(list, func(f Finding) bool { return f.Severity == Error })
}

// report collects the findings about one file of a skill.
type report struct {
	skill string // folder
	file  string // path relative to the skills folder
	list  []Finding
}

// newReport: file is relative to the skill's folder; "" means the folder itself.
func newReport(folder, file string) *report {
	place := printable(folder)
	if file != "" {
		place += "/" + printable(file)
	}
	return &report{skill: printable(folder), file: place}
}

// add records one finding. Line and column count from 1; 0 means the whole file.
func (r *report) add(severity Severity, line, column int, cure, format string, args ...any) {
	r.list = append(r.list, Finding{
		Severity: severity, Skill: r.skill, File: r.file, Line: line, Column: column,
		Message: printable(fmt.Sprintf(format, args...)), Cure: printable(cure),
	})
}
