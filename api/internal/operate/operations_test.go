package operate_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"xrayrunner/api/internal/apitest"
	"xrayrunner/api/internal/operate"
	"xrayrunner/api/internal/operations"
	"xrayrunner/api/internal/store"
	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

// do does one operation and gives its answer as decoded JSON, or the refusal's code.
func do(t *testing.T, r *apitest.Rig, name, args string) (map[string]any, guard.Code) {
	t.Helper()
	v, refused, err := r.Desk.Do(t.Context(), apitest.Operator, name, json.RawMessage(args))
	if err != nil {
		t.Fatalf("%s %s: %v", name, args, err)
	}
	if refused != nil {
		return nil, refused.Code
	}
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out, ""
}

// TestEveryOperationIsDone: what is described can be done, and refuses what its description does not have.
func TestEveryOperationIsDone(t *testing.T) {
	r := apitest.New(t)
	paths := map[string]bool{}
	for _, o := range operations.All {
		if key := o.Method + " " + o.Path; paths[key] {
			t.Errorf("%s twice", key)
		} else {
			paths[key] = true
		}
		if o.Name == operations.Export.Name {
			continue
		}
		if _, code := do(t, r, o.Name, `{"unheard":1}`); code != protocol.BadRequest {
			t.Errorf("%s with an argument that it does not have: %q", o.Name, code)
		}
		for _, a := range o.Args {
			if o.InPath(a.Name) && !a.Required {
				t.Errorf("%s: %s is in the path and not required", o.Name, a.Name)
			}
		}
	}
	if _, code := do(t, r, "nothing", `{}`); code != protocol.NotFound {
		t.Errorf("an unknown operation: %q", code)
	}
}

// TestDriftByFile: one byte, one file more, one less, one renamed, one mode changed: each is seen, named, not offered and
// refused; publishing the reviewed copy cures it.
func TestDriftByFile(t *testing.T) {
	for _, c := range []struct {
		name   string
		change [][2]string // operation, arguments
		want   []string
	}{
		{"one byte", [][2]string{{"skills_file_put", `{"name":"adds","path":"run.py","content":"print('{\"n\": 2}')\\n"}`}}, []string{"run.py differs from the reviewed file"}},
		{"one file more", [][2]string{{"skills_file_put", `{"name":"adds","path":"more.py","content":""}`}}, []string{"more.py is not in the manifest"}},
		{"one file less", [][2]string{{"skills_file_delete", `{"name":"adds","path":"run.py"}`}}, []string{"run.py is missing from the stored copy"}},
		{"renamed", [][2]string{{"skills_file_delete", `{"name":"adds","path":"run.py"}`}, {"skills_file_put", `{"name":"adds","path":"Run.py","content":"print('{\"n\": 1}')\\n"}`}},
			[]string{"Run.py is not in the manifest", "run.py is missing from the stored copy"}},
		{"mode", [][2]string{{"skills_file_put", `{"name":"adds","path":"run.py","exec":true,"encoding":"base64","content":"cHJpbnQoJ3sibiI6IDF9JykK"}`}}, []string{"run.py has another mode than the reviewed file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := apitest.New(t)
			r.Open(apitest.Adds)
			s := r.Session()
			for _, step := range c.change {
				if _, code := do(t, r, step[0], step[1]); code != "" {
					t.Fatalf("%v: %s", step, code)
				}
			}
			status := status(t, r, apitest.Adds)
			if diff := cmp.Diff(c.want, status.Drift); diff != "" || status.Copy != "drift" || status.Available || status.State() != "drift" {
				t.Errorf("%+v %s", status, diff)
			}
			detail, _ := do(t, r, "skills_get", `{"name":"adds"}`)
			text, err := json.Marshal(detail["files"])
			if err != nil || !strings.Contains(string(text), c.want[0][:strings.Index(c.want[0], " ")]) {
				t.Errorf("skills_get: %s (%v)", text, err)
			}
			for door, answer := range map[string]func() (guard.Code, error){
				"run": func() (guard.Code, error) {
					a, err := r.Calls.Run(t.Context(), r.Caller("rest"), s, apitest.Adds, apitest.Script, []byte(`{"n":1}`))
					return a.Refused.Code, err
				},
				"load": func() (guard.Code, error) {
					a, err := r.Calls.Load(t.Context(), r.Caller("rest"), s, apitest.Adds)
					return a.Refused.Code, err
				},
			} {
				if code, err := answer(); code != guard.SkillDrift || err != nil {
					t.Errorf("%s: %s (%v)", door, code, err)
				}
			}
			if a, err := r.Calls.List(t.Context(), r.Caller("rest"), s); err != nil || len(a.Skills) != 0 {
				t.Errorf("offered all the same: %+v (%v)", a.Skills, err)
			}
			if n := len(r.Runner.Seen()); n != 0 {
				t.Errorf("%d runs reached the runner", n)
			}
			if _, code := do(t, r, "skills_publish", `{"name":"adds"}`); code != "" {
				t.Fatal(code)
			}
			if a, err := r.Calls.Run(t.Context(), r.Caller("rest"), s, apitest.Adds, apitest.Script, []byte(`{"n":1}`)); err != nil || a.Refused != nil {
				t.Errorf("after publishing the reviewed copy: %+v (%v)", a.Refused, err)
			}
		})
	}
}

