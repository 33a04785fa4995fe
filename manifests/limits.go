package manifests

import "fmt"

// Defaults of a script's limits, and the most that a script may ask for (spec section 5). Sizes are MiB,
// times are seconds.
const (
	DefaultTimeoutSeconds, MinTimeoutSeconds, MaxTimeoutSeconds = 30, 1, 120
	DefaultCPUSeconds, MinCPUSeconds, MaxCPUSeconds             = 30, 1, 30
	DefaultMemoryMB, MinMemoryMB, MaxMemoryMB                   = 128, 16, 256
	DefaultFileMB, MinFileMB, MaxFileMB                         = 16, 1, 16
	DefaultOpenFiles, MinOpenFiles, MaxOpenFiles                = 64, 8, 64
	DefaultProcesses, MinProcesses, MaxProcesses                = 1, 1, 32
)

// DefaultLimits are what a script gets that asks for nothing.
func DefaultLimits() Limits {
	l := Limits{}
	for _, r := range limitRules {
		*r.of(&l) = r.standard
	}
	return l
}

type limitRule struct {
	key                   string // in xray.json and the lock file
	of                    func(*Limits) *int
	standard, least, most int
}

var limitRules = []limitRule{
	{"timeout_seconds", func(l *Limits) *int { return &l.TimeoutSeconds }, DefaultTimeoutSeconds, MinTimeoutSeconds, MaxTimeoutSeconds},
	{"cpu_seconds", func(l *Limits) *int { return &l.CPUSeconds }, DefaultCPUSeconds, MinCPUSeconds, MaxCPUSeconds},
	{"memory_mb", func(l *Limits) *int { return &l.MemoryMB }, DefaultMemoryMB, MinMemoryMB, MaxMemoryMB},
	{"file_mb", func(l *Limits) *int { return &l.FileMB }, DefaultFileMB, MinFileMB, MaxFileMB},
	{"open_files", func(l *Limits) *int { return &l.OpenFiles }, DefaultOpenFiles, MinOpenFiles, MaxOpenFiles},
	{"processes", func(l *Limits) *int { return &l.Processes }, DefaultProcesses, MinProcesses, MaxProcesses},
}

// check returns the first limit that is out of its range: its key and the reason.
func (l Limits) check() (key string, err error) {
	for _, r := range limitRules {
		if n := *r.of(&l); n < r.least || n > r.most {
			return r.key, fmt.Errorf("%s is %d; it must be from %d to %d", r.key, n, r.least, r.most)
		}
	}
	return "", nil
}
