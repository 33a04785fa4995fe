package ctl

import (
	"context"
	"fmt"
	"strings"
)

// completion prints a script for a shell. Names of skills are asked of the api when they are needed.
func completion(_ context.Context, c *call) error {
	if len(c.args) != 1 || c.args[0] != "bash" && c.args[0] != "zsh" {
		return usage{"completion for which shell? bash or zsh"}
	}
	var names, options []string
	for _, k := range commands() {
		names = append(names, k.name)
	}
	for _, o := range table {
		options = append(options, "--"+o.name)
	}
	start := ""
	if c.args[0] == "zsh" {
		start = "autoload -U +X bashcompinit && bashcompinit\n"
	}
	_, err := fmt.Fprintf(c.Out, completionScript, start, strings.Join(names, " "), strings.Join(options, " "))
	return err
}

const completionScript = `%s_xrayctl() {
	local word=${COMP_WORDS[COMP_CWORD]} command= w
	for w in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		case $w in -*) ;; *) command=$w; break ;; esac
	done
	case $word in -*) COMPREPLY=($(compgen -W "%[3]s" -- "$word")); return ;; esac
	case $command in
	'') COMPREPLY=($(compgen -W "%[2]s help" -- "$word")) ;;
	skills | publish | unpublish | enable | disable | drift | run)
		COMPREPLY=($(compgen -W "$(xrayctl skills 2>/dev/null | awk '$2 == "runner" {print $1}')" -- "$word")) ;;
	tools) COMPREPLY=($(compgen -W "on off skill_load skill_run" -- "$word")) ;;
	audit) COMPREPLY=($(compgen -W "verify export" -- "$word")) ;;
	tokens) COMPREPLY=($(compgen -W "create revoke agent viewer operator" -- "$word")) ;;
	completion) COMPREPLY=($(compgen -W "bash zsh" -- "$word")) ;;
	esac
}
complete -F _xrayctl xrayctl
`
