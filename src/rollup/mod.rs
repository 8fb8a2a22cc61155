//! What rollups ask of writers: which times of which tables are stored, and so have to be marked when rows of them change
//! (docs/design/0016). The SQL functions are in `functions/rollup`. `truncate` empties what is stored together with its source.

pub mod catalog;
pub mod exclusion;
pub mod label;
pub mod labels;
pub mod partition;
pub mod ranges;
pub mod removal;
pub mod series;
pub mod time;
pub mod truncate;
pub mod watch;
