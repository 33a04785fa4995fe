// Package manifests says what may run: it reads the folders that people write, judges them, and turns
// them into one lock file, runner/manifest.json, that the runner and the api carry and compare by digest.
//
//	runner/skills/<name>/SKILL.md   ParseSkillMD ─┐
//	                     xray.json  ParseXray    ─┼─ Build ── Encode ──> manifest.json ── Decode ──> Lock
//	                     all files  readTree     ─┘                                              (Schema compiled)
//
// What holds, whoever calls:
//
//   - Nothing is hidden. A folder that cannot be read as a skill is off, and is named in Lock.Disabled
//     with a reason that its author can act on. It never hides another folder, and it is never loaded
//     with less than its author wrote: a skill without its restrictions is worse than no skill.
//   - Everything is decoded once, strictly. CheckJSON is the one judge of JSON texts: encoding/json lets
//     the last of two equal keys win and folds letter case, so two readers of one text can see two
//     different calls. DecodeStrict adds that keys match exactly and are known.
//   - Schema is the only way into the JSON Schema validator. It refuses documents that reach outside of
//     themselves, bounds what a $ref can expand to, asserts formats, and turns a panic into a refusal.
//   - LintSchema judges what a model is given: a schema must say what its author believes it says.
//   - What was hashed is what was judged: Build reads each file once, through os.Root, follows no link,
//     and refuses every kind of file through which unlisted code would run.
//   - Equal folders give equal bytes: keys are sorted, numbers keep their digits, no time or path of the
//     build machine goes in.
//
// The package does no network, starts no process and does not log. The reviewer's list for the text of
// scripts is in internal/review, which does start Python; only cmd/manifestgen uses it.
package manifests
