// Package config holds the runner's settings: one table, read once, checked whole.
package config

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"xrayrunner/internal/settings"
	"xrayrunner/manifests"
	"xrayrunner/runner/internal/mounts"
)

// Table is every setting of the runner. The README's table is tested against it.
var Table = []settings.Setting{
	{Name: "RUNNER_LISTEN", Default: "unix:///run/xray/runner.sock", Text: "where it listens: `unix:///path`, or for development `tcp://host:port` (loopback, or any address with RUNNER_DEV=1)"},
	{Name: "RUNNER_SKILLS_DIR", Default: "/opt/xray/skills", Text: "the reviewed skills"},
	{Name: "RUNNER_MANIFEST", Default: "/opt/xray/manifest.json", Text: "the lock file"},
	{Name: "RUNNER_WORK_DIR", Default: "/work", Text: "where each run gets its own empty folder; a tmpfs with a size"},
	{Name: "RUNNER_MAX_CONCURRENT", Default: "0", Text: "runs at once; 0: the number of CPUs, and what the container's memory allows"},
	{Name: "RUNNER_QUEUE", Default: "64", Text: "runs that may wait for a place, 0-1000; one more is refused with `busy`"},
	{Name: "RUNNER_ISOLATION", Default: "auto", Text: "`auto`: namespaces where the host grants them; `landlock`: never; `namespaces`: or it does not start"},
	{Name: "RUNNER_MIN_ISOLATION", Default: "landlock,seccomp", Text: "layers without which the runner does not start, comma-separated"},
	{Name: "RUNNER_NETWORK", Default: "none", Text: "`none`: any interface or route but loopback makes it not ready (`egress` comes later)"},
	{Name: "RUNNER_MAX_CLASS", Default: "safe", Text: "the highest class that it runs: `safe`, `mutating`, `dangerous`; the api cannot lift it"},
	{Name: "RUNNER_EXTERNAL_DIRS", Default: "", Text: "folders below which every `skill.json` is an external skill: absolute paths separated by `:` or `,`"},
	{Name: "XRAY_SKILLS_EXTERNAL_DIRS", Default: "", Text: "another name for RUNNER_EXTERNAL_DIRS"},
	{Name: "ONGRID_SKILLS_EXTERNAL_DIRS", Default: "", Text: "another name for RUNNER_EXTERNAL_DIRS"},
	{Name: "RUNNER_EXTERNAL_ENV_FILE", Default: "", Text: "file of NAME=VALUE lines: the values of variables that external skills name in env_allow"},
	{Name: "RUNNER_EXTERNAL_ENV_UNSAFE", Default: "", Text: "loader and interpreter variables, comma-separated, that env_allow may name all the same"},
	{Name: "RUNNER_MOUNTS", Default: "", Text: "folders that skills may name, `name=/path:ro` or `name=/path:rw`, comma-separated; granted to the runs of such a skill alone"},
	{Name: "RUNNER_SOP_KEYS", Default: "", Text: "PEM file of the public keys (Ed25519, RSA) whose signed procedures count; without one nothing dangerous runs"},
	{Name: "RUNNER_ALLOW_UIDS", Default: "", Text: "user ids that may call over the socket, comma-separated; empty: whoever the socket's mode lets in, but not the runner's own uid, which scripts share"},
	{Name: "RUNNER_DEV", Default: "", Text: "`1` allows TCP on an address other than loopback and the presence of a network; said in the log and in /healthz"},
	{Name: "RUNNER_TOKEN", Default: "", Text: "bearer token for TCP, at least 16 characters", Secret: true},
	{Name: "RUNNER_WARM", Default: "on", Text: "`on`: runs of scripts with `\"warm\": true` are forked from a prepared interpreter, in either tier; `off`: every run is a cold start"},
	{Name: "RUNNER_WARM_MEMORY", Default: "0", Text: "MiB for prepared interpreters and waiting forks, 0-4096; 0: a quarter of the container's limit"},
	{Name: "RUNNER_SHIM", Default: "", Text: "the confinement shim; empty: `xray-shim` beside the runner's binary. `xray-cell.so`, for warm starts, and `xray-jail`, for the tier namespaces, lie beside it"},
}

