//! What a mark names: a file. A number names one file of a tablespace, and among temporary ones of a session, for as long as
//! the file is there; other files may have the same number.

use crate::pg::relation::Table;
use pgrx::pg_sys;

/// Columns of `varve.chunk_files`.
pub const COLUMNS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct File {
    pub number: pg_sys::Oid,
    /// 0 for the database's own, which can be another one tomorrow.
    pub tablespace: pg_sys::Oid,
    /// Of a temporary table, or -1.
    pub backend: i32,
}

impl File {
    pub fn of(table: Table<'_>) -> File {
        // SAFETY: the table is open.
        unsafe {
            File::at(
                table.file_number(),
                table.file_tablespace(),
                (*table.as_ptr()).rd_backend,
            )
        }
    }

    pub fn at(number: pg_sys::Oid, tablespace: pg_sys::Oid, backend: i32) -> File {
        // SAFETY: set when a backend connects.
        let is_own = tablespace == unsafe { pg_sys::MyDatabaseTableSpace };
        File {
            number,
            tablespace: if is_own {
                pg_sys::InvalidOid
            } else {
                tablespace
            },
            backend,
        }
    }

    pub fn values(&self) -> [pg_sys::Datum; COLUMNS] {
        [
            self.number.into(),
            self.tablespace.into(),
            pg_sys::Datum::from(self.backend),
        ]
    }

    /// Keys of a scan for the file.
    pub fn scan_keys(&self) -> Vec<pg_sys::ScanKeyData> {
        let functions = [pg_sys::F_OIDEQ, pg_sys::F_OIDEQ, pg_sys::F_INT4EQ];
        let values = self.values();
        let keys = functions.iter().zip(values).enumerate();
        keys.map(|(at, (&function, value))| {
            let mut key = pg_sys::ScanKeyData::default();
            // SAFETY: a key of plain values, and the function that compares the column's type.
            unsafe {
                pg_sys::ScanKeyInit(
                    &mut key,
                    at as pg_sys::AttrNumber + 1,
                    pg_sys::BTEqualStrategyNumber as pg_sys::StrategyNumber,
                    pg_sys::Oid::from(function),
                    value,
                );
            }
            key
        })
        .collect()
    }

    /// What a mark says.
    ///
    /// # Safety
    /// `tuple` must be one of the table of marks.
    pub unsafe fn read(marks: Table<'_>, tuple: pg_sys::HeapTuple) -> File {
        let (mut values, mut nulls) = ([pg_sys::Datum::null(); COLUMNS], [false; COLUMNS]);
        // SAFETY: by contract; the columns are an oid, an oid and an int4.
        unsafe {
            pg_sys::heap_deform_tuple(
                tuple,
                marks.descriptor().as_ptr(),
                values.as_mut_ptr(),
                nulls.as_mut_ptr(),
            );
        }
        File {
            number: pg_sys::Oid::from(values[0].value() as u32),
            tablespace: pg_sys::Oid::from(values[1].value() as u32),
            backend: values[2].value() as i32,
        }
    }
}
