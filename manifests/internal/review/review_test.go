package review_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"xrayrunner/manifests"
	"xrayrunner/manifests/internal/review"
)

// judge reviews one file of a skill "s".
func judge(t *testing.T, name, text string, change func(*review.Skill)) []manifests.Finding {
	t.Helper()
	dir := t.TempDir()
	s := review.Skill{Name: "s", Files: map[string][]byte{name: []byte(text)}}
	if change != nil {
		change(&s)
	}
	for file, content := range s.Files {
		path := filepath.Join(dir, "s", file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return review.Review(t.Context(), dir, []review.Skill{s}, []string{"numpy"})
}

// TestPython: each refused text stands beside one that does the same job and is allowed.
func TestPython(t *testing.T) {
	tests := []struct{ name, good, bad, message string }{
		{"argv", "import sys\nsys.stdin.read()\n", "import sys\nsys.argv\n", "uses sys.argv"},
		{"argv by name", "from sys import stdin\n", "from sys import argv\n", "uses sys.argv"},
		{"argv by alias", "import sys as s\ns.stdin\n", "import sys as s\ns.argv\n", "uses sys.argv"},
		{"argparse", "import textwrap\n", "import argparse\n", "imports argparse"},
		{"environment, by a method", "import os\nos.getcwd()\n", "import os\nos.environ.get('K')\n", "uses os.environ"},
		{"argv, by a method", "import sys\nsys.stdin.read()\n", "import sys\nsys.argv.pop()\n", "uses sys.argv"},
		{"environment", "import os\nos.getcwd()\n", "import os\nos.environ['HOME']\n", "uses os.environ"},
		{"getenv", "import os\nos.listdir('.')\n", "import os\nos.getenv('HOME')\n", "uses os.getenv"},
		{"an object of ours called os", "class T: pass\nos = T()\nos.environ = 1\n", "from os import environ\n", "uses os.environ"},
		{"module that is not pinned", "import numpy\n", "import pandas\n", "neither standard library nor pinned"},
		{"submodule that is not pinned", "import numpy.linalg\n", "from pandas.core import x\n", "neither standard library nor pinned"},
		{"subprocess", "import shlex\n", "import subprocess\n", "imports subprocess"},
		{"subprocess in a function", "def f():\n import shlex\n", "def f():\n import subprocess\n", "imports subprocess"},
		{"socket", "import ipaddress\n", "import socket\n", "imports socket"},
		{"urllib", "import urllib.parse\n", "import urllib.request\n", "imports urllib.request"},
		{"urllib from", "from urllib import parse\n", "from urllib import request\n", "imports urllib.request"},
		{"http", "from http import HTTPStatus\n", "import http.client\n", "imports http.client"},
		{"ctypes", "import struct\n", "import ctypes\n", "imports ctypes"},
		{"multiprocessing", "import threading\n", "import multiprocessing.pool\n", "imports multiprocessing"},
		{"importlib", "import inspect\n", "import importlib.util\n", "imports importlib"},
		{"pty", "import tty\n", "import pty\n", "imports pty"},
		{"pickle", "import json\n", "import pickle\n", "imports pickle"},
		{"star", "from json import loads\n", "from json import *\n", "every name"},
		{"os.system", "import os\nos.stat('x')\n", "import os\nos.system('x')\n", "uses os.system"},
		{"os.fork", "import os\nos.cpu_count()\n", "import os\nos.fork()\n", "uses os.fork"},
		{"os.exec", "import os\nos.remove('x')\n", "import os\nos.execve('x', [], {})\n", "uses os.execve"},
		{"os.spawn by name", "from os import path\n", "from os import spawnlp\n", "uses os.spawnlp"},
		{"eval", "import ast\nast.literal_eval('1')\n", "eval('1')\n", "uses eval"},
		{"exec", "import re\nre.compile('x')\n", "exec('1')\n", "uses exec"},
		{"compile", "import re\nre.compile('x')\n", "compile('1', 'x', 'exec')\n", "uses compile"},
		{"__import__", "import json\n", "__import__('json')\n", "uses __import__"},
		{"absolute path", "open('out.txt', 'w')\n", "open('/etc/passwd')\n", "outside the working folder"},
		{"path above", "open('a/..b')\n", "open('../x')\n", "outside the working folder"},
		{"path in an f-string", "open(f'out-{1}')\n", "open(f'/etc/{1}')\n", "outside the working folder"},
		{"home", "open('a~')\n", "open('~/x')\n", "outside the working folder"},
		{"pathlib", "from pathlib import Path\nPath(__file__).parent\n", "from pathlib import Path\nPath('/etc')\n", "outside the working folder"},
		{"bytes", "b = b'/x'\n", "import os\nos.listdir('/')\n", "outside the working folder"},
		{"random", "import random\nr = random.Random(7)\nr.random()\n", "import random\nrandom.random()\n", "differs from run to run"},
		{"random, seeded", "import random\nrandom.seed(1)\nrandom.choice([1])\n", "import random\nrandom.seed()\n", "differs from run to run"},
		{"random by name", "from random import Random\nRandom(1)\n", "from random import choice\nchoice([1])\n", "differs from run to run"},
		{"time", "import time\ntime.strptime('1', '%d')\n", "import time\ntime.time()\n", "uses time.time"},
		{"time by name", "from time import sleep\nsleep(0)\n", "from time import time\ntime()\n", "uses time.time"},
		{"gmtime", "import time\ntime.gmtime(0)\n", "import time\ntime.gmtime()\n", "uses time.gmtime"},
		{"now", "from datetime import datetime\ndatetime(2026, 1, 1)\n", "from datetime import datetime\ndatetime.now()\n", "datetime.now"},
		{"utcnow", "import datetime\ndatetime.datetime.fromisoformat('x')\n", "import datetime\ndatetime.datetime.utcnow()\n", "utcnow"},
		{"today", "from datetime import date\ndate(1, 1, 1)\n", "from datetime import date\ndate.today()\n", "date.today"},
		{"uuid4", "import uuid\nuuid.uuid5(uuid.NAMESPACE_DNS, 'x')\n", "import uuid\nuuid.uuid4()\n", "uses uuid.uuid4"},
		{"secrets", "import hmac\n", "import secrets\n", "imports secrets"},
		{"syntax", "def f(): pass\n", "def f(:\n", "not valid Python"},
		{"NUL", "x = 1\n", "x = 1\x00\n", "null bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := judge(t, "run.py", tt.good, nil); manifests.HasErrors(got) {
				t.Errorf("the good one was refused: %v", got)
			}
			got := judge(t, "run.py", tt.bad, nil)
			if len(got) != 1 || got[0].Severity != manifests.Error || !strings.Contains(got[0].Message, tt.message) || got[0].Cure == "" {
				t.Fatalf("got %v, want one error %q", got, tt.message)
			}
			if got[0].File != "s/run.py" || (tt.name != "NUL" && got[0].Line == 0) || got[0].Skill != "s" {
				t.Errorf("place %+v", got[0])
			}
		})
	}
}

