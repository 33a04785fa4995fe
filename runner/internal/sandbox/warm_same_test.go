package sandbox

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// seen is what a caller can tell of a run.
type seen struct {
	Cause          Cause
	Code           int
	Signal         string
	Stdout, Stderr string
}

// address is where an object lies: it differs from run to run, however they start.
var address = regexp.MustCompile("0x[0-9a-f]{8,}")

func (w *warmed) seen(e Exit, s Spec) seen {
	plain := func(text string) string {
		return address.ReplaceAllString(strings.NewReplacer(s.Dir, "DIR", filepath.Join(w.root, jailedFolder), "DIR", s.Readable[0], "SKILL").Replace(text), "0x")
	}
	return seen{e.Cause, e.ExitCode, e.Signal, plain(string(e.Stdout)), plain(string(e.Stderr))}
}

// TestSameAnswers: what a script and its caller see of a warm run is what they see of a cold one.
func TestSameAnswers(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		for name, text := range map[string]string{
			"nothing":           "",
			"arguments":         "import sys\nprint(sys.argv, sys.orig_argv, sys.path, sys.executable, sys.prefix)\n",
			"flags":             "import sys\nprint(sys.flags, sys.dont_write_bytecode, sys.pycache_prefix, sys.warnoptions, sys._xoptions)\n",
			"main":              "print(sorted(globals().items(), key=str))\nimport sys\nprint(__file__, list(globals()), sys.modules['__main__'].__dict__ is globals())\n",
			"environment":       "import os\nprint(dict(os.environ), os.environb[b'HOME'], os.getenv('TMPDIR'), os.path.expanduser('~'))\nimport posix\nprint(posix.environ)\n",
			"environment in C":  "import time, locale\nprint(time.tzname, locale.setlocale(locale.LC_ALL, ''), locale.getpreferredencoding())\n",
			"folder":            "import os\nprint(os.getcwd(), os.listdir(), oct(os.umask(0)))\nopen('x', 'w').write('y')\nprint(open('x').read(), oct(os.stat('x').st_mode))\n",
			"streams":           "import sys\nfor s in sys.stdin, sys.stdout, sys.stderr:\n    print(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.write_through, s.isatty(), s.seekable(), s.fileno())\n",
			"input":             "import sys\nprint(sys.stdin.buffer.raw.read(3), sys.stdin.read(), sys.stdin.read())\n",
			"descriptors":       "import os\nfound = []\nfor fd in range(64):\n    try:\n        os.fstat(fd)\n        found.append((fd, os.get_inheritable(fd), os.get_blocking(fd)))\n    except OSError: pass\nprint(found)\n",
			"limits":            "import resource\nprint([(n, resource.getrlimit(getattr(resource, n))) for n in sorted(dir(resource)) if n.startswith('RLIMIT_')])\n",
			"session":           "import os\nprint(os.getsid(0) == os.getpid() == os.getpgid(0), os.getppid() > 0)\n",
			"signals":           "import signal\nprint([(s.name, str(signal.getsignal(s))) for s in sorted(signal.valid_signals()) if isinstance(s, signal.Signals)])\nprint(signal.pthread_sigmask(signal.SIG_BLOCK, []), signal.set_wakeup_fd(-1))\n",
			"handled signal":    "import signal, os\nsignal.signal(signal.SIGUSR1, lambda *a: print('handled'))\nos.kill(os.getpid(), signal.SIGUSR1)\nprint('after')\n",
			"killed":            "import os, signal\nprint('lost')\nos.kill(os.getpid(), signal.SIGTERM)\n",
			"aborted":           "import os\nos.abort()\n",
			"interrupt":         "raise KeyboardInterrupt\n",
			"interrupt by kill": "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(5)\n",
			"exit 3":            "import sys\nprint('a')\nsys.exit(3)\n",
			"exit text":         "import sys\nsys.exit('some words')\n",
			"exit none":         "import sys\nsys.exit()\n",
			"exit true":         "import sys\nsys.exit(True)\n",
			"exit large":        "import sys\nsys.exit(2**40 + 5)\n",
			"exit at once":      "import os, sys\nprint('lost')\nos._exit(9)\n",
			"traceback":         "def f(x):\n    return 1 / x\n\ndef g():\n    f(0)\n\ng()\n",
			"chained":           "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('b') from e\n",
			"traceback printed": "import traceback, sys\ntraceback.print_stack()\nprint(sys._getframe().f_back)\nimport inspect\nprint(len(inspect.stack()))\n",
			"syntax":            "x = (1,\ny = 2\n",
			"syntax indent":     "if 1:\nprint()\n",
			"syntax warning":    "print('\\d')\nprint(1 is 1)\n",
			"encoding":          "# -*- coding: latin-1 -*-\nprint(ascii('\xe9'))\n",
			"byte order mark":   "\ufeffprint('x')\n",
			"deep":              "def f(n):\n    return n and f(n - 1)\nf(100000)\n",
			"memory":            "x = 'a' * (1 << 30)\n",
			"hook":              "import sys\nsys.excepthook = lambda *a: print('hook', a[0])\n1 / 0\n",
			"atexit":            "import atexit\natexit.register(print, 'first')\natexit.register(lambda: print('second', '__file__' in globals()))\natexit.register(lambda: 1 / 0)\nprint('main')\n",
			"atexit and exit":   "import atexit, sys\natexit.register(lambda: print('late', '__file__' in globals()))\nsys.exit(4)\n",
			"threads":           "import threading, time\ndef f():\n    time.sleep(0.05)\n    print('thread', threading.current_thread() is threading.main_thread())\nthreading.Thread(target=f).start()\nprint(threading.main_thread().name, threading.get_native_id() == threading.main_thread().native_id)\n",
			"daemon":            "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nprint('main')\n",
			"finalizers":        "class A:\n    def __init__(self, n): self.n = n\n    def __del__(self): print('del', self.n, globals().get('keep'))\nkeep = 1\na = A('plain')\nb = A('cycle')\nb.self = b\n",
			"weak finalizer":    "import weakref\nclass A: pass\na = A()\nweakref.finalize(a, print, 'finalized')\n",
			"unclosed":          "import sys\nf = open(1, 'w', closefd=False)\nf.write('not flushed by hand')\n",
			"stdout closed":     "import sys\nsys.stdout.close()\n",
			"stdout gone":       "import os, sys\nprint('lost')\nos.close(1)\n",
			"logging":           "import logging\nlogging.basicConfig(format='%(levelname)s %(process)d'.replace('%(process)d', '')) or logging.warning('w')\n",
			"warnings":          "import warnings\nwarnings.warn('careful')\nwarnings.warn('old', DeprecationWarning)\n",
			"collector":         "import gc\nprint(gc.isenabled(), gc.get_threshold(), gc.garbage, gc.get_debug(), gc.callbacks)\n",
			"switches":          "import sys\nprint(sys.getrecursionlimit(), sys.getswitchinterval(), sys.gettrace(), sys.getprofile(), sys.displayhook, sys.excepthook, sys.unraisablehook)\n",
			"leftovers":         "import sys\nprint([n for n in dir(sys) if n.startswith('last_')], 'xraycell' in sys.modules, 'atexit' in sys.modules)\n",
			"module beside":     "import importlib.util\nprint(importlib.util.find_spec('script').origin)\n",
			"processes refused": "import os\ntry: os.fork()\nexcept OSError as e: print(e)\n",
			"socket refused":    "import socket\ntry: socket.socket()\nexcept OSError as e: print(e)\n",
			"outside refused":   "import os\nfor p in '/', '..', '/proc/self', '/etc/passwd':\n    try: print(p, os.listdir(p) if os.path.isdir(p) else open(p))\n    except OSError as e: print(e)\n",
			"other call":        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nfor n in 444, 446, 317, 56, 435, 425, 157:\n    print(n, libc.syscall(n, 0, 0, 0, 0, 0, 0), ctypes.get_errno())\n",
			"own number":        "import os, threading, ctypes\nlibc = ctypes.CDLL(None)\nprint(libc.kill(os.getpid(), 0))\nimport signal\nsignal.signal(signal.SIGUSR1, lambda *a: print('raised'))\nsignal.raise_signal(signal.SIGUSR1)\nprint(threading.get_native_id() == os.getpid())\n",
		} {
			t.Run(name, func(t *testing.T) {
				w := warmBox(t)
				s := w.spec(t, text, "sys", "os", "json", "threading")
				s.Stdin = []byte(`{"a": "ä"}`)
				cold := w.run(t, s, false)
				w.Settle()
				again := w.again(t, s)
				warm := w.run(t, again, true)
				if diff := cmp.Diff(w.seen(cold, s), w.seen(warm, again)); diff != "" {
					t.Errorf("-cold +warm:\n%s", diff)
				}
			})
		}
	})
}

