// Package operations is the one description of what an operator can do. The MCP tools, the REST calls and the command
// line are all made from it, so that none of them can do what another cannot, under another name or with other words.
package operations

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Operation is one thing that can be done. Its arguments are one flat JSON object; over REST those in the path come from
// there, those of a GET or DELETE from the query, and the rest from the body.
type Operation struct {
	Name   string // of the MCP tool
	Method string
	Path   string // {x} is an argument
	Reads  bool   // changes nothing: a viewer may, too
	Text   string
	Args   []Arg
}

// Arg is one argument. Its zero Kind is a string.
type Arg struct {
	Name     string
	Kind     Kind
	Required bool
	Text     string
	Enum     []string
	Min, Max int // of an integer; of a string's length when Max is set
}

// Kind is a JSON type.
type Kind string

// The kinds of arguments.
const (
	String  Kind = "string"
	Boolean Kind = "boolean"
	Integer Kind = "integer"
	Object  Kind = "object"
)

const maxName = 128

var (
	skillName = Arg{Name: "name", Required: true, Text: "name of the skill", Max: maxName}
	filePath  = Arg{Name: "path", Required: true, Text: "path of the file inside the skill's folder", Max: 512}
	encoding  = Arg{Name: "encoding", Text: "how content is written; text when absent", Enum: []string{"text", "base64"}}
	requestID = Arg{Name: "id", Required: true, Text: "id of the request", Max: 64}
	reason    = Arg{Name: "reason", Text: "why, for the record; the agent reads it when it is a refusal", Max: 500}
	filter    = []Arg{
		{Name: "call", Text: "id of a call (the run_id of a run)", Max: maxName},
		{Name: "session", Text: "id of a session", Max: maxName},
		{Name: "tool", Text: "name of a tool, or of an operation", Max: maxName},
		{Name: "skill", Text: "name of a skill", Max: maxName},
		{Name: "decision", Text: "what the guard decided", Enum: []string{"allow", "deny"}},
		{Name: "since", Text: "from this time on, like 2026-01-31T12:00:00Z", Max: 40},
		{Name: "until", Text: "before this time", Max: 40},
		{Name: "after_seq", Kind: Integer, Text: "only events after this number", Max: 1 << 53},
	}
)

