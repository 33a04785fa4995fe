package sandbox

import (
	"maps"
	"reflect"
	"slices"

	"golang.org/x/sys/unix"
)

// action is what a filter returns for a call (seccomp(2)).
type action uint32

const (
	allow = action(unix.SECCOMP_RET_ALLOW)
	// kill ends the process with SIGSYS, which is reported as Blocked. It is kept for what no honest program does; gVisor
	// knows it as "end the thread" only, so that an errno is the better answer everywhere else.
	kill = action(unix.SECCOMP_RET_KILL_PROCESS)
)

func refuse(errno unix.Errno) action { return action(unix.SECCOMP_RET_ERRNO) | action(errno) }

// unlisted is the answer to every call that the policy does not name.
var unlisted = refuse(unix.ENOSYS)

// Offsets in struct seccomp_data. The low half of an argument comes first: both architectures are little-endian.
const (
	offsetNumber = 0
	offsetArch   = 4
	offsetArgs   = 16
)

// maxJump is how far a conditional jump reaches: its offset has 8 bits.
const maxJump = 255

// assemble makes the filter program of a policy: check the architecture, refuse the numbers of foreign tables, then a
// binary search by number. A linear list would be three times as long, and the kernel walks the program for each call
// whose answer depends on arguments (for the others it keeps a bitmap since 5.11).
func assemble(rules map[string]rule) []unix.SockFilter { return program(rules, unlisted) }

// assembleOver makes a filter that comes on top of one with the rules of base, which stays in force: it has those rules alone
// that differ, and leaves all else to the other. The kernel translates a filter for each process that puts one on, and tries
// it with every number that there is, so that a short one is put on faster.
func assembleOver(base, rules map[string]rule) []unix.SockFilter {
	differ := map[string]rule{}
	for name := range numbers {
		below, above := base[name], rules[name]
		for _, r := range []*rule{&below, &above} {
			if r.then == 0 && r.checks == nil {
				r.then = unlisted
			}
		}
		if !reflect.DeepEqual(below, above) {
			differ[name] = above
		}
	}
	return program(differ, allow)
}

func program(rules map[string]rule, others action) []unix.SockFilter {
	program := []unix.SockFilter{
		load(offsetArch),
		jump(unix.BPF_JEQ, uint32(nativeArch), 1, 0),
		give(kill),
		load(offsetNumber),
		jump(unix.BPF_JGE, firstForeignCall, 0, 1),
		give(kill),
	}
	return append(program, search(spans(rules, others))...)
}

// span is the code for all numbers from first up to the next span.
type span struct {
	first uint32
	code  []unix.SockFilter
}

// spans lays the rules out by number, fills the gaps with the answer for all others, and joins equal neighbours.
func spans(rules map[string]rule, others action) []span {
	byNumber := map[uint32]rule{}
	for name, r := range rules {
		if number, ok := numbers[name]; ok {
			byNumber[number] = r
		}
	}
	out := []span{{0, []unix.SockFilter{give(others)}}}
	put := func(first uint32, code []unix.SockFilter) {
		last := &out[len(out)-1]
		switch {
		case slices.Equal(last.code, code):
		case last.first == first:
			last.code = code
		default:
			out = append(out, span{first, code})
		}
	}
	for _, number := range slices.Sorted(maps.Keys(byNumber)) {
		put(number, byNumber[number].code())
		put(number+1, []unix.SockFilter{give(others)})
	}
	return out
}

// search is the tree over the spans: numbers at or above the middle one go right.
func search(spans []span) []unix.SockFilter {
	if len(spans) == 1 {
		return spans[0].code
	}
	middle := len(spans) / 2
	left, right := search(spans[:middle]), search(spans[middle:])
	var code []unix.SockFilter
	if len(left) <= maxJump {
		code = append(code, jump(unix.BPF_JGE, spans[middle].first, uint8(len(left)), 0))
	} else {
		code = append(code, jump(unix.BPF_JGE, spans[middle].first, 0, 1), far(uint32(len(left))))
	}
	return append(append(code, left...), right...)
}

// code of one rule. It ends in two returns, "then" and "otherwise"; each check either falls through to the next one or
// jumps to the last instruction. It is built from the end, so that the distances are known.
func (r rule) code() []unix.SockFilter {
	if len(r.checks) == 0 {
		return []unix.SockFilter{give(r.then)}
	}
	code := []unix.SockFilter{give(r.then), give(r.otherwise)}
	for _, c := range slices.Backward(r.checks) {
		code = append(c.code(len(code)-1), code...)
	}
	return code
}

// code of one check: falls through when it holds, else jumps over the next `miss` instructions.
func (c check) code(miss int) []unix.SockFilter {
	code := []unix.SockFilter{load(offsetArgs + 8*c.argument + c.half)}
	if c.mask != all {
		code = append(code, unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: c.mask})
	}
	operands := c.operands()
	for i, operand := range operands {
		rest := len(operands) - 1 - i // comparisons after this one
		equal, other := uint8(rest), uint8(0)
		if c.not {
			equal = uint8(rest + miss)
		}
		if rest == 0 && !c.not {
			other = uint8(miss)
		}
		code = append(code, jump(unix.BPF_JEQ|operand.mark, operand.value, equal, other))
	}
	return code
}

// Marks on a comparison whose operand only the child knows: the shim puts its own process number there, or the negative
// of it (its process group as kill(2) names it), and takes the mark off (shim/confine.c). No instruction has these bits,
// so the kernel refuses a filter in which one was forgotten, and the run ends before its program.
const (
	markPID   = 1 << 15
	markGroup = 1 << 14
)

type operand struct {
	mark  uint16
	value uint32
}

func (c check) operands() []operand {
	var out []operand
	for _, value := range c.values {
		out = append(out, operand{value: value})
	}
	for _, mark := range c.own {
		out = append(out, operand{mark: mark})
	}
	return out
}

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func jump(kind uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | kind | unix.BPF_K, Jt: yes, Jf: no, K: k}
}

func far(distance uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: distance}
}

func give(a action) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: uint32(a)}
}
