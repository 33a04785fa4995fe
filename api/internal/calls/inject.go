package calls

import (
	"context"
	"encoding/json"
	"fmt"

	"xrayrunner/api/internal/store"
	"xrayrunner/api/internal/trace"
)

// Inject gives the block for a system prompt: what is open to this session now. It is on the record by its length and
// the names in it, so that a trace shows what the agent was told.
func (s *Service) Inject(ctx context.Context, c Caller, sess store.Session) (string, error) {
	set, err := s.Offer(ctx)
	if err != nil {
		return "", err
	}
	summaries := Summaries(set.For(sess))
	block := AvailableSkills(summaries)
	names := []string{}
	for _, k := range summaries {
		names = append(names, k.Name)
	}
	told, err := json.Marshal(map[string]any{"systemPromptDelta": fmt.Sprintf("+%d", len(block)), "skills": names})
	if err != nil {
		return "", err
	}
	call := s.call(c, sess, trace.BeforeAgentStart)
	if _, err := s.Store.Begin(ctx, call, func(store.State) store.Verdict { return store.Verdict{Allowed: true} }); err != nil {
		return "", err
	}
	return block, s.end(ctx, call, store.Closing{Outcome: "ok", Started: true, Result: told})
}
