package sandbox

import "io"

// readCapped reads up to limit bytes. When there is one more it calls over, once, and stops: the run is over then and
// what its processes still write is nobody's. The buffer grows with what came, so that a quiet run costs little and a
// flood no more than the limit.
func readCapped(r io.Reader, limit int, over func()) []byte {
	buffer := make([]byte, 0, min(limit+1, 4096))
	for {
		if len(buffer) == cap(buffer) {
			grown := make([]byte, len(buffer), min(2*cap(buffer), limit+1))
			copy(grown, buffer)
			buffer = grown
		}
		n, err := r.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		if len(buffer) > limit {
			over()
			return buffer[:limit]
		}
		if err != nil {
			return buffer // the end, or the deadline after the run's
		}
	}
}
