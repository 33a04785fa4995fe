package xrayrunner_test

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"

	"xrayrunner/internal/sop"
)

// The commands of stories about approvals: token ENV NAME ROLE [MODE], become TOKEN (the agent's), operator-as TOKEN TOOL
// [JSON], agent-tools (names), keep ENV REGEXP (of the last stdout), keypair ed25519|rsa FILE, procedure FILE SKILL SCRIPT [past].
var approvalCommands = map[string]func(*testscript.TestScript, bool, []string){
	"token": cmdToken, "become": cmdBecome, "operator-as": cmdOperatorAs, "agent-tools": cmdAgentTools, "keep": cmdKeep, "keypair": cmdKeypair, "procedure": cmdProcedure,
}

func cmdToken(ts *testscript.TestScript, _ bool, args []string) {
	body := map[string]string{"name": args[1], "role": args[2]}
	if len(args) > 3 {
		body["permission_mode"] = args[3]
	}
	raw, err := json.Marshal(body)
	ts.Check(err)
	status, answer, err := of(ts).rest(context.Background(), operatorToken, http.MethodPost, "/v1/tokens", string(raw))
	ts.Check(err)
	if status != http.StatusOK {
		ts.Fatalf("HTTP %d: %s", status, answer)
	}
	ts.Setenv(args[0], field(answer, "secret"))
}

func cmdBecome(ts *testscript.TestScript, _ bool, args []string) {
	st := of(ts)
	if st.agent != nil {
		_ = st.agent.Close() // a stream that its server has ended already is closed too
		st.agent = nil
	}
	_, err := connect(&st.agent, st.url+"/mcp", args[0])
	ts.Check(err)
}

func cmdOperatorAs(ts *testscript.TestScript, neg bool, args []string) {
	var c *mcp.ClientSession
	_, err := connect(&c, of(ts).url+"/mcp/operator", args[0])
	ts.Check(err)
	defer c.Close()
	call(ts, neg, c, params(args[1:]))
}

func cmdAgentTools(ts *testscript.TestScript, _ bool, _ []string) {
	st := of(ts)
	c, err := connect(&st.agent, st.url+"/mcp", agentToken)
	ts.Check(err)
	list, err := c.ListTools(context.Background(), nil)
	ts.Check(err)
	for _, tool := range list.Tools {
		fmt.Fprintln(ts.Stdout(), tool.Name)
	}
}

func cmdKeep(ts *testscript.TestScript, _ bool, args []string) {
	found := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) < 2 {
		ts.Fatalf("%q is not in %s", args[1], ts.ReadFile("stdout"))
	}
	ts.Setenv(args[0], found[1])
}

func cmdKeypair(ts *testscript.TestScript, _ bool, args []string) {
	var key crypto.Signer
	var err error
	if args[0] == "rsa" {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		_, key, err = ed25519.GenerateKey(rand.Reader)
	}
	ts.Check(err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	ts.Check(os.WriteFile(filepath.Join(of(ts).dir, args[1]+".pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o644))
}

// cmdProcedure writes the document for a script as it is now, valid for a week from yesterday, or until yesterday.
func cmdProcedure(ts *testscript.TestScript, _ bool, args []string) {
	script, err := os.ReadFile(filepath.Join(of(ts).dir, "skills", args[1], args[2]))
	ts.Check(err)
	sum := sha256.Sum256(script)
	yesterday := time.Now().UTC().Truncate(time.Second).Add(-24 * time.Hour)
	d := sop.Document{Kind: sop.Kind, Title: "Wipe it", Skill: args[1], Script: args[2], ScriptSHA256: hex.EncodeToString(sum[:]), NotBefore: yesterday, NotAfter: yesterday.Add(7 * 24 * time.Hour)}
	if len(args) > 3 {
		d.NotBefore, d.NotAfter = yesterday.Add(-time.Hour), yesterday
	}
	raw, err := json.Marshal(d)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), raw, 0o644))
}
