// Package guard decides whether one call of an agent may go ahead now.
//
// Decide is pure and total: no I/O, no clock, no error, no panic that leaves it. Whoever asks has to gather
// what is known (the policy of the session, the counts) and to do what the answer says. The zero Decision
// denies, and so does the zero Policy.
//
// The rules stand in the order of the product contract; the first that hits decides:
//
//	1  the tool is not in this session's set
//	2  the skill is not available to this session
//	3  unknown script; input too long, not an object, control characters, against the schema
//	4  counts: 3 runs per turn, 12 per session, the deployment's daily limit
//	5  class: above the ceiling, or not safe and not approved
//	6  the guard's own failure
//
// It is asked twice, in the api so that the answer comes early, and in the runner because the api is the exposed
// side and is not trusted. The guard carries no isolation: what a script can do is the sandbox's work.
package guard
