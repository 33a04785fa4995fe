// Package protocol is the contract between the api and the runner: the messages, and the one table of refusals
// and outcomes from which documents and tests are made.
//
//	api                                 runner
//	 |  POST /run {RunRequest}  ------>  |  decode strictly, guard, counts, queue
//	 |  <---- 4xx/5xx {Problem}          |  refused: no run started
//	 |  <---- 200 {Result}               |  started: one outcome
//
// A refusal says why no run started; an outcome says how a started run ended. There is nothing in between: when
// the connection itself could not be made the api gives the refusal runner_unavailable, and when it broke after
// the request may have arrived the api gives the outcome lost.
package protocol
