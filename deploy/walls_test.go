//go:build deploy

package deploy

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// testAPICannotSpawn: the filters of the running process, and what they answer, the process's own and the container's
// apart; the control is the same image without either.
func testAPICannotSpawn(t *testing.T, d *deployment) {
	for _, id := range threads(t, d.pid(apiService)) {
		for _, line := range []string{"\nSeccomp:\t2\n", "\nNoNewPrivs:\t1\n", "\nSeccomp_filters:\t2\n", "\nCapEff:\t0000000000000000\n"} {
			if !strings.Contains(id, line) {
				t.Errorf("a thread is without %q", line)
			}
		}
	}
	var ready struct {
		NoSpawn string `json:"no_spawn"`
	}
	if d.get("/readyz", &ready); ready.NoSpawn != "enforced" {
		t.Errorf("readyz says %q", ready.NoSpawn)
	}
	image := d.inspect(apiService, ".Image")
	probe := func(options []string, way ...string) string {
		args := append([]string{"docker", "run", "--rm", "--network", "none", "-v", filepath.Join(d.bin, "spawnprobe") + ":/spawnprobe:ro", "--entrypoint", "/spawnprobe"}, options...)
		out, err := d.try(append(append(args, image), way...)...)
		if err != nil {
			return err.Error() + ": " + out
		}
		return out
	}
	locked := []string{"--user", "10001:10001", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges:true", "--security-opt", "seccomp=deploy/seccomp/api.json"}
	for _, row := range []struct {
		name    string
		options []string
		args    []string
		works   string // the ways that work; the last one replaces the probe, and its list is what follows
	}{
		{"control: neither filter nor profile", nil, []string{"all"}, "start start-thread fork vfork memfd"},
		{"the container's profile alone (the engine needs exec)", locked, []string{"all"}, ""},
		{"both", locked, []string{"-filter", "all"}, ""},
	} {
		var works []string
		said := probe(row.options, row.args...)
		for line := range strings.Lines(said) {
			if way, ok := strings.CutSuffix(strings.TrimSpace(line), ": worked"); ok && way != "clone3" { // the engine's profile answers clone3 as ours does
				works = append(works, way)
			}
		}
		if got := strings.Join(works, " "); got != row.works || !strings.Contains(said, "memfd: ") {
			t.Errorf("%s: works %q, want %q:\n%s", row.name, got, row.works, said)
		}
		if last := strings.Contains(said, "exec: operation not permitted"); row.name == "both" && !last {
			t.Errorf("exec is not refused:\n%s", said)
		}
	}
	for _, way := range []string{"int80", "x32"} { // killed: 128 + SIGSYS; SIGSEGV where the kernel has no int 0x80 at all
		got := probe(locked, "-filter", way)
		if !strings.Contains(got, "exit status 159") && !strings.Contains(got, "SIGSEGV") {
			t.Errorf("%s gave %s", way, got)
		}
	}
}

func threads(t *testing.T, pid string) []string {
	t.Helper()
	all, err := filepath.Glob("/proc/" + pid + "/task/*/status")
	if err != nil || len(all) < 3 {
		t.Fatalf("found threads %v (%v)", all, err)
	}
	var out []string
	for _, path := range all {
		status, err := os.ReadFile(path)
		if err == nil { // else it has ended
			out = append(out, string(status))
		}
	}
	return out
}

// testRunnerWalls looks from inside the runner's container, as its user. The engine mounts /dev/mqueue whatever we ask; scripts
// reach neither it (Landlock) nor its calls (seccomp).
func testRunnerWalls(t *testing.T, d *deployment) {
	said := d.must("docker", "compose", "exec", "-T", runnerService, "python3", "-c", `
import os
print("uid", os.getuid())
print("interfaces", sorted(os.listdir("/sys/class/net")))
routes = [l for l in open("/proc/net/route").read().splitlines()[1:]]
print("routes", routes)
print("caps", [l.split()[1] for l in open("/proc/self/status") if l.startswith("Cap")])
writable = []
for line in open("/proc/mounts"):
    where, options = line.split()[1], line.split()[3].split(",")
    try:
        path = os.path.join(where, "probe")
        open(path, "w").close()
        os.unlink(path)
        writable.append(where)
    except OSError:
        pass
print("writable", writable)
print("api", [p for p in ("/data", "/run/secrets", "/api") if os.path.exists(p)])
print("setuid", [os.path.join(d, f) for d, _, fs in os.walk("/usr") for f in fs if os.lstat(os.path.join(d, f)).st_mode & 0o6000 and not os.path.islink(os.path.join(d, f))])
`)
	zero := strconv.Quote(strings.Repeat("0", 16))
	want := []string{"uid 10002", "interfaces ['lo']", "routes []", "writable ['/dev/mqueue', '/work', '/run/xray']", "api []", "setuid []",
		"caps [" + strings.ReplaceAll(strings.TrimSuffix(strings.Repeat(zero+", ", 5), ", "), `"`, "'") + "]"}
	for _, line := range want {
		if !strings.Contains("\n"+said+"\n", "\n"+line+"\n") {
			t.Errorf("the runner's container does not say %q but\n%s", line, said)
		}
	}
}

// testAPIWalls looks at the api's root from this machine: from scratch there is nothing in it to look with.
func testAPIWalls(t *testing.T, d *deployment) {
	root := "/proc/" + d.pid(apiService) + "/root"
	var programs []string
	err := filepath.WalkDir(root+"/", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside := "/" + strings.TrimLeft(strings.TrimPrefix(path, root), "/")
		if inside == "/proc" || inside == "/sys" {
			return fs.SkipDir
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if info.Mode().IsRegular() && info.Size() > 0 && info.Mode()&0o111 != 0 && !strings.HasPrefix(inside, "/opt/xray/skills/") {
			programs = append(programs, inside)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(programs) != "[/api /xrayctl]" {
		t.Errorf("programs in the api's container: %v, want /api and /xrayctl", programs)
	}
	shared, err := os.ReadDir(root + "/run/xray")
	if err != nil || len(shared) != 1 || shared[0].Name() != "runner.sock" {
		t.Errorf("the api sees of the runner %v (%v), want its socket alone", shared, err)
	}
	for _, hidden := range []string{"/work", "/opt/xray/bin", "/usr", "/bin"} {
		if _, err := os.Stat(root + hidden); err == nil {
			t.Errorf("the api's container has %s", hidden)
		}
	}
	mounts, err := os.ReadFile("/proc/" + d.pid(apiService) + "/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if (f[1] == "/" || f[1] == "/run/xray") && !strings.HasPrefix(f[3], "ro") {
			t.Errorf("%s is not read-only: %s", f[1], line)
		}
	}
}