// TestStoredCopy: a copy that an operator puts is published as it is; unpublishing and deleting close the skill.
func TestStoredCopy(t *testing.T) {
	r := apitest.New(t)
	r.Open(apitest.Prose)
	if _, code := do(t, r, "skills_put", `{"name":"prose","files":{"SKILL.md":{"content":"---\nname: prose\ndescription: How to write.\n---\n\nWrite well.\n"}}}`); code != "" {
		t.Fatal(code)
	}
	if s := status(t, r, apitest.Prose); !s.Available {
		t.Errorf("the same bytes: %+v", s)
	}
	for _, step := range []struct{ name, args, state string }{
		{"skills_unpublish", `{"name":"prose"}`, "closed"}, {"skills_publish", `{"name":"prose","from":"stored"}`, "available"}, {"skills_delete", `{"name":"prose"}`, "closed"},
	} {
		if _, code := do(t, r, step.name, step.args); code != "" {
			t.Fatalf("%v: %s", step, code)
		}
		if s := status(t, r, apitest.Prose); s.State() != step.state {
			t.Errorf("after %s: %+v, want %s", step.name, s, step.state)
		}
	}
	for _, step := range []struct {
		name, args string
		want       guard.Code
	}{
		{"skills_delete", `{"name":"prose"}`, protocol.NotFound}, {"skills_publish", `{"name":"prose","from":"stored"}`, protocol.NotFound}, {"skills_publish", `{"name":"prose","from":"moon"}`, protocol.BadRequest},
		{"skills_unpublish", `{"name":"nope"}`, guard.UnknownSkill}, {"skills_put", `{"name":"nope","files":{}}`, guard.UnknownSkill}, {"skills_put", `{"name":"prose","files":{"a":{"contents":""}}}`, protocol.BadRequest},
		{"skills_file_put", `{"name":"prose","path":"x","content":"*","encoding":"base64"}`, protocol.BadRequest}, {"skills_file_put", `{"name":"prose","path":"","content":"x"}`, protocol.BadRequest},
		{"skills_file_put", `{"name":"prose","path":"x","content":"x"}`, protocol.NotFound}, {"skills_file_delete", `{"name":"prose","path":"x"}`, protocol.NotFound}, {"skills_get", `{"name":"nope"}`, guard.UnknownSkill},
	} {
		if _, code := do(t, r, step.name, step.args); code != step.want {
			t.Errorf("%v: %q", step, code)
		}
	}
}

