//! A client for measuring. It takes in all that the server sends, and makes nothing of rows: what clients make of them is not the time of a
//! table. It speaks as much of the protocol as simple queries on a trusted socket need (PostgreSQL's documentation, "Message Formats").

use crate::server::Cluster;
use crate::Result;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

/// Bytes that are read at once, unless a message is longer.
const AT_ONCE: usize = 1 << 16;
/// Version 3.0.
const PROTOCOL: i32 = 3 << 16;

pub struct Asker {
    stream: UnixStream,
    /// Begins with so many bytes that were read and belong to no whole message yet.
    buffer: Vec<u8>,
    filled: usize,
    /// The process that answers.
    process: i32,
}

impl Asker {
    pub fn connect(cluster: &Cluster, database: &str) -> Result<Asker> {
        let mut asker = Asker {
            stream: UnixStream::connect(cluster.socket())?,
            buffer: vec![0; AT_ONCE],
            filled: 0,
            process: 0,
        };
        let mut startup = PROTOCOL.to_be_bytes().to_vec();
        startup.extend_from_slice(format!("user\0postgres\0database\0{database}\0\0").as_bytes());
        asker.stream.write_all(&with_length(&startup))?;
        asker.take(|_| ())?;
        Ok(asker)
    }

    /// The number of the process that answers.
    pub fn process(&self) -> i32 {
        self.process
    }

    /// Has some statements executed, and takes in their rows.
    pub fn run(&mut self, statements: &str) -> Result<()> {
        self.ask(statements, |_| ())
    }

    /// The first column of a query's rows.
    pub fn lines(&mut self, query: &str) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        self.ask(query, |row| {
            let text = first_column(row).unwrap_or_default();
            lines.push(String::from_utf8_lossy(text).into_owned());
        })?;
        Ok(lines)
    }

    fn ask(&mut self, statements: &str, row: impl FnMut(&[u8])) -> Result<()> {
        let mut message = vec![b'Q'];
        message.extend(with_length(format!("{statements}\0").as_bytes()));
        self.stream.write_all(&message)?;
        self.take(row)
    }

    /// Reads until the server is ready for more.
    fn take(&mut self, mut row: impl FnMut(&[u8])) -> Result<()> {
        let (mut failure, mut is_ready) = (None, false);
        while !is_ready {
            if self.filled == self.buffer.len() {
                self.buffer.resize(2 * self.filled, 0);
            }
            let read = self.stream.read(&mut self.buffer[self.filled..])?;
            if read == 0 {
                let why = failure.unwrap_or("the server has closed the connection".to_string());
                return Err(why.into());
            }
            self.filled += read;
            let mut at = 0;
            while let Some((kind, body)) = message(&self.buffer[at..self.filled]) {
                at += body.len() + 5;
                match kind {
                    b'D' => row(body),
                    b'E' => failure = Some(String::from_utf8_lossy(body).replace('\0', " ")),
                    b'K' => self.process = i32::from_be_bytes(body[..4].try_into()?),
                    b'Z' => is_ready = true,
                    _ => {}
                }
            }
            self.buffer.copy_within(at..self.filled, 0);
            self.filled -= at;
        }
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }
}

/// The text of a row's first column, if it has one that is not NULL: behind the number of columns and its own length.
fn first_column(row: &[u8]) -> Option<&[u8]> {
    let length: [u8; 4] = row.get(2..6)?.try_into().ok()?;
    let length = usize::try_from(i32::from_be_bytes(length)).ok()?;
    row.get(6..6 + length)
}

/// What a message is, and its body, if all of it is there.
fn message(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (&kind, rest) = bytes.split_first()?;
    let length: [u8; 4] = rest.get(..4)?.try_into().ok()?;
    let length = usize::try_from(i32::from_be_bytes(length)).ok()?;
    Some((kind, rest.get(4..length)?))
}

/// Behind its length, which counts itself.
fn with_length(body: &[u8]) -> Vec<u8> {
    let length = (body.len() + 4) as i32;
    [&length.to_be_bytes(), body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_whole_or_none() {
        let mut bytes = vec![b'D'];
        bytes.extend(with_length(b"row"));
        assert_eq!(message(&bytes), Some((b'D', &b"row"[..])));
        bytes.push(b'Z');
        assert_eq!(message(&bytes[8..]), None);
        for short in 0..8 {
            assert_eq!(message(&bytes[..short]), None);
        }
    }

    #[test]
    fn rows_without_a_column_or_value_have_no_text() {
        assert_eq!(first_column(&[0, 0]), None);
        assert_eq!(first_column(&[0, 1, 255, 255, 255, 255]), None);
        assert_eq!(first_column(&[0, 1, 0, 0, 0, 1, b'x']), Some(&b"x"[..]));
    }
}
