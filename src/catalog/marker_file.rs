//! What a mark names: a file. A number names one file of a tablespace, and among temporary ones of a session, for as long as
//! the file is there; other files may have the same number.

use crate::pg::catalog_scan::{Key, Row};
use crate::pg::places;
use crate::pg::relation::Table;
use crate::pg::{Datum, InvalidOid, Oid};

/// Columns of `varve.chunk_files`.
pub const COLUMNS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct File {
    pub number: Oid,
    /// 0 for the database's own, which can be another one tomorrow.
    pub tablespace: Oid,
    /// Of a temporary table, or -1.
    pub backend: i32,
}

impl File {
    pub fn of(table: Table<'_>) -> File {
        File::at(
            table.file_number(),
            table.file_tablespace(),
            table.backend(),
        )
    }

    pub fn at(number: Oid, tablespace: Oid, backend: i32) -> File {
        let is_own = tablespace == places::tablespace();
        File {
            number,
            tablespace: if is_own { InvalidOid } else { tablespace },
            backend,
        }
    }

    pub fn values(&self) -> [Datum; COLUMNS] {
        [
            self.number.into(),
            self.tablespace.into(),
            Datum::from(self.backend),
        ]
    }

    /// Keys of a scan for the file.
    pub fn scan_keys(&self) -> [Key; COLUMNS] {
        [
            Key::oid(1, self.number),
            Key::oid(2, self.tablespace),
            Key::int4(3, self.backend),
        ]
    }

    /// What a row of the table of marks says.
    pub fn read(mark: &Row<'_>) -> File {
        let (values, _) = mark.columns();
        File {
            number: Oid::from(values[0].value() as u32),
            tablespace: Oid::from(values[1].value() as u32),
            backend: values[2].value() as i32,
        }
    }
}
