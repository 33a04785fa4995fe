package manifests

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// mentionPattern finds relative Markdown links, and paths below the folders that agentskills.io names.
var mentionPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\]\(([^)\s#]+)[^)]*\)|((?:\{baseDir\}/|\./)?(?:scripts|references|assets)/[A-Za-z0-9_][A-Za-z0-9_./-]*)`)
})

// mentions warns about files that SKILL.md sends the model to. A model gets SKILL.md and nothing else:
// there is no tool that reads another file.
func (r *report) mentions(body string, firstLine int, scripts []string) {
	seen := map[string]bool{}
	for i, line := range strings.Split(body, "\n") {
		for _, m := range mentionPattern().FindAllStringSubmatchIndex(line, -1) {
			start, end := m[2], m[3]
			if start < 0 {
				start, end = m[4], m[5]
			}
			if start > 0 && (line[start-1] == '/' || line[start-1] == '.' || isNameRune(rune(line[start-1]))) {
				continue // the middle of a longer path or URL
			}
			target := strings.TrimPrefix(strings.TrimRight(line[start:end], "."), "{baseDir}/")
			target = path.Clean(target)
			if seen[target] || !isRelativeFile(target) || slices.Contains(scripts, target) {
				continue
			}
			seen[target] = true
			r.add(Warning, firstLine+i, start+1, "put what the model needs into SKILL.md; name a script by its key in xray.json",
				"SKILL.md refers to the file %q: there is no read tool, so the model cannot open it", shorten(target))
		}
	}
}

// isRelativeFile tells a file beside SKILL.md from a URL or an anchor.
func isRelativeFile(target string) bool {
	return target != "." && !strings.HasPrefix(target, "/") && !strings.Contains(target, ":")
}
