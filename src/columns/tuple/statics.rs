//! The static section of a chunk header: what never changes while the chunk lives, whatever versions
//! its header goes through.
//!
//! Encoded as varints: number of table columns at writing, time column (0: none), number of key
//! columns, the key columns, length of the column headers; then the column headers (`chunk`), then
//! where the payload lies (`Pieces`).

use super::header::FormatError;
use super::runs::{get_varint, put_varint, Pieces};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statics {
    /// Attribute number of the time column by which rows are sorted within a series.
    pub time: Option<u16>,
    /// Attribute numbers of the series key, in order.
    pub keys: Vec<u16>,
    /// Number of columns that the table had; later ones were added afterwards.
    pub attributes: u16,
    /// Header bytes of the encoded columns.
    pub columns: Vec<u8>,
    pub payload: Pieces,
}

impl Statics {
    /// Columns (from 0) by which rows are sorted, time last.
    pub fn columns_of_order(&self) -> Vec<usize> {
        self.order().collect()
    }

    /// Are these the columns of order?
    pub fn is_ordered_by(&self, columns: &[usize]) -> bool {
        self.order().eq(columns.iter().copied())
    }

    /// Is this the first column of order?
    pub fn is_led_by(&self, column: usize) -> bool {
        self.order().next() == Some(column)
    }

    fn order(&self) -> impl Iterator<Item = usize> + '_ {
        let numbers = self.keys.iter().chain(self.time.iter());
        numbers.map(|&number| usize::from(number) - 1)
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.columns.len() + 64);
        put_varint(&mut out, u64::from(self.attributes));
        put_varint(&mut out, u64::from(self.time.unwrap_or(0)));
        put_varint(&mut out, self.keys.len() as u64);
        for &key in &self.keys {
            put_varint(&mut out, u64::from(key));
        }
        put_varint(&mut out, self.columns.len() as u64);
        out.extend_from_slice(&self.columns);
        self.payload.encode(&mut out);
        out
    }

    pub fn decode(mut bytes: &[u8]) -> Result<Statics, FormatError> {
        let input = &mut bytes;
        let attributes = column(input)?;
        let time = Some(column(input)?).filter(|&number| number != 0);
        let keys = (0..column(input)?)
            .map(|_| column(input))
            .collect::<Result<Vec<_>, _>>()?;
        let columns = column_headers(input)?;
        let payload = Pieces::decode(input)?;
        if !input.is_empty() {
            return Err(FormatError("end of the static section"));
        }
        Ok(Statics {
            time,
            keys,
            attributes,
            columns: columns.to_vec(),
            payload,
        })
    }

    /// The number of table columns and the column headers of an encoded section, without anything else of it.
    pub fn columns_of(mut bytes: &[u8]) -> Result<(u16, &[u8]), FormatError> {
        let input = &mut bytes;
        let (attributes, _time) = (column(input)?, column(input)?);
        for _ in 0..column(input)? {
            column(input)?;
        }
        Ok((attributes, column_headers(input)?))
    }
}

fn column(input: &mut &[u8]) -> Result<u16, FormatError> {
    u16::try_from(get_varint(input)?)
        .ok()
        .filter(|&number| number <= 1664)
        .ok_or(FormatError("column number"))
}

fn column_headers<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], FormatError> {
    let len = get_varint(input)? as usize;
    let split = input.split_at_checked(len);
    let (columns, rest) = split.ok_or(FormatError("length of the column headers"))?;
    *input = rest;
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::super::tid::Tid;
    use super::*;

    #[test]
    fn statics_come_back_and_truncation_is_an_error() {
        let statics = Statics {
            time: Some(1),
            keys: vec![2, 300],
            attributes: 12,
            columns: (0..200).collect(),
            payload: Pieces {
                len: 10,
                tids: vec![Tid {
                    block: 70_000,
                    offset: 4,
                }],
            },
        };
        let bytes = statics.encode();
        assert_eq!(Statics::columns_of(&bytes), Ok((12, &statics.columns[..])));
        assert_eq!(Statics::decode(&bytes), Ok(statics));
        for end in 0..bytes.len() {
            assert!(Statics::decode(&bytes[..end]).is_err());
        }
    }
}
