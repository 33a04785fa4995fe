package sandbox

import (
	"bytes"
	"fmt"
	"io"
	"time"
)

// maxLine caps a line that is handed to OnStderr; the rest of it is dropped up to the next line end.
const maxLine = 4096

// maxMark is more than the line between head and tail ever takes.
const maxMark = 64

// readStderr reads to the end, whatever comes: a child that blocks on a full stderr would hang until its timeout.
func readStderr(r io.Reader, limit int, onLine func(string, time.Duration), start time.Time) *clip {
	kept := newClip(limit)
	lines := &lineSplitter{emit: onLine, start: start}
	chunk := make([]byte, 8192)
	for {
		n, err := r.Read(chunk)
		kept.write(chunk[:n])
		if onLine != nil {
			lines.write(chunk[:n])
		}
		if err != nil {
			if onLine != nil {
				lines.end()
			}
			return kept
		}
	}
}

// clip keeps the first and the last bytes of a stream: the first error is at the head, the last words at the tail.
type clip struct {
	limit int
	half  int // of what remains beside the mark
	head  []byte
	tail  []byte // ring of the last half bytes
	next  int    // where the ring goes on
	total int64
}

func newClip(limit int) *clip {
	return &clip{limit: limit, half: max(0, limit-maxMark) / 2}
}

func (c *clip) write(p []byte) {
	c.total += int64(len(p))
	room := min(len(p), c.limit-len(c.head))
	c.head = append(c.head, p[:room]...)
	if len(p) > c.half { // only the last of it can stay
		p = p[len(p)-c.half:]
	}
	for len(p) > 0 {
		if c.tail == nil {
			c.tail = make([]byte, c.half)
		}
		n := copy(c.tail[c.next:], p)
		c.next = (c.next + n) % c.half
		p = p[n:]
	}
}

// result is the stream when it fits, else head, mark and tail; never longer than the limit.
func (c *clip) result() (text []byte, truncated bool) {
	if c.total <= int64(c.limit) {
		return c.head, false
	}
	if c.half == 0 {
		return c.head, true // no room for a mark
	}
	// The total is above the limit and so above half: the ring is full, its oldest byte is where it goes on.
	mark := fmt.Sprintf("\n[... %d bytes cut ...]\n", c.total-2*int64(c.half))
	out := make([]byte, 0, 2*c.half+len(mark))
	out = append(append(out, c.head[:c.half]...), mark...)
	return append(append(out, c.tail[c.next:]...), c.tail[:c.next]...), true
}

// lineSplitter hands out lines as they are complete.
type lineSplitter struct {
	emit    func(string, time.Duration)
	start   time.Time
	pending []byte
}

func (s *lineSplitter) write(p []byte) {
	for {
		line, rest, found := bytes.Cut(p, []byte{'\n'})
		s.pending = append(s.pending, line[:min(len(line), maxLine-len(s.pending))]...)
		if !found {
			return
		}
		s.flush()
		p = rest
	}
}

// end hands out a last line that has no line end.
func (s *lineSplitter) end() {
	if len(s.pending) > 0 {
		s.flush()
	}
}

func (s *lineSplitter) flush() {
	s.emit(string(s.pending), time.Since(s.start))
	s.pending = s.pending[:0]
}
