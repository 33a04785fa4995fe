package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// JailSpec is what a jail must hold. All of its root is read-only but for what its skill may change, and for the place of the
// working folders, where the runs put a folder of their own.
type JailSpec struct {
	Shim  string            // what is started in it, with --jail and the door as descriptor 3
	Paths []string          // files and folders, at the same path inside, for reading
	Write []string          // those of Paths that a run may change
	Links map[string]string // symbolic links
	// FreshProc: /proc can be one of its own, and is for each run. Else the container's is bound.
	FreshProc bool
	Folders   string // an empty folder, where each run mounts its own
}

// Jail is a room of namespaces that is made once and used by many runs (package jail makes them).
type Jail struct {
	Door  *os.File // our end of the socket that requests go through
	Close func() error
}

// maxJails bounds those that are held; each is one small process. One that no run is in makes place for another.
const maxJails = 16

// jails holds one jail per set of paths and rights, so one per skill with folders of its own: no other runs are in it.
type jails struct {
	open   func(JailSpec) (Jail, error)
	fresh  bool     // JailSpec.FreshProc
	own    []string // what is in each beside what runs may read: the shim, and the library of cells
	system []grant

	mu    sync.Mutex
	byKey map[string]*heldJail
	used  uint64
}

type heldJail struct {
	Jail
	key       string
	freshProc bool
	once      sync.Once
	err       error
	runs      int
	last      uint64
	broken    bool
}

// get returns the jail for a run; release must follow, with whether it did its work.
func (j *jails) get(spec Spec) (*heldJail, func(works bool), error) {
	want, err := j.specFor(spec)
	if err != nil {
		return nil, nil, err
	}
	key := strings.Join([]string{want.Folders, strings.Join(want.Paths, "\x00"), strings.Join(want.Write, "\x00")}, "\x00\x00")
	h, drop := j.take(key)
	release := func(works bool) { j.release(h, works) }
	for _, old := range drop {
		err = errors.Join(err, old.Close())
	}
	h.once.Do(func() { h.Jail, h.err = j.open(want) })
	if err = errors.Join(err, h.err); err != nil {
		release(h.err == nil)
		return nil, nil, fmt.Errorf("jail: %w", err)
	}
	return h, release, nil
}

func (j *jails) take(key string) (*heldJail, []*heldJail) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.byKey == nil {
		j.byKey = map[string]*heldJail{}
	}
	var drop []*heldJail
	h := j.byKey[key]
	if h == nil {
		if len(j.byKey) >= maxJails {
			drop = j.evict()
		}
		h = &heldJail{key: key, freshProc: j.fresh}
		j.byKey[key] = h
	}
	j.used++
	h.last = j.used
	h.runs++
	return h, drop
}

// evict gives up the jail that was used the longest ago and is empty. Preconditions: mu is held.
func (j *jails) evict() []*heldJail {
	var oldest string
	for key, h := range j.byKey {
		if h.runs == 0 && (oldest == "" || h.last < j.byKey[oldest].last) {
			oldest = key
		}
	}
	if oldest == "" {
		return nil // all are in use: there is one for each run at most
	}
	h := j.byKey[oldest]
	delete(j.byKey, oldest)
	return []*heldJail{h}
}

// hold keeps a jail for a run that is forked from a cell in it.
func (j *jails) hold(h *heldJail) (release func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	h.runs++
	return func() { j.release(h, true) }
}

// release closes a jail that does not work when its last run has left it, so that the next run gets a new one.
func (j *jails) release(h *heldJail, works bool) {
	j.mu.Lock()
	h.runs--
	h.broken = h.broken || !works
	if h.broken && j.byKey[h.key] == h {
		delete(j.byKey, h.key)
	}
	last := h.broken && h.runs == 0 && h.Close != nil
	j.mu.Unlock()
	if last {
		_ = h.Close() // the run has its own error to report
	}
}

// close ends all of them: the prober's, and a test's.
func (j *jails) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var errs []error
	for _, h := range j.byKey {
		if h.Close != nil {
			errs = append(errs, h.Close())
		}
	}
	j.byKey = nil
	return errors.Join(errs...)
}

// MakeJail makes the jail that a run of this kind is started in, for nobody, ends it, and says how long the making took:
// for who measures. An error is our own failure, as it is to ask for one outside the tier namespaces.
func (s *landlocked) MakeJail(spec Spec) (took time.Duration, err error) {
	if s.jails == nil {
		return 0, errors.New("BUG: no jails in this tier")
	}
	want, err := s.jails.specFor(spec)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	made, err := s.jails.open(want)
	if err != nil {
		return 0, err
	}
	took = time.Since(begin)
	return took, made.Close()
}

// specFor: a jail holds exactly what Landlock lets a run read, and what is ours.
func (j *jails) specFor(spec Spec) (JailSpec, error) {
	f := inForce{system: j.system}
	grants, err := f.grantsFor(spec)
	if err != nil {
		return JailSpec{}, err
	}
	want := JailSpec{Shim: j.own[0], FreshProc: j.fresh, Folders: filepath.Dir(spec.Dir), Links: links(append(slices.Clone(systemLinks), spec.Argv[0]))}
	want.Paths = slices.Clone(j.own)
	for _, g := range grants {
		if g.path != "." && !slices.Contains(want.Paths, g.path) {
			want.Paths = append(want.Paths, g.path)
		}
	}
	slices.Sort(want.Paths) // what lies in another is bound after it
	want.Write = spec.Writable
	return want, nil
}

// systemLinks are those that programs have in them: the loader is named below /lib64, the time zone below /etc.
var systemLinks = []string{"/bin", "/lib", "/lib64", "/sbin", "/etc/localtime"}

func links(candidates []string) map[string]string {
	out := map[string]string{}
	for _, path := range candidates {
		if to, err := os.Readlink(path); err == nil && !strings.HasPrefix(path, "/usr/") {
			out[path] = to
		}
	}
	return out
}
