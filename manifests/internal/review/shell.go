package review

import (
	"regexp"
	"strings"
	"sync"

	"xrayrunner/manifests"
)

type shellRule struct {
	pattern *regexp.Regexp
	message string
	cure    string
}

var shellRules = sync.OnceValue(func() []shellRule {
	word := func(w string) *regexp.Regexp {
		return regexp.MustCompile(`(?:^|[\s;&|(!{` + "`" + `])` + w + `(?:$|[\s;&|)])`)
	}
	return []shellRule{
		{word("eval"), "eval runs text as a program", "call the command itself"},
		{word("(?:[a-z/]*/)?curl"), "curl needs a network", "a skill has no network"},
		{word("(?:[a-z/]*/)?wget"), "wget needs a network", "a skill has no network"},
		{regexp.MustCompile(`/dev/(?:tcp|udp)/`), "bash opens a connection at /dev/tcp and /dev/udp", "a skill has no network"},
	}
})

// reviewShell warns about words in bash scripts. Bash has no syntax tree to ask, so these are warnings.
func reviewShell(place manifests.Finding, content []byte) []manifests.Finding {
	var findings []manifests.Finding
	for i, line := range strings.Split(string(content), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for _, rule := range shellRules() {
			at := rule.pattern.FindStringIndex(line)
			if at == nil {
				continue
			}
			f := place
			f.Severity, f.Line, f.Column, f.Message, f.Cure = manifests.Warning, i+1, at[0]+1, rule.message, rule.cure
			findings = append(findings, f)
		}
	}
	return findings
}
