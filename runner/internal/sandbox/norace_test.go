//go:build !race

package sandbox

// raceEnabled: under the race detector everything of ours is slow, and the kernel's part, which these tests are about,
// is the same.
const raceEnabled = false