// TestTokensByOperators: a token that is made opens at once and is on the record without its secret; one that is ended
// opens nothing.
func TestTokensByOperators(t *testing.T) {
	r := apitest.New(t)
	made, code := do(t, r, "tokens_create", `{"name":"ci","role":"agent"}`)
	secret, _ := made["secret"].(string)
	if code != "" || made["permission_mode"] != "read-only" {
		t.Fatalf("%v %s", made, code)
	}
	if tok, ok, err := r.Store.Authenticate(t.Context(), secret); err != nil || !ok || tok.Name != "ci" {
		t.Errorf("%+v %v %v", tok, ok, err)
	}
	for _, c := range []struct {
		name, args string
		want       guard.Code
	}{
		{"tokens_create", `{"name":"ci","role":"agent"}`, protocol.BadRequest}, {"tokens_create", `{"name":"A b","role":"agent"}`, protocol.BadRequest}, {"tokens_create", `{"name":"x","role":"root"}`, protocol.BadRequest},
		{"tokens_revoke", `{"name":"ci"}`, ""}, {"tokens_revoke", `{"name":"ci"}`, protocol.NotFound},
		{"tokens_revoke", `{"name":"operator"}`, protocol.BadRequest}, // the caller's own: that would lock him out
	} {
		if _, code := do(t, r, c.name, c.args); code != c.want {
			t.Errorf("%v: %q", c, code)
		}
	}
	if _, ok, err := r.Store.Authenticate(t.Context(), secret); err != nil || ok {
		t.Errorf("ended, and opens (%v)", err)
	}
	rows := append(r.Events("tokens_create"), r.Events("tokens_revoke")...)
	text, err := json.Marshal(rows)
	if err != nil || len(rows) != 2 || strings.Contains(string(text), secret) || rows[0]["token"] != "operator" {
		t.Errorf("the record: %s (%v)", text, err)
	}
}

// TestSearch: by each of what can be asked for.
func TestSearch(t *testing.T) {
	r := apitest.New(t)
	r.Open(apitest.Adds)
	s := r.Session()
	ran, err := r.Calls.Run(t.Context(), r.Caller("rest"), s, apitest.Adds, apitest.Script, []byte(`{"n":1}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Calls.Run(t.Context(), r.Caller("rest"), s, apitest.Adds, "none.py", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]int{
		`{"call":"` + ran.CallID + `"}`: 2, `{"session":"` + s.ID + `"}`: 4, `{"session":"` + s.ID + `","decision":"deny"}`: 2, `{"tool":"skill_run","limit":1,"newest":true}`: 1,
		`{"skill":"adds","tool":"skills_publish"}`: 1, `{"since":"2100-01-01T00:00:00Z"}`: 0, `{"until":"2020-01-01T00:00:00Z"}`: 0, `{"tool":"none"}`: 0,
	} {
		got, code := do(t, r, "audit_search", args)
		if events, _ := got["events"].([]any); code != "" || len(events) != want {
			t.Errorf("%s: %d events, %s, want %d", args, len(events), code, want)
		}
	}
	if _, code := do(t, r, "audit_search", `{"since":"yesterday"}`); code != protocol.BadRequest {
		t.Errorf("a time that is none: %q", code)
	}
}

// TestOwnTools: the api's own tools stand beside the skills, with their scope and the state of their switch.
func TestOwnTools(t *testing.T) {
	r := apitest.New(t)
	r.Open()
	find := func(name string) operate.OwnTool {
		t.Helper()
		all, err := r.Desk.OwnTools(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(o operate.OwnTool) bool { return o.Name == name })
		if i < 0 {
			t.Fatalf("no %s", name)
		}
		return all[i]
	}
	if run := find("skill_run"); !run.Enabled || run.Scope != "api" || !slices.Equal(run.Roles, []string{"agent"}) {
		t.Errorf("%+v", run)
	}
	r.Desk.Unlock = false
	if find("skill_run").Enabled {
		t.Error("enabled without the key")
	}
	if o := find("skills_delete"); !slices.Equal(o.Roles, []string{string(store.RoleOperator)}) || o.Reads {
		t.Errorf("%+v", o)
	}
	list, _ := do(t, r, "skills_list", `{}`)
	if list["tools"] == nil || list["skills"] == nil {
		t.Errorf("%v", list)
	}
	o, code := do(t, r, "status", `{}`)
	if code != "" || o["version"] != "test" || o["record"].(map[string]any)["head"] == "" {
		t.Errorf("%v", o)
	}
}