// All is every operation, in the order in which an operator meets them.
var All = []Operation{
	{Name: "status", Method: "GET", Path: "/v1/status", Reads: true, Text: "Say how the deployment is: version, runner, store, record, switches, limits, skills by state."},
	{Name: "skills_list", Method: "GET", Path: "/v1/skills", Reads: true, Text: "List the skills (scope runner) and the api's own tools (scope api): kind, class, published, open to agents."},
	{Name: "skills_agent_status", Method: "GET", Path: "/v1/agent_status", Reads: true, Text: "Say for each skill: stored? published? open to agents? same or drift? available, and if not, why."},
	{Name: "skills_get", Method: "GET", Path: "/v1/skills/{name}/stored", Reads: true, Text: "Show one skill and its stored files, each with its digest and whether it is the reviewed one.", Args: []Arg{skillName}},
	{Name: "skills_put", Method: "PUT", Path: "/v1/skills/{name}/stored", Text: "Store a copy of a skill in place of the one that is stored. What differs from the reviewed files is drift: not offered.", Args: []Arg{skillName,
		{Name: "files", Kind: Object, Required: true, Text: "path -> {content, encoding (text or base64), exec}"}}},
	{Name: "skills_delete", Method: "DELETE", Path: "/v1/skills/{name}/stored", Text: "Forget the stored copy of a skill and its switches.", Args: []Arg{skillName}},
	{Name: "skills_publish", Method: "POST", Path: "/v1/skills/{name}/publish", Text: "Publish a skill. Its copy is taken from the reviewed ones that this image carries, or left as it is stored.", Args: []Arg{skillName,
		{Name: "from", Text: "image (when absent): store the reviewed copy first; stored: publish what is stored", Enum: []string{"image", "stored"}}}},
	{Name: "skills_unpublish", Method: "POST", Path: "/v1/skills/{name}/unpublish", Text: "Take a skill back; its stored copy stays. It binds at the next call.", Args: []Arg{skillName}},
	{Name: "skills_file_put", Method: "PUT", Path: "/v1/skills/{name}/file", Text: "Store one file of a skill.", Args: []Arg{skillName, filePath,
		{Name: "content", Required: true, Text: "the file's bytes, at most 40 KiB", Max: 40 << 10}, encoding, {Name: "exec", Kind: Boolean, Text: "the file has the executable bit"}}},
	{Name: "skills_file_delete", Method: "DELETE", Path: "/v1/skills/{name}/file", Text: "Delete one stored file of a skill.", Args: []Arg{skillName, filePath}},
	{Name: "skills_agent_set", Method: "PUT", Path: "/v1/skills/{name}/agent", Text: "Open a skill to agents (binds at the next turn) or close it (binds at the next call).", Args: []Arg{skillName,
		{Name: "enabled", Kind: Boolean, Required: true, Text: "true opens it"},
		{Name: "confirm_class", Kind: Boolean, Text: "an external skill whose author wrote no class: true confirms that it is safe"}}},
	{Name: "tools_list", Method: "GET", Path: "/v1/tools", Reads: true, Text: "List the api's own tools: scope, who may call them, and whether they are switched on."},
	{Name: "tool_config_get", Method: "GET", Path: "/v1/tool_config", Reads: true, Text: "Read the switches skill_load and skill_run, and whether skill_run is unlocked."},
	{Name: "tool_config_set", Method: "PUT", Path: "/v1/tool_config", Text: "Turn skill_load or skill_run on or off, for everybody, at the next call.", Args: []Arg{
		{Name: "tool", Required: true, Text: "which switch", Enum: []string{"skill_load", "skill_run"}}, {Name: "enabled", Kind: Boolean, Required: true, Text: "true turns it on"}}},
	{Name: "sandbox_config_get", Method: "GET", Path: "/v1/sandbox_config", Reads: true, Text: "Read the daily limit of runs and the time limit of a run."},
	{Name: "sandbox_config_set", Method: "PUT", Path: "/v1/sandbox_config", Text: "Set the daily limit of runs (0: none) and the time limit of a run in milliseconds.", Args: []Arg{
		{Name: "daily_run_limit", Kind: Integer, Required: true, Text: "runs a day of the whole deployment; 0: no limit", Max: 1 << 30},
		{Name: "total_timeout_ms", Kind: Integer, Required: true, Text: "milliseconds", Min: 5000, Max: 120000}}},
	{Name: "approvals_list", Method: "GET", Path: "/v1/approvals", Reads: true, Text: "List the requests to run what changes something that can still be decided or used: what would run, on which input, for whom.", Args: []Arg{
		{Name: "all", Kind: Boolean, Text: "also those that are over; the last 200"}}},
	{Name: "approvals_get", Method: "GET", Path: "/v1/approvals/{id}", Reads: true, Text: "Show one request.", Args: []Arg{requestID}},
	{Name: "approvals_approve", Method: "POST", Path: "/v1/approvals/{id}/approve", Text: "Approve a request, for one run of exactly this. Never your own; a dangerous one needs two operators and a signed procedure.", Args: []Arg{requestID, reason}},
	{Name: "approvals_deny", Method: "POST", Path: "/v1/approvals/{id}/deny", Text: "Refuse a request, or take back what was approved and is not yet used. One refusal is enough.", Args: []Arg{requestID, reason}},
	{Name: "sop_list", Method: "GET", Path: "/v1/procedures", Reads: true, Text: "List the signed procedures and whether each holds now."},
	{Name: "sop_put", Method: "PUT", Path: "/v1/procedures", Text: "Store a signed procedure in place of the one for the same script. It must hold now; the runner checks it again with its own keys.", Args: []Arg{
		{Name: "document", Required: true, Text: "the document, to the byte as it was signed", Max: 8 << 10}, {Name: "signature", Required: true, Text: "its detached signature in base64", Max: 2 << 10}}},
	{Name: "sop_delete", Method: "DELETE", Path: "/v1/procedures/{name}/{script}", Text: "Forget the procedure of a script.", Args: []Arg{skillName,
		{Name: "script", Required: true, Text: "name of the script", Max: maxName}}},
	{Name: "tokens_list", Method: "GET", Path: "/v1/tokens", Reads: true, Text: "List the tokens; their secrets are not kept."},
	{Name: "tokens_create", Method: "POST", Path: "/v1/tokens", Text: "Make a token. Its secret is in the answer, once.", Args: []Arg{
		{Name: "name", Required: true, Text: "1 to 64 of a-z 0-9 -", Max: 64}, {Name: "role", Required: true, Text: "what it opens", Enum: []string{"agent", "viewer", "operator"}},
		{Name: "permission_mode", Text: "the ceiling of its calls; read-only when absent", Enum: []string{"read-only", "mutating-with-confirm", "dual-sign-required"}}}},
	{Name: "tokens_revoke", Method: "DELETE", Path: "/v1/tokens/{name}", Text: "End a token, at once.", Args: []Arg{{Name: "name", Required: true, Text: "name of the token", Max: 64}}},
	{Name: "audit_search", Method: "GET", Path: "/v1/audit", Reads: true, Text: "Search the record.", Args: append(slices.Clone(filter),
		Arg{Name: "limit", Kind: Integer, Text: "how many events; 100 when absent", Min: 1, Max: 500}, Arg{Name: "newest", Kind: Boolean, Text: "the newest first"})},
	{Name: "audit_verify", Method: "GET", Path: "/v1/audit/verify", Reads: true, Text: "Check that the record is whole.", Args: []Arg{
		{Name: "head", Text: "a head that was kept elsewhere: without one a rewrite from some event to the end cannot be seen", Max: 64}}},
	Export,
}

