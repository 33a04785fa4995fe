package metrics_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"xrayrunner/api/internal/metrics"
	"xrayrunner/guard"
	"xrayrunner/runner/protocol"
)

// TestLabelsAreClosedSets: a caller cannot make a series.
func TestLabelsAreClosedSets(t *testing.T) {
	m := metrics.New()
	for _, c := range []struct{ tool, decision, want string }{
		{guard.ToolRun, "allow", `decision="allow",tool="skill_run"`},
		{guard.ToolLoad, string(guard.SkillDrift), `decision="skill_drift",tool="skill_load"`},
		{"guard_check", string(protocol.Busy), `decision="busy",tool="guard_check"`},
		{guard.ToolList, string(guard.GuardError), `decision="guard_error",tool="skill_list"`},
		{"bash", "allow", `decision="allow",tool="other"`},
		{"", "", `decision="other",tool="other"`},
		{guard.ToolList, "ALLOW", `decision="other",tool="skill_list"`},
	} {
		m.Decided(c.tool, c.decision)
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if want := "xray_api_calls_total{" + c.want + "} 1"; !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s %s: no %s in\n%s", c.tool, c.decision, want, w.Body)
		}
	}
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 || len(families) == 0 {
		t.Errorf("lint of %d families: %v (%v)", len(families), problems, err)
	}
}
