//! Waiting for what a server comes to by itself.

use crate::Result;
use postgres::Client;
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const BETWEEN: Duration = Duration::from_millis(50);

/// Asks again and again until the answer is yes.
pub fn await_true(client: &mut Client, what: &str, query: &str) -> Result<()> {
    await_true_while(client, what, query, PATIENCE, |_| Ok(()))
}

/// The same, for so long, and does something each time before it asks.
pub fn await_true_while(
    client: &mut Client,
    what: &str,
    query: &str,
    patience: Duration,
    meanwhile: impl Fn(&mut Client) -> Result<()>,
) -> Result<()> {
    let start = Instant::now();
    loop {
        meanwhile(client)?;
        if client.query_one(query, &[])?.get::<_, bool>(0) {
            return Ok(());
        }
        if start.elapsed() > patience {
            return Err(format!("{what}: not in time").into());
        }
        thread::sleep(BETWEEN);
    }
}
