package ctl

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// completion prints a script for a shell. Names of skills are asked of the api when they are needed.
func completion(_ context.Context, c *call) error {
	if len(c.args) != 1 || c.args[0] != "bash" && c.args[0] != "zsh" {
		return usage{"completion for which shell? bash or zsh"}
	}
	var names, ofCommand, common, withValue []string
	for _, k := range commands() {
		names = append(names, k.name)
		if len(k.flags) > 0 {
			ofCommand = append(ofCommand, fmt.Sprintf("\t%s) opts='%s' ;;", k.name, "--"+strings.Join(k.flags, " --")))
		}
	}
	for i, o := range table {
		if i < commonOptions {
			common = append(common, "--"+o.name)
		}
		if o.value != "" {
			withValue = append(withValue, "--"+o.name)
		}
	}
	start := ""
	if c.args[0] == "zsh" {
		start = "autoload -U +X bashcompinit && bashcompinit\n"
	}
	_, err := io.WriteString(c.Out, strings.NewReplacer("@START@", start, "@COMMANDS@", strings.Join(names, " "), "@COMMON@", strings.Join(common, " "),
		"@VALUED@", strings.Join(withValue, " | "), "@OPTIONS@", strings.Join(ofCommand, "\n")).Replace(completionScript))
	return err
}

// In the script, line is what was typed in whole words (bash breaks an address at its colons), typed the command and its
// arguments, and at what asks the api: --url and --token-file as they were typed. Names are asked for when they are needed;
// without an api there are none.
const completionScript = `@START@_xrayctl() {
	local word=${COMP_WORDS[COMP_CWORD]} before= opts= all= w i
	local line=() typed=() at=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		w=${COMP_WORDS[i]}
		case $w,$before in
		:*,* | =*,* | *,[:=]) if ((${#line[@]})); then line[${#line[@]}-1]+=$w; fi ;;
		*) line+=("$w") ;;
		esac
		before=$w
	done
	for ((i = 0; i < ${#line[@]}; i++)); do
		w=${line[i]}
		case $w in
		--url | --token-file) at+=("$w" "${line[++i]}") ;;
		--url=* | --token-file=*) at+=("$w") ;;
		@VALUED@) ((++i)) ;;
		-*) ;;
		*) typed+=("$w") ;;
		esac
	done
	case $before in
	--token-file | --file | --key | --keys | --signature) COMPREPLY=($(compgen -f -- "$word")); compopt -o filenames 2>/dev/null; return ;;
	--decision) COMPREPLY=($(compgen -W "allow deny" -- "$word")); return ;;
	--skill) typed=(skills) ;;
	@VALUED@) return ;;
	esac
	case "${typed[*]:0:1}" in
@OPTIONS@
	esac
	case $word in -*) COMPREPLY=($(compgen -W "@COMMON@ $opts" -- "$word")); return ;; esac
	case "${#typed[@]} ${typed[*]:0:2}" in
	"0 " | "1 help") all="@COMMANDS@ help" ;;
	*" publish"* | *" unpublish"*)
		all=$(xrayctl "${at[@]}" skills 2>/dev/null | awk '$2 == "runner" {print $1}') ;;
	"1 skills" | "1 run" | *" enable"* | *" disable"* | *" drift"*)
		all=$(xrayctl "${at[@]}" skills 2>/dev/null | awk '$2 == "runner" || $2 == "external" {print $1}') ;;
	"2 run "*) all=$(xrayctl "${at[@]}" skills "${typed[*]:1:1}" 2>/dev/null | awk '/^SCRIPT / {on = 1; next} /^ *$/ {on = 0} on {print $1}') ;;
	"1 tools") all="on off" ;;
	"2 tools "*) all="skill_load skill_run" ;;
	"1 audit") all="verify export" ;;
	"1 tokens") all="create revoke" ;;
	"2 tokens revoke") all=$(xrayctl "${at[@]}" tokens 2>/dev/null | awk '$NF == "valid" {print $1}') ;;
	"3 tokens create") all="agent viewer operator" ;;
	"4 tokens create") all="read-only mutating-with-confirm dual-sign-required" ;;
	"1 approvals" | "1 approve" | "1 deny") all=$(xrayctl "${at[@]}" approvals 2>/dev/null | awk 'NR > 1 {print $1}') ;;
	"1 sop") all="sign verify put" ;;
	"1 completion") all="bash zsh" ;;
	esac
	COMPREPLY=($(compgen -W "$all" -- "$word"))
}
complete -F _xrayctl xrayctl
`
