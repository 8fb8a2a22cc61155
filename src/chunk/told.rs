//! What a header tells of all rows of its chunk, read from its bytes for who asks for nothing else: no content is made of them, and none is kept.

use varve_columns::chunk::{ChunkHeader, ColumnHeader};
use varve_columns::tuple::header;
use varve_columns::tuple::statics::Statics;

/// What the header that was read last tells.
pub struct Told {
    columns: ChunkHeader,
    /// Columns that somebody asks for: the first ones.
    most: usize,
}

impl Told {
    /// Of the first columns of a table, so many.
    pub fn of_first(most: usize) -> Told {
        Told {
            columns: ChunkHeader::default(),
            most,
        }
    }

    /// Reads the body of a tuple; false where that is not all: where it is no header, or rows are gone, or it names notes, or has sections in pieces, or is
    /// damaged. Who opens it says then what it is.
    pub fn read(&mut self, body: &[u8]) -> bool {
        let Some(whole) = header::whole(body) else {
            return false;
        };
        let Ok((attributes, columns)) = Statics::columns_of(whole.statics) else {
            return false;
        };
        let count = self.columns.parse_again(columns, self.most);
        count == Ok(attributes.into()) && self.columns.rows() == whole.rows
    }

    pub fn rows(&self) -> u32 {
        self.columns.rows()
    }

    /// The headers of its first columns: fewer than were asked for only where the chunk has no more.
    pub fn columns(&self) -> &[ColumnHeader] {
        self.columns.columns()
    }
}