func TestEgressLiftsOnlyItsOwn(t *testing.T) {
	egress := func(s *review.Skill) { s.Egress = true }
	for text, refused := range map[string]bool{
		"import socket, ssl, http.client\n": false, "import time\ntime.time()\n": false, "import secrets\n": false,
		"import random\nrandom.random()\n": false, "import urllib.request\n": true, "import subprocess\n": true,
		"import sys\nsys.argv\n": true, "open('/etc/passwd')\n": true, "eval('1')\n": true,
	} {
		if got := judge(t, "run.py", text, egress); manifests.HasErrors(got) != refused {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestDeclaredProcesses: a script that declares more than one process may fork; the reviewer is told.
func TestDeclaredProcesses(t *testing.T) {
	forks := func(s *review.Skill) { s.Forks = true }
	for text, severity := range map[string]manifests.Severity{
		"import subprocess\n": manifests.Warning, "import os\nos.fork()\n": manifests.Warning, "import socket\n": manifests.Error,
	} {
		if got := judge(t, "run.py", text, forks); len(got) != 1 || got[0].Severity != severity {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestModulesOfTheSkillItself(t *testing.T) {
	with := func(name string) func(*review.Skill) {
		return func(s *review.Skill) { s.Files[name] = []byte("x = 1\n") }
	}
	if got := judge(t, "run.py", "import helper\nfrom helper import x\n", with("helper.py")); len(got) > 0 {
		t.Errorf("helper beside: %v", got)
	}
	if got := judge(t, "run.py", "from lib import helper\n", with("lib/helper.py")); len(got) > 0 {
		t.Errorf("helper in a folder: %v", got)
	}
	if got := judge(t, "run.py", "import helper\n", with("other.py")); len(got) != 1 {
		t.Errorf("no such helper: %v", got)
	}
}

// TestHostileSource: what makes the parser give up is a finding, and the other files are still judged.
func TestHostileSource(t *testing.T) {
	got := judge(t, "run.py", "import socket\n", func(s *review.Skill) {
		s.Files["deep.py"] = []byte("x = " + strings.Repeat("(", 5000) + strings.Repeat(")", 5000) + "\n")
		s.Files["minus.py"] = []byte("x = " + strings.Repeat("-", 50_000) + "1\n")
		s.Files["latin.py"] = []byte("x = '\xe9'\n")
	})
	files := map[string]bool{}
	for _, f := range got {
		files[f.File] = true
	}
	if len(files) != 4 {
		t.Errorf("got %v, want a finding for each of the 4 files", got)
	}
}

func TestShell(t *testing.T) {
	for text, want := range map[string]string{
		"x=1\neval \"$x\"\n": "eval runs", "# eval x\n": "", "evaluate x\n": "", "echo \"$(curl x)\"\n": "curl needs", "/usr/bin/wget x\n": "wget needs",
		"curly\n": "", "exec 3<>/dev/tcp/1.2.3.4/80\n": "/dev/tcp", "cat /dev/null\n": "",
	} {
		got := judge(t, "run.sh", text, nil)
		if want == "" {
			if len(got) > 0 {
				t.Errorf("%q: %v", text, got)
			}
			continue
		}
		if len(got) != 1 || got[0].Severity != manifests.Warning || !strings.Contains(got[0].Message, want) || got[0].Line == 0 {
			t.Errorf("%q: got %v, want a warning %q", text, got, want)
		}
	}
}

func TestRequirements(t *testing.T) {
	got := review.Requirements("# none\nnumpy==2.1 \\\n    --hash=sha256:aa\nPython-DateUtil==1 # x\nloose>=1\n-r other.txt\n")
	if strings.Join(got, " ") != "numpy python_dateutil" {
		t.Errorf("%q", got)
	}
}

func TestImports(t *testing.T) {
	dir := t.TempDir()
	s := review.Skill{Name: "s", Files: map[string][]byte{
		"run.py": []byte("import json, helper\nimport xml.etree.ElementTree as e\nfrom os import path\nfrom . import near\n" +
			"import unknown\nimport numpy\nimport this\nfrom __future__ import annotations\ndef f():\n    import decimal\n"),
		"helper.py": []byte("import json, csv\n"), "near.py": nil, "data.txt": []byte("import zlib"),
	}}
	for name, text := range s.Files {
		if err := os.MkdirAll(filepath.Join(dir, "s"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "s", name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := review.Imports(t.Context(), dir, s, []string{"numpy"})
	if want := "csv decimal json numpy os xml.etree.ElementTree"; err != nil || strings.Join(got, " ") != want {
		t.Errorf("got %q %v, want %q", got, err, want)
	}
}
