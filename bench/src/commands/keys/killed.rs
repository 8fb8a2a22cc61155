//! kill -9 of the postmaster while the sessions of a mode and compact are at work: what has been committed is right after recovery,
//! and stays so when it is compacted.

use super::round::{work_beside, Failure, Work};
use super::Mode;
use crate::heap_pair;
use crate::random::Random;
use crate::report::Report;
use crate::server::Cluster;
use crate::Result;
use std::thread;
use std::time::Duration;

const DATABASE: &str = "killed";

pub fn run(
    cluster: &mut Cluster,
    report: &mut Report,
    mode: &Mode,
    kills: u64,
    seed: u64,
) -> Result<()> {
    (mode.create)(&mut cluster.database(DATABASE)?)?;
    let mut random = Random::new(seed);
    let mut total = Work::default();
    for kill in 1..=kills {
        let milliseconds = random.integer(200, 1_500) as u64;
        let outcome = one(cluster, mode, random.bits(), milliseconds, &mut total);
        let broken = outcome.is_err();
        report.check(&format!("keys/killed: {} {kill}", mode.title), outcome);
        if broken {
            println!("keys/killed:\n{}", cluster.log_end()?);
            break;
        }
    }
    println!(
        "keys/killed: {} {:?}, {:?}",
        mode.title, total.tally, total.compactions
    );
    Ok(())
}

/// Lets the sessions work, kills, recovers and looks.
fn one(
    cluster: &mut Cluster,
    mode: &Mode,
    seed: u64,
    milliseconds: u64,
    total: &mut Work,
) -> Result<()> {
    let conninfo = cluster.conninfo(DATABASE);
    let (work, killed) = work_beside(mode, &conninfo, seed, |_| {
        thread::sleep(Duration::from_millis(milliseconds));
        cluster.kill()
    });
    killed?;
    total.tally.add(&work.tally);
    total.compactions.add(&work.compactions);
    let failures = work.sessions.into_iter().chain(work.compact);
    if let Some(Failure { text, .. }) = failures.into_iter().find(|f| !f.by_server) {
        return Err(text.into());
    }
    cluster.start()?;
    let mut client = cluster.connect(DATABASE)?;
    mode.expect_right_and_verified(&mut client)?;
    for table in mode.tables {
        heap_pair::compact(&mut client, table)?;
    }
    mode.expect_right_and_verified(&mut client)
}