// TestSameLimits: each limit ends a warm run as it ends a cold one.
func TestSameLimits(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		for name, tt := range map[string]struct {
			text   string
			change func(*Limits)
			want   Cause
		}{
			"wall":   {"import time\ntime.sleep(60)\n", func(l *Limits) { l.Wall = 300 * time.Millisecond }, Timeout},
			"cpu":    {"while True: pass\n", func(l *Limits) { l.CPU = time.Second }, CPULimit},
			"output": {"print('x' * 100000)\n", func(*Limits) {}, OutputLimit},
			"file":   {"open('x', 'wb').write(b'x' * (2 << 20))\n", func(l *Limits) { l.FileBytes = 1 << 20 }, Exited},
			"disk":   {"import time\nfor i in range(3): open(str(i), 'wb').write(b'x' * (1 << 20))\ntime.sleep(60)\n", func(l *Limits) { l.DiskBytes = 1 << 20 }, DiskLimit},
		} {
			t.Run(name, func(t *testing.T) {
				w := warmBox(t)
				s := w.spec(t, tt.text)
				tt.change(&s.Limits)
				cold, warm := w.both(t, s)
				if cold.MaxRSSBytes == 0 || warm.MaxRSSBytes == 0 {
					t.Errorf("peak cold %d, warm %d", cold.MaxRSSBytes, warm.MaxRSSBytes)
				}
				if cold.Cause != tt.want || warm.Cause != tt.want {
					t.Errorf("cold %s %d %s, warm %s %d %s, want %s", cold.Cause, cold.ExitCode, cold.Signal, warm.Cause, warm.ExitCode, warm.Signal, tt.want)
				}
			})
		}
	})
}