// Export answers with many lines, so it is not an MCP tool.
var Export = Operation{Name: "audit_export", Method: "GET", Path: "/v1/audit/export", Reads: true, Text: "Give the record as JSON lines.", Args: filter}

// Find finds an operation by its name.
func Find(name string) (Operation, bool) {
	i := slices.IndexFunc(All, func(o Operation) bool { return o.Name == name })
	if i < 0 {
		return Operation{}, false
	}
	return All[i], true
}

// Schema is the JSON Schema of the arguments.
func (o Operation) Schema() json.RawMessage {
	properties, required := map[string]any{}, []string{}
	for _, a := range o.Args {
		properties[a.Name] = a.schema()
		if a.Required {
			required = append(required, a.Name)
		}
	}
	s := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	raw, err := json.Marshal(s)
	if err != nil {
		panic("BUG: a schema does not marshal: " + err.Error())
	}
	return raw
}

func (a Arg) schema() map[string]any {
	s := map[string]any{"type": a.kind(), "description": a.Text}
	switch a.kind() {
	case Object:
		s["additionalProperties"] = true
	case Integer:
		s["minimum"], s["maximum"] = a.Min, a.Max
	case String:
		if a.Max > 0 {
			s["maxLength"] = a.Max
		}
		if len(a.Enum) > 0 {
			s["enum"] = a.Enum
		}
	}
	return s
}

func (a Arg) kind() Kind {
	if a.Kind == "" {
		return String
	}
	return a.Kind
}

// Check says what is wrong with decoded arguments, in words for a person; "" when nothing is.
func (o Operation) Check(args map[string]json.RawMessage) string {
	for name := range args {
		if !slices.ContainsFunc(o.Args, func(a Arg) bool { return a.Name == name }) {
			return o.Name + " has no argument " + strconv.Quote(clip(name))
		}
	}
	for _, a := range o.Args {
		raw, given := args[a.Name]
		switch {
		case !given && a.Required:
			return a.Name + " is missing: " + a.Text
		case given:
			if why := a.check(raw); why != "" {
				return a.Name + why
			}
		}
	}
	return ""
}

func (a Arg) check(raw json.RawMessage) string {
	switch a.kind() {
	case Boolean:
		if s := string(raw); s != "true" && s != "false" {
			return " must be true or false"
		}
	case Integer:
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil || n < int64(a.Min) || n > int64(a.Max) {
			return fmt.Sprintf(" must be a whole number from %d to %d", a.Min, a.Max)
		}
	case Object:
		if len(raw) == 0 || raw[0] != '{' {
			return " must be an object"
		}
	default:
		return a.checkString(raw)
	}
	return ""
}

func (a Arg) checkString(raw json.RawMessage) string {
	var s *string
	switch err := json.Unmarshal(raw, &s); {
	case err != nil || s == nil:
		return " must be a text"
	case a.Required && *s == "" && a.Name != "content":
		return " must not be empty"
	case a.Max > 0 && len(*s) > a.Max:
		return fmt.Sprintf(" must be at most %d bytes", a.Max)
	case len(a.Enum) > 0 && !slices.Contains(a.Enum, *s):
		return " must be one of " + strings.Join(a.Enum, ", ")
	}
	return ""
}

func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// InQuery reports whether arguments outside the path are in the query.
func (o Operation) InQuery() bool { return o.Method == "GET" || o.Method == "DELETE" }

// InPath reports whether an argument is in the path.
func (o Operation) InPath(arg string) bool { return strings.Contains(o.Path, "{"+arg+"}") }

// FromText turns a text of a path, a query or a command line into the argument's JSON.
func (a Arg) FromText(text string) json.RawMessage {
	if k := a.kind(); k == Boolean || k == Integer {
		return json.RawMessage(text) // Check says what is wrong with it
	}
	raw, err := json.Marshal(text)
	if err != nil {
		panic("BUG: a text does not marshal: " + err.Error())
	}
	return raw
}

// Request splits arguments into the path with its query, and the body; the body is nil when there is none.
func (o Operation) Request(args map[string]json.RawMessage) (path string, body []byte) {
	path = o.Path
	query, rest := url.Values{}, map[string]json.RawMessage{}
	for name, raw := range args {
		text := string(raw)
		var s string
		if json.Unmarshal(raw, &s) == nil {
			text = s
		}
		switch {
		case o.InPath(name):
			path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(text))
		case o.InQuery():
			query.Set(name, text)
		default:
			rest[name] = raw
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	if !o.InQuery() {
		var err error
		if body, err = json.Marshal(rest); err != nil {
			panic("BUG: arguments do not marshal: " + err.Error())
		}
	}
	return path, body
}
