package sandbox

import (
	"bufio"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// A fork shares all memory with its cell, and each page that it writes to is copied at that moment, by a page fault. The
// faults are most of what a short run costs (docs/performance.md), and they are nearly the same in each: the interpreter's own
// data. So the first fork of a cell runs rehearsal.py, we look at the pages that it has come to have of its own, and the later
// forks ask the kernel for all of these at once (cell/hot.c).
//
// It is for speed alone: a page that is missed or asked for in vain changes nothing that a run can see. What is looked at
// is never a run, so that no run has an influence on another by it.

//go:embed rehearsal.py
var rehearsal []byte

const (
	rehearsalPath  = "/rehearsal.py" // there is no such file
	rehearsalMark  = "the rehearsal ends\n"
	rehearsalInput = "{\"a\": 1, \"b\": [1, 2.5, null, true, \"text\"], \"c\": {\"d\": \"\\u00e9\"}}\n"

	// hotRanges bounds what is told to a cell, and hotBytes what one mapping may have to be looked at: as much as a cell may
	// have (cellLimits).
	hotRanges = 1024
	hotBytes  = 1 << 30
)

// hotRange is a piece of memory as cell/hot.c reads it.
type hotRange struct {
	Start  uint64
	Length uint32 // bytes
	Write  uint32 // 1: it is written to, and each fork needs a copy
}

// warmUp tells a cell what its forks will need. plan is that of a run of spec. A rehearsal that does not come to its end is no
// fault of the cell, whose forks work: they are slower, and the log says so. A module may print at the end, or switch the
// collector off; a kernel may have no pagemap.
func (w *Cells) warmUp(c *cell, spec Spec, plan *os.File) error {
	if err := c.compile(rehearsalPath, func() ([]byte, error) { return rehearsal, nil }); err != nil {
		return err
	}
	spec.Argv = append(spec.Argv[:len(spec.Argv)-1:len(spec.Argv)-1], rehearsalPath)
	f, err := w.forkFrom(c, spec, plan)
	if err != nil {
		return err
	}
	var hot []hotRange
	unknown := f.rehearse(spec)
	if unknown == nil {
		hot, unknown = f.hotPages(c)
	}
	if err := f.discard(); err != nil {
		return err
	}
	if unknown != nil {
		w.cfg.Log("the pages that forks need are not known: runs are warm, and slower", "skill", spec.Warm.Skill, "reason", unknown.Error())
		return nil
	}
	return c.tellHot(hot)
}

func (c *cell) tellHot(hot []hotRange) error {
	var text strings.Builder
	if err := binary.Write(&text, binary.LittleEndian, hot); err != nil {
		return err
	}
	return c.ask('H', text.String())
}

// rehearse returns when the fork has answered, is about to end, and waits for the end of its input.
func (f *fork) rehearse(spec Spec) error {
	if _, err := f.stdin.WriteString(rehearsalInput); err != nil {
		return err
	}
	if _, err := f.gate.WriteString("G" + f.environment(spec)); err != nil {
		return err
	}
	if err := f.pipes.stdout.SetReadDeadline(time.Now().Add(forkPatience)); err != nil {
		return err
	}
	for out := bufio.NewReader(f.pipes.stdout); ; {
		line, err := out.ReadString('\n')
		if err != nil || strings.HasSuffix(line, rehearsalMark) {
			return err
		}
	}
}

// hotPages of the process of the run itself.
func (f *fork) hotPages(c *cell) ([]hotRange, error) {
	pid := f.process.Pid
	if f.jail != nil {
		below := descendants(pid)
		if len(below) != 1 {
			return nil, fmt.Errorf("%d processes in the room", len(below))
		}
		pid = below[0]
	}
	return hotPages(c.process.Pid, pid)
}

// hotPages are the pages that a fork has used and that its cell has too: those that it has written to, and those of files.
func hotPages(cell, fork int) ([]hotRange, error) {
	maps, err := mappings(fork)
	if err != nil {
		return nil, err
	}
	var out []hotRange
	for _, m := range maps {
		theirs, err := pagesOf(cell, m)
		if err != nil {
			return nil, err
		}
		own, err := pagesOf(fork, m)
		if err != nil {
			return nil, err
		}
		for i := range own {
			switch page := own[i]; {
			case page&pagePresent == 0 || theirs[i]&pagePresent == 0:
			case page&pageOfFile == 0 && page&pageExclusive != 0 && m.writable:
				out = addHot(out, m, i, 1)
			case page&pageOfFile != 0:
				out = addHot(out, m, i, 0)
			}
		}
	}
	return out[:min(len(out), hotRanges)], nil
}

func addHot(list []hotRange, m mapping, page int, write uint32) []hotRange {
	start, size := m.start+uint64(page*pageSize), uint32(pageSize)
	if n := len(list); n > 0 && list[n-1].Write == write && list[n-1].Start+uint64(list[n-1].Length) == start {
		list[n-1].Length += size
		return list
	}
	return append(list, hotRange{start, size, write})
}

// mapping is one line of proc_pid_maps(5).
type mapping struct {
	start, end uint64
	writable   bool
}

// mappings are those that belong to the process alone and that it can use.
func mappings(pid int) ([]mapping, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	var out []mapping
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasSuffix(fields[1], "p") || !strings.HasPrefix(fields[1], "r") || strings.HasSuffix(line, "[vvar]\n") {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		start, err1 := strconv.ParseUint(from, 16, 64)
		end, err2 := strconv.ParseUint(to, 16, 64)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		if end-start <= hotBytes && start < 1<<63 {
			out = append(out, mapping{start, end, strings.Contains(fields[1], "w")})
		}
	}
	return out, nil
}

// Bits of an entry in proc_pid_pagemap(5).
const (
	pagePresent   = 1 << 63
	pageOfFile    = 1 << 61 // or shared anonymous memory, which a cell never has
	pageExclusive = 1 << 56 // nobody else has it mapped
)

var pageSize = os.Getpagesize()

// pagesOf has one entry for each page of the mapping.
func pagesOf(pid int, m mapping) ([]uint64, error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	raw := make([]byte, (m.end-m.start)/uint64(pageSize)*8)
	if _, err := file.ReadAt(raw, int64(m.start/uint64(pageSize)*8)); err != nil {
		return nil, err
	}
	out := make([]uint64, len(raw)/8)
	_, err = binary.Decode(raw, binary.LittleEndian, out)
	return out, err
}
