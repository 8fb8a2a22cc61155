//! What a query reads, by EXPLAIN.

use crate::asker::Asker;
use crate::Result;

/// What EXPLAIN says that a query on varve has read.
#[derive(Debug)]
pub struct Read {
    /// Blocks decoded; None where the node is not in its plan.
    pub blocks: Option<u64>,
    pub buffers: u64,
}

impl Read {
    pub fn by(asker: &mut Asker, query: &str) -> Result<Read> {
        let lines = explained(asker, query)?;
        let number = |line: &str, name: &str| -> Result<Option<u64>> {
            let behind = line.split_once(name).map(|(_, rest)| rest);
            let number = behind.and_then(|rest| rest.split([' ', ',']).next());
            Ok(number.map(str::parse).transpose()?)
        };
        let blocks = lines.iter().find(|line| line.contains("Blocks Decoded: "));
        // The first one is that of the whole plan.
        let buffers = lines.iter().find(|line| line.contains("Buffers: shared "));
        // Behind a comma are others.
        let shared = buffers.and_then(|line| line.split(',').next());
        let shared = shared.ok_or("EXPLAIN shows no buffers")?;
        Ok(Read {
            blocks: blocks.map_or(Ok(None), |line| number(line, "Blocks Decoded: "))?,
            buffers: number(shared, " hit=")?.unwrap_or(0) + number(shared, " read=")?.unwrap_or(0),
        })
    }
}

/// The lines of EXPLAIN, after the query has run.
pub fn explained(asker: &mut Asker, query: &str) -> Result<Vec<String>> {
    asker.lines(&format!(
        "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, SUMMARY OFF) {query}"
    ))
}
