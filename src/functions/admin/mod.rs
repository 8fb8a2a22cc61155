//! Administration: `varve.compact`, `varve.chunks`, `varve.stats`, `varve.verify`. Declared in
//! `src/schema/20-administration.sql`, described in `docs/reference/administration.md`.

mod compact;
mod subject;