// TestRandomIsFresh: what must not repeat does not, although the forks begin with equal memory. The seed of hash() is
// the cell's: docs/design.md lists what differs.
func TestRandomIsFresh(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		w := warmBox(t)
		const text = `
import random, uuid, secrets, os, ssl, tempfile
print(random.random(), random.SystemRandom().random())
print(uuid.uuid4(), uuid.uuid1().clock_seq)
print(secrets.token_hex(8), os.urandom(8).hex(), ssl.RAND_bytes(8).hex())
print(next(tempfile._get_candidate_names()))
`
		s := w.spec(t, text, "random", "uuid", "secrets", "ssl", "tempfile")
		w.run(t, s, false)
		w.Settle()
		values := map[string]int{}
		for range 5 {
			exit := w.run(t, w.again(t, s), true)
			for _, value := range strings.Fields(string(exit.Stdout)) {
				values[value]++
			}
			if exit.ExitCode != 0 {
				t.Fatal(string(exit.Stderr))
			}
		}
		for value, n := range values {
			if n > 1 {
				t.Errorf("%s came %d times", value, n)
			}
		}
	})
}

// TestWhatDiffers names the differences, so that the list in docs/design.md stays true.
func TestWhatDiffers(t *testing.T) {
	inTiers(t, func(t *testing.T, warmBox makeWarm) {
		w := warmBox(t)
		const text = `
import sys, logging
print(hash('x'), id(object()), logging._startTime)
print('decimal' in sys.modules)
`
		s := w.spec(t, text, "decimal", "logging")
		coldly := w.again(t, s)
		coldly.Warm = nil
		cold, coldAgain := w.run(t, coldly, false), w.run(t, s, false)
		w.Settle()
		warm, warmAgain := w.run(t, w.again(t, s), true), w.run(t, w.again(t, s), true)
		lines := func(e Exit) []string { return strings.Split(string(e.Stdout), "\n") }
		if lines(cold)[0] == lines(coldAgain)[0] || lines(warm)[0] != lines(warmAgain)[0] {
			t.Errorf("seed, layout and clock of logging: cold %q, %q; warm %q, %q", lines(cold)[0], lines(coldAgain)[0], lines(warm)[0], lines(warmAgain)[0])
		}
		if lines(cold)[1] != "False" || lines(warm)[1] != "True" {
			t.Errorf("modules of other scripts: cold %s, warm %s", lines(cold)[1], lines(warm)[1])
		}
	})
}
