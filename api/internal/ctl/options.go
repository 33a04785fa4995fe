package ctl

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// options are what begins with "--".
type options struct {
	json, help bool
	text       map[string]string
	given      map[string]bool
}

// option is one row of the help. A flag has no value.
type option struct {
	name, value, text string
}

// table is every option; the first rows are common to all commands.
var table = []option{
	{"url", "URL", "the api; XRAYCTL_URL, else http://127.0.0.1:8080"},
	{"token-file", "FILE", "an operator's or a viewer's token; XRAYCTL_TOKEN_FILE, else the token itself in XRAYCTL_TOKEN"},
	{"json", "", "print the api's answer as it came, for scripts"},
	{"help", "", "show help"},
	{"stored", "", "publish the copy that is stored, instead of the reviewed one"},
	{"call", "ID", "only this call (the run_id of a run)"},
	{"session", "ID", "only this session"},
	{"tool", "NAME", "only this tool or operation"},
	{"skill", "NAME", "only this skill"},
	{"decision", "allow|deny", "only what was allowed, or only what was refused"},
	{"since", "TIME", "from this time on: 2026-01-31, \"2026-01-31 12:00:00\" (UTC), or 2h for two hours ago"},
	{"until", "TIME", "before this time"},
	{"limit", "N", "how many events, 1-500; 20 when absent. The newest are shown"},
	{"head", "HASH", "verify: a head that was kept elsewhere must occur"},
	{"file", "FILE", "audit verify: check an exported file instead of the record; sop: the document"},
	{"confirm-class", "", "enable: an external skill whose author wrote no class is safe"},
	{"all", "", "approvals: also those that are over"},
	{"reason", "TEXT", "why, for the record"},
	{"key", "FILE", "sop sign: the private key, PEM (PKCS #8)"},
	{"keys", "FILE", "sop verify: the public keys, PEM"},
	{"signature", "FILE", "sop: the detached signature, base64"},
	{"daily", "N", "runs a day of the whole deployment; 0: no limit"},
	{"timeout", "MS", "time limit of a run in milliseconds, 5000-120000"},
}

const commonOptions = 4

func common(name string) bool {
	return slices.ContainsFunc(table[:commonOptions], func(o option) bool { return o.name == name })
}

// parse takes options anywhere on the line: people write them where they think of them.
func parse(args []string) (options, []string, error) {
	o := options{text: map[string]string{}, given: map[string]bool{}}
	var rest []string
	for i := 0; i < len(args); i++ {
		if args[i] == "-h" {
			args[i] = "--help"
		}
		name, isOption := strings.CutPrefix(args[i], "--")
		switch {
		case isOption:
		case len(args[i]) > 1 && args[i][0] == '-':
			return o, nil, usage{fmt.Sprintf("there is no option %s: options begin with --; xrayctl help lists them", args[i])}
		default:
			rest = append(rest, args[i])
			continue
		}
		name, value, inline := strings.Cut(name, "=")
		row := slices.IndexFunc(table, func(o option) bool { return o.name == name })
		switch {
		case row < 0:
			return o, nil, usage{fmt.Sprintf("there is no option --%s; xrayctl help lists them", name)}
		case o.given[name]:
			return o, nil, usage{"--" + name + " is given twice"}
		case table[row].value == "" && inline:
			return o, nil, usage{"--" + name + " has no value"}
		case table[row].value != "" && !inline:
			if i++; i == len(args) {
				return o, nil, usage{"--" + name + " needs a value: " + table[row].value}
			}
			value = args[i]
		}
		if table[row].value != "" && value == "" { // a variable of a script that is not set: what stands in for it is not what is meant
			return o, nil, usage{"--" + name + " has an empty value; it needs " + table[row].value}
		}
		o.given[name], o.text[name] = true, value
	}
	o.json, o.help = o.given["json"], o.given["help"]
	return o, rest, nil
}

func help(w io.Writer) error {
	text := "Xrayctl is the operator's command line of xray-runner.\n\nusage: xrayctl [OPTION...] COMMAND [ARGUMENT...]\n\n"
	for _, c := range commands() {
		text += fmt.Sprintf("  %-28s %s\n", strings.TrimSpace(c.name+" "+c.args), c.text)
	}
	text += "\nxrayctl help COMMAND says more.\n\nFor every command:\n" + helpOptions(table[:commonOptions]) + `
The opening order: publish and enable a skill, set XRAY_UNLOCK_DANGEROUS_TOOLS=1
at the api, tools on skill_load, tools on skill_run. Each stop works alone:
tools off skill_run, disable NAME, or stopping the runner.

Exit codes: 0 done; 1 no connection, or the api failed; 2 a wrong command line;
3 refused, with the code on standard error; 4 the answer is not good (not ready,
drift, a record that is not whole, a run that did not end ok); 130 interrupted.
`
	_, err := io.WriteString(w, text)
	return err
}

func helpOf(w io.Writer, c command) error {
	text := "usage: xrayctl " + strings.TrimSpace(c.name+" "+c.args) + "\n\n" + c.text + "\n"
	if c.more != "" {
		text += "\n" + c.more
	}
	if len(c.flags) > 0 {
		text += "\nOptions:\n"
	}
	for _, name := range c.flags {
		row := slices.IndexFunc(table, func(o option) bool { return o.name == name })
		text += helpOptions(table[row : row+1])
	}
	_, err := io.WriteString(w, text+"\nFor every command:\n"+helpOptions(table[:commonOptions]))
	return err
}

func helpOptions(rows []option) string {
	text := ""
	for _, o := range rows {
		text += fmt.Sprintf("  --%-20s %s\n", strings.TrimSpace(o.name+" "+o.value), o.text)
	}
	return text
}
