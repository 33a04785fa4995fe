package settings_test

import (
	"strings"
	"testing"

	"xrayrunner/internal/settings"
)

var table = []settings.Setting{{Name: "RUNNER_QUEUE", Default: "64"}, {Name: "XRAY_DB", Default: "sqlite:x"}}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, env, wantErr, wantRemark string
	}{
		{"known", "RUNNER_QUEUE=8", "", ""},
		{"near a known RUNNER_ name", "RUNNER_QEUUE=8", "did you mean RUNNER_QUEUE?", ""},
		{"far from every RUNNER_ name", "RUNNER_TOOL_CACHE=/x", "", "RUNNER_TOOL_CACHE"},
		{"unknown XRAY_ name", "XRAY_WHATEVER=1", "unknown setting XRAY_WHATEVER", ""},
		{"near a known XRAY_ name", "XRAY_BD=1", "did you mean XRAY_DB?", ""},
		{"somebody else's", "PATH=/bin", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, remarks, err := settings.Read(table, []string{c.env})
			if (err == nil) != (c.wantErr == "") || err != nil && !strings.Contains(err.Error(), c.wantErr) {
				t.Fatalf("err = %v, want %q", err, c.wantErr)
			}
			if got := strings.Join(remarks, "\n"); !strings.Contains(got, c.wantRemark) || c.wantRemark == "" && got != "" {
				t.Errorf("remarks = %q, want %q", got, c.wantRemark)
			}
			if err == nil && v["XRAY_DB"] != "sqlite:x" {
				t.Errorf("default lost: %v", v)
			}
		})
	}
}