// Config is the runner's settings, checked.
type Config struct {
	Socket        string // path; empty when TCP is used
	TCP           string // host:port
	Token         string
	Dev           bool
	SkillsDir     string
	Manifest      string
	WorkDir       string
	Slots         int // 0: decide from CPUs and memory
	Queue         int
	Isolation     string
	MinIsolation  []string
	Network       string
	MaxClass      manifests.Class
	SOPKeys       string // path; empty: none
	ExternalDirs  []string
	ExternalEnv   string       // path of the file of values; empty: none
	UnsafeEnv     []string     // names
	Mounts        mounts.Table // as configured; not looked at yet
	AllowUIDs     []uint32
	Warm          bool
	WarmMemory    uint64 // bytes; 0: decide from the container's limit
	Shim          string
	StartRemarks  []string // for the log
	DefaultedCPUs int
}

// MinTokenLength keeps words such as "undefined" from being a password (bug-ops/zeph#6268 and its kin).
const MinTokenLength = 16

// Load reads and checks everything; the error names the setting and what to write instead.
func Load(environ []string) (Config, error) {
	v, remarks, err := settings.Read(Table, environ)
	if err != nil {
		return Config{}, err
	}
	c := Config{
		SkillsDir: v["RUNNER_SKILLS_DIR"], Manifest: v["RUNNER_MANIFEST"], WorkDir: v["RUNNER_WORK_DIR"],
		Isolation: v["RUNNER_ISOLATION"], Network: v["RUNNER_NETWORK"], MaxClass: manifests.Class(v["RUNNER_MAX_CLASS"]),
		Token: v["RUNNER_TOKEN"], Dev: v["RUNNER_DEV"] == "1", Shim: v["RUNNER_SHIM"], SOPKeys: v["RUNNER_SOP_KEYS"],
		StartRemarks: remarks, DefaultedCPUs: runtime.NumCPU(),
	}
	for _, check := range []func(*Config, settings.Values) error{listen, numbers, warm, isolation, externals, folders, uids, paths} {
		if err := check(&c, v); err != nil {
			return Config{}, err
		}
	}
	return c, nil
}

