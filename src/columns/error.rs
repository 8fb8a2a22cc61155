//! What reading a chunk can report: bytes that are not a chunk, or a chunk of a newer format.

use std::fmt;

pub type Result<T> = std::result::Result<T, Corrupt>;

/// Why bytes could not be decoded. Never a panic, never a wrong value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Corrupt {
    /// Written by a newer version of this crate.
    Version { found: u8, supported: u8 },
    /// The bytes contradict the format or their checksum. Indexes are known once the caller of a
    /// codec has added them.
    Bytes {
        what: &'static str,
        column: Option<u32>,
        block: Option<u32>,
    },
}

impl Corrupt {
    pub const fn new(what: &'static str) -> Self {
        Corrupt::Bytes {
            what,
            column: None,
            block: None,
        }
    }

    /// Names the column, unless it is named already.
    pub fn in_column(self, index: u32) -> Self {
        match self {
            Corrupt::Bytes {
                what,
                column: None,
                block,
            } => Corrupt::Bytes {
                what,
                column: Some(index),
                block,
            },
            other => other,
        }
    }

    /// Names the block, unless it is named already.
    pub fn in_block(self, index: u32) -> Self {
        match self {
            Corrupt::Bytes {
                what,
                column,
                block: None,
            } => Corrupt::Bytes {
                what,
                column,
                block: Some(index),
            },
            other => other,
        }
    }
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Corrupt::Version { found, supported } => {
                write!(
                    f,
                    "chunk format version {found} is newer than the supported version {supported}"
                )
            }
            Corrupt::Bytes {
                what,
                column,
                block,
            } => {
                f.write_str(what)?;
                if let Some(column) = column {
                    write!(f, " in column {column}")?;
                }
                if let Some(block) = block {
                    write!(f, " in block {block}")?;
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for Corrupt {}
