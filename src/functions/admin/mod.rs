//! Administration: `varve.chunks`, `varve.stats`, `varve.verify`, `varve.tables`. Declared in
//! `src/schema/20-administration.sql`, described in `docs/reference/administration.md`.

mod chunks;
mod codecs;
mod stats;
pub mod subject;
mod tables;
mod text;
mod verify;
