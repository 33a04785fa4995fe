package sandbox

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Records of the status pipe: shim/status.c writes them and says what they mean.
const (
	recordFailed  = 'E'
	recordBorn    = 'P'
	recordReady   = 'K'
	recordStarted = 'S'
	recordEnded   = 'R'
)

// bornRecord is the length of a record of that kind: with a number.
const bornRecord = 5

// Why a supervisor ended the run by itself (shim/supervise.c).
const (
	endStopped = 1 << 0 // we, or our death, said so
	endCrowded = 1 << 1 // more than Limits.Processes
	endFull    = 1 << 2 // not a reason: the working folder has nothing left of its own size (in a jail)
)

// supervised is what the supervisor reports about the whole run.
type supervised struct {
	Tag         [4]byte
	Wait        uint32
	Flags       uint32
	Reserved    uint32
	LeaderCPU   uint64 // microseconds
	CPU         uint64 // microseconds
	MaxRSSBytes uint64 // sent as KiB
}

// report is the content of one status pipe.
type report struct {
	ready   bool   // every layer was on; execve came next
	started bool   // of a cell's run: the script came next
	fault   string // the step and what it answered, when one failed
	errno   syscall.Errno
	ended   *supervised
}

// parseReport reads the records. What it does not know makes the run a failure of ours: it is never taken for success.
func parseReport(b []byte) (report, error) {
	var r report
	for len(b) > 0 {
		switch b[0] {
		case recordReady:
			r.ready = true
			b = b[1:]
		case recordStarted:
			r.started = true
			b = b[1:]
		case recordBorn:
			if len(b) < bornRecord {
				return r, fmt.Errorf("%w: half a birth record", ErrConfine)
			}
			b = b[bornRecord:]
		case recordFailed:
			line, rest, found := bytes.Cut(b[1:], []byte{'\n'})
			if !found {
				return r, fmt.Errorf("%w: half a fault record", ErrConfine)
			}
			if r.fault == "" {
				r.fault, r.errno = describe(string(line))
			}
			b = rest
		case recordEnded:
			ended := &supervised{}
			n, err := binary.Decode(b, binary.LittleEndian, ended)
			if err != nil {
				return r, fmt.Errorf("%w: half an end record", ErrSupervisor)
			}
			ended.MaxRSSBytes *= 1024
			r.ended = ended
			b = b[n:]
		default:
			return r, fmt.Errorf("%w: unknown status record %q", ErrConfine, b[0])
		}
	}
	return r, nil
}

// describe turns "step errno" into words that name the step, and the number.
func describe(line string) (string, syscall.Errno) {
	at := bytes.LastIndexByte([]byte(line), ' ')
	var number int
	if _, err := fmt.Sscanf(line[at+1:], "%d", &number); at < 0 || err != nil {
		return line, 0
	}
	errno := syscall.Errno(number)
	return fmt.Sprintf("%s: %s (%s)", line[:at], errno.Error(), unix.ErrnoName(errno)), errno
}

func microseconds(n uint64) time.Duration { return time.Duration(n) * time.Microsecond }
