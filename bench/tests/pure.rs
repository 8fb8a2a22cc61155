//! Files of the extension that know nothing of PostgreSQL, built again here, since a test program of the extension itself would
//! have to be a server.

#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/exec/aggregate/cuts.rs"]
mod cuts;
#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/exec/aggregate/key_range.rs"]
mod key_range;
#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/exec/aggregate/known.rs"]
mod known;
#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/rollup/label.rs"]
mod label;
#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/exec/aggregate/outbox.rs"]
mod outbox;
#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/exec/aggregate/packed_ranks.rs"]
mod packed_ranks;
#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/exec/aggregate/passes.rs"]
mod passes;
#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/rollup/ranges.rs"]
mod ranges;
#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/exec/aggregate/row_ranges.rs"]
mod row_ranges;
#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/exec/aggregate/share.rs"]
mod share;
#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/exec/aggregate/slice.rs"]
mod slice;
#[allow(dead_code, reason = "what tests do not use, the extension does")]
#[path = "../../src/exec/aggregate/total.rs"]
mod total;

mod sources;

#[test]
fn tests_of_all_files_run() {
    let here = include_str!("pure.rs");
    for file in sources::but_for(&["columns"]) {
        let name = file.path.display();
        let is_here = here.contains(&format!("../../src/{name}"));
        assert!(
            is_here || !file.text.contains("#[cfg(test)]"),
            "nothing runs the tests in {name}"
        );
    }
}
