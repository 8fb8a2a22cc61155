//! May a query use nodes of ours, and at what price.

pub mod aggregate;