func listen(c *Config, v settings.Values) error {
	l := v["RUNNER_LISTEN"]
	if path, ok := strings.CutPrefix(l, "unix://"); ok {
		c.Socket = path
		if !filepath.IsAbs(path) {
			return fmt.Errorf("RUNNER_LISTEN=%s: write an absolute path, unix:///run/xray/runner.sock", l)
		}
		return nil
	}
	addr, ok := strings.CutPrefix(l, "tcp://")
	if !ok {
		return fmt.Errorf("RUNNER_LISTEN=%s: write unix:///path or tcp://127.0.0.1:port", l)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("RUNNER_LISTEN=%s: %w", l, err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("RUNNER_LISTEN=%s: write a port from 1 to 65535", l)
	}
	if ip := net.ParseIP(host); (ip == nil || !ip.IsLoopback()) && !c.Dev {
		return fmt.Errorf("RUNNER_LISTEN=%s: an address other than loopback needs RUNNER_DEV=1", l)
	}
	if len(c.Token) < MinTokenLength {
		return fmt.Errorf("RUNNER_TOKEN: TCP needs a token of at least %d characters", MinTokenLength)
	}
	c.TCP = addr
	return nil
}

func numbers(c *Config, v settings.Values) error {
	for _, n := range []struct {
		name string
		to   *int
		most int
	}{{"RUNNER_MAX_CONCURRENT", &c.Slots, 256}, {"RUNNER_QUEUE", &c.Queue, 1000}} {
		got, err := strconv.Atoi(v[n.name])
		if err != nil || got < 0 || got > n.most {
			return fmt.Errorf("%s=%q: write a whole number from 0 to %d", n.name, v[n.name], n.most)
		}
		*n.to = got
	}
	return nil
}

func warm(c *Config, v settings.Values) error {
	switch v["RUNNER_WARM"] {
	case "on", "off":
		c.Warm = v["RUNNER_WARM"] == "on"
	default:
		return fmt.Errorf("RUNNER_WARM=%q: write on or off", v["RUNNER_WARM"])
	}
	mib, err := strconv.ParseUint(v["RUNNER_WARM_MEMORY"], 10, 64)
	if err != nil || mib > 4096 {
		return fmt.Errorf("RUNNER_WARM_MEMORY=%q: write a whole number of MiB from 0 to 4096", v["RUNNER_WARM_MEMORY"])
	}
	c.WarmMemory = mib << 20
	return nil
}

// Layers that RUNNER_MIN_ISOLATION may name, as sandbox.Posture names them.
var layers = []string{"no_new_privs", "rlimits", "oom_score_adj", "landlock", "landlock_net", "landlock_scope", "seccomp", "signals", "sweep", "watch", "cgroup", "namespaces"}

func isolation(c *Config, v settings.Values) error {
	if !slices.Contains([]string{"auto", "landlock", "namespaces"}, c.Isolation) {
		return fmt.Errorf("RUNNER_ISOLATION=%q: write auto, landlock or namespaces", c.Isolation)
	}
	if c.Network != manifests.NetworkNone {
		return fmt.Errorf("RUNNER_NETWORK=%q: this version knows only none", c.Network)
	}
	if c.MaxClass.Rank() == 0 {
		return fmt.Errorf("RUNNER_MAX_CLASS=%q: write safe, mutating or dangerous", c.MaxClass)
	}
	for l := range strings.SplitSeq(v["RUNNER_MIN_ISOLATION"], ",") {
		l = strings.TrimSpace(l)
		if !slices.Contains(layers, l) {
			return fmt.Errorf("RUNNER_MIN_ISOLATION: unknown layer %q; known are %s", l, strings.Join(layers, ", "))
		}
		c.MinIsolation = append(c.MinIsolation, l)
	}
	if c.Isolation == "namespaces" && !slices.Contains(c.MinIsolation, "namespaces") {
		c.MinIsolation = append(c.MinIsolation, "namespaces")
	}
	if c.Isolation == "landlock" && slices.Contains(c.MinIsolation, "namespaces") {
		return errors.New("RUNNER_MIN_ISOLATION wants namespaces and RUNNER_ISOLATION=landlock forbids them: change one")
	}
	return nil
}

// externals takes the three names of one setting; two different values would leave open which holds.
func externals(c *Config, v settings.Values) error {
	dirs, from := "", ""
	for _, name := range []string{"RUNNER_EXTERNAL_DIRS", "XRAY_SKILLS_EXTERNAL_DIRS", "ONGRID_SKILLS_EXTERNAL_DIRS"} {
		switch {
		case v[name] == "" || v[name] == dirs:
		case dirs != "":
			return fmt.Errorf("%s and %s are both set, and differ: use one", from, name)
		default:
			dirs, from = v[name], name
		}
	}
	split := func(r rune) bool { return r == ':' || r == ',' }
	for _, dir := range strings.FieldsFunc(dirs, split) {
		c.ExternalDirs = append(c.ExternalDirs, strings.TrimSpace(dir))
	}
	if names := v["RUNNER_EXTERNAL_ENV_UNSAFE"]; names != "" {
		c.UnsafeEnv = strings.Split(names, ",")
	}
	c.ExternalEnv = v["RUNNER_EXTERNAL_ENV_FILE"]
	return nil
}

func folders(c *Config, v settings.Values) (err error) {
	if c.Mounts, err = mounts.Parse(v["RUNNER_MOUNTS"]); err != nil {
		return fmt.Errorf("RUNNER_MOUNTS: %w", err)
	}
	return nil
}

func uids(c *Config, v settings.Values) error {
	if v["RUNNER_ALLOW_UIDS"] == "" {
		return nil
	}
	for s := range strings.SplitSeq(v["RUNNER_ALLOW_UIDS"], ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 32)
		if err != nil {
			return fmt.Errorf("RUNNER_ALLOW_UIDS: %q is not a user id", s)
		}
		c.AllowUIDs = append(c.AllowUIDs, uint32(n))
	}
	return nil
}

func paths(c *Config, _ settings.Values) error {
	for name, p := range map[string]string{"RUNNER_SKILLS_DIR": c.SkillsDir, "RUNNER_MANIFEST": c.Manifest, "RUNNER_WORK_DIR": c.WorkDir} {
		if !filepath.IsAbs(p) {
			return fmt.Errorf("%s=%q: write an absolute path", name, p)
		}
	}
	for name, p := range map[string]string{"RUNNER_SHIM": c.Shim, "RUNNER_SOP_KEYS": c.SOPKeys, "RUNNER_EXTERNAL_ENV_FILE": c.ExternalEnv} {
		if p != "" && !filepath.IsAbs(p) {
			return fmt.Errorf("%s=%q: write an absolute path, or nothing", name, p)
		}
	}
	return nil
}
