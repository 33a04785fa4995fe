package sandbox

import "golang.org/x/sys/unix"

// The kernel shares processors among threads and not among runs: a run that has eight of them at work would have eight
// shares, and its neighbours less. So what is at work at once is put back until all of it weighs a quarter of one thread:
// short runs come first, and what takes more than one processor works behind them. A pipeline that has two at work for a
// moment is no crowd: it takes several looks in a row.
//
// None is ever taken forward again, for which a privilege is needed (setpriority(2)): a run that was greedy once waits behind
// others from then on, and has the whole machine as before when there are none.
const (
	inARow      = 3
	weightStep  = 1.25    // by how much a thread weighs less for each level of nice (sched(7))
	lastLevel   = 19      // of nice
	crowdWeight = 1.0 / 4 // what more than one weigh, in threads that are not put back
)

// share of the processors that a run has. The zero value is a whole one for each of its threads.
type share struct {
	before [inARow - 1]int // how many were at work
	level  int             // nice(2)
}

// see takes how many threads are at work now, and gives the level of all.
func (s *share) see(running int) int {
	least := running
	for i, n := range s.before {
		least = min(least, n)
		s.before[i] = running
		running = n
	}
	s.level = max(s.level, levelFor(least))
	return s.level
}

// levelFor is the nice value at which so many threads weigh what a crowd may.
func levelFor(running int) int {
	if running < 2 {
		return 0
	}
	level := 0
	for weight := float64(running); weight > crowdWeight && level < lastLevel; level++ {
		weight /= weightStep
	}
	return level
}

// put looks at all threads of the run and puts them where they belong.
func (s *share) put(all []task) {
	if len(all) < 2 {
		s.see(len(all))
		return
	}
	running := 0
	for _, t := range all {
		if t.running() {
			running++
		}
	}
	level := s.see(running)
	if level == 0 {
		return
	}
	for _, t := range all { // each time: a thread has its level from who started it, and that may not have been put back yet
		_ = unix.Setpriority(unix.PRIO_PROCESS, t.id, level) // it has ended, or has put itself further back
	}
}
