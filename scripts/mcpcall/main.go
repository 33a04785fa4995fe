// Mcpcall makes tool calls through a real MCP client, in one connection, and prints the text of each answer.
//
//	mcpcall --url http://127.0.0.1:8080/mcp --token-file var/tokens/agent [--turn NAME] TOOL [ARGUMENTS [TOOL ARGUMENTS …]]
//
// --turn names the turn that the calls belong to; another name begins another turn.
// ARGUMENTS are JSON. It stops at the first answer that is an error, with exit code 5; 1 is a failure of the
// connection or the protocol, 2 a wrong command line.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

var errTool = errors.New("the tool answered with an error")

func main() {
	url := flag.String("url", "http://127.0.0.1:8080/mcp", "endpoint")
	tokenFile := flag.String("token-file", "", "file with the bearer token")
	turn := flag.String("turn", "", "name of the turn")
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	err := run(*url, *tokenFile, *turn, flag.Args())
	switch {
	case errors.Is(err, errTool):
		os.Exit(5)
	case err != nil:
		fmt.Fprintln(os.Stderr, "mcpcall: "+err.Error())
		os.Exit(1)
	}
}

func run(url, tokenFile, turn string, args []string) error {
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "mcpcall", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(strings.TrimSpace(string(token)))}}, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	for len(args) > 0 {
		call := mcp.CallToolParams{Name: args[0]}
		args = args[1:]
		if turn != "" {
			call.Meta = mcp.Meta{"xray/turn": turn}
		}
		if len(args) > 0 {
			call.Arguments = json.RawMessage(args[0])
			args = args[1:]
		}
		if err := once(ctx, session, &call); err != nil {
			return err
		}
	}
	return nil
}

func once(ctx context.Context, session *mcp.ClientSession, call *mcp.CallToolParams) error {
	answer, err := session.CallTool(ctx, call)
	if err != nil {
		return fmt.Errorf("%s: %w", call.Name, err)
	}
	for _, c := range answer.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			fmt.Println(t.Text)
		}
	}
	if answer.IsError {
		return errTool
	}
	return nil
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}
