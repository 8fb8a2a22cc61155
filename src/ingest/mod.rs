//! COPY and INSERT … SELECT: rows are collected in batches, which are written as chunks. May import `unique` and what is below.

pub mod batch;
pub mod crowd;
pub mod fresh;
