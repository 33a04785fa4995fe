package xrayrunner_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

func deployed(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile("deploy/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestEachAlertFires: Prometheus' own evaluator fires each rule once, on series that call for it, and not before.
func TestEachAlertFires(t *testing.T) {
	rules, tests := deployed(t, "alerts.yml"), deployed(t, "alerts_test.yml")
	alerts := regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(rules, -1)
	if len(alerts) < 10 {
		t.Errorf("only %d alerts", len(alerts))
	}
	for _, a := range alerts {
		if !regexp.MustCompile(`alertname: ` + a[1] + `\n\s+exp_alerts:\n\s+- exp_labels`).MatchString(tests) {
			t.Errorf("no test fires %s", a[1])
		}
	}
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is not installed; scripts/install-missing tests installs it (Debian: prometheus)")
	}
	for _, args := range [][]string{{"check", "rules", "deploy/alerts.yml"}, {"test", "rules", "deploy/alerts_test.yml"}} {
		if out, err := exec.Command("promtool", args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}

// TestDeployedSeriesExist: alerts and dashboard use only series that api or runner have; a renamed one would never fire.
func TestDeployedSeriesExist(t *testing.T) {
	source := ""
	for _, file := range []string{"api/internal/metrics/metrics.go", "api/internal/metrics/snapshot.go", "runner/internal/server/record.go"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source += string(raw)
	}
	dashboard := deployed(t, "dashboard.json")
	if !json.Valid([]byte(dashboard)) {
		t.Error("dashboard.json is not JSON")
	}
	used := regexp.MustCompile(`\bxray_(?:api|runner)_\w+`).FindAllString(deployed(t, "alerts.yml")+dashboard, -1)
	if len(used) < 20 {
		t.Errorf("only %d series are used", len(used))
	}
	for _, name := range used {
		name = strings.TrimSuffix(name, "_bucket")
		if short := strings.TrimPrefix(name, "xray_api_"); !strings.Contains(source, `"`+name+`"`) && !strings.Contains(source, `desc("`+short+`"`) {
			t.Errorf("nobody has the series %s", name)
		}
	}
}
