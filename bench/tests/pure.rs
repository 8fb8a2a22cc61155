//! Files of the extension that know nothing of PostgreSQL, built again here, since a test program of the extension itself would
//! have to be a server.

#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/exec/aggregate/cuts.rs"]
mod cuts;
#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/rollup/ranges.rs"]
mod ranges;
