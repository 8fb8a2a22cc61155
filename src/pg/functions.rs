//! Functions of the server's own, by their OIDs.

pub use pgrx::pg_sys::{F_FLOAT8_AVG, F_INT8_AVG_ACCUM, F_INT8_AVG_COMBINE, F_INT8_AVG_SERIALIZE};
