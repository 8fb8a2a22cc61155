//! How far work in rounds has come, and what it came to.

/// Who looks on while a table is worked on.
pub trait Watch {
    /// Called within a round, so that it is committed with it: what is done now, how much of it, and of how much in all.
    fn progress(&self, phase: &str, done: u64, total: u64);

    /// A chunk cannot be decoded, and is left as it is.
    fn damaged(&self, what: String);

    /// What the last run left behind, if that came to its end: `Work::left_bytes`.
    fn left_bytes(&self) -> Option<u64>;
}

/// What work in rounds came to.
#[derive(Clone, Copy, Default, Debug)]
pub struct Work {
    /// Rows of the tail that were sealed, or rows that were deleted.
    pub rows: u64,
    /// Bytes of chunks that were deleted, or of the file that were given back.
    pub bytes: u64,
    /// Somebody waits for the table: the rest is left for the next time.
    pub gave_way: bool,
    /// Files are larger than they have to be: somebody may still see dead tuples, or was at the table.
    pub leaves_space: bool,
    /// Of compact: what may be moved for what it has left behind, besides what it does anew; where it came to its end.
    pub left_bytes: Option<u64>,
}
