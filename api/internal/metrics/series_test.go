package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"xrayrunner/api/internal/metrics"
	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

func seriesOf(t *testing.T, m *metrics.Metrics, encoding string) (string, http.Header) {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept-Encoding", encoding)
	m.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w.Body.String(), w.Header()
}

// TestSeriesAreBounded: whatever a caller writes, the number of series is bounded and none holds any of it.
func TestSeriesAreBounded(t *testing.T) {
	m := metrics.New()
	for _, c := range [][2]string{
		{guard.ToolRun, "allow"}, {guard.ToolRun, "allow"}, {guard.ToolRun, string(guard.QuotaTurn)}, {"guard_check", string(guard.GuardError)},
		{"secret-tool", "allow"}, {guard.ToolList, "secret-decision"}, {guard.ToolLoad, ""}, {"", string(protocol.BadRequest)},
	} {
		m.Decided(c[0], c[1])
	}
	want := `# HELP xray_api_calls_total Calls of agents' tools, by decision.
# TYPE xray_api_calls_total counter
xray_api_calls_total{decision="allow",tool="other"} 1
xray_api_calls_total{decision="allow",tool="skill_run"} 2
xray_api_calls_total{decision="bad_request",tool="other"} 1
xray_api_calls_total{decision="guard_error",tool="guard_check"} 1
xray_api_calls_total{decision="other",tool="skill_list"} 1
xray_api_calls_total{decision="other",tool="skill_load"} 1
xray_api_calls_total{decision="quota_turn",tool="skill_run"} 1
`
	got, header := seriesOf(t, m, "gzip, zstd") // two texts are put together, so it is never compressed
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if kind := header.Get("Content-Type"); !strings.HasPrefix(kind, "text/plain") || header.Get("Content-Encoding") != "" {
		t.Errorf("%v", header)
	}
	problems, err := promlint.New(strings.NewReader(got)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	for range 100 {
		for _, r := range protocol.Refusals {
			m.Decided(guard.ToolRun, string(r.Code))
		}
	}
	got, _ = seriesOf(t, m, "")
	if n := strings.Count(got, "\nxray_api_calls_total{"); n > 7+len(protocol.Refusals) {
		t.Errorf("%d series", n)
	}
}
