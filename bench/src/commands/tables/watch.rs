//! The most that a backend's own memory and a table's file reach while a statement runs, sampled every two milliseconds.

use crate::server::Cluster;
use crate::Result;
use postgres::Client;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

#[derive(Clone, Copy, Default)]
pub struct Peaks {
    /// RssAnon: what a backend has beyond shared memory and files.
    pub memory_bytes: u64,
    /// The table's main fork.
    pub file_bytes: u64,
}

/// Runs `body` while its connection's backend and `table` are watched.
pub fn during<R>(
    cluster: &Cluster,
    client: &mut Client,
    table: &str,
    body: impl FnOnce(&mut Client) -> Result<R>,
) -> Result<(R, Peaks)> {
    let row = client.query_one(
        "SELECT pg_backend_pid(), pg_relation_filepath($1::text::regclass)",
        &[&table],
    )?;
    let status = format!("/proc/{}/status", row.get::<_, i32>(0));
    let file = cluster.data().join(row.get::<_, String>(1));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            let mut peaks = Peaks::default();
            loop {
                let last = done.load(Ordering::Relaxed);
                peaks.memory_bytes = peaks.memory_bytes.max(own_memory(&status));
                peaks.file_bytes = peaks.file_bytes.max(file_bytes(&file));
                if last {
                    return peaks;
                }
                thread::sleep(Duration::from_millis(2));
            }
        });
        let result = body(client);
        done.store(true, Ordering::Relaxed);
        let peaks = sampler.join().map_err(|_| "the sampler panicked")?;
        Ok((result?, peaks))
    })
}

/// What a process has used of the processors.
pub fn processor_seconds(pid: i32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // Behind the name in parentheses, which may hold anything: state, ten more, user and system ticks.
    let (_, fields) = text.rsplit_once(')').ok_or("a process without a name")?;
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: i64 = ticks.map(|t| t.parse().unwrap_or(0)).sum();
    // SAFETY: asks for a constant of the system.
    Ok(ticks as f64 / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64)
}

fn own_memory(status: &str) -> u64 {
    let text = std::fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok())
        .map_or(0, |kilobytes| kilobytes * 1024)
}

/// The file and its further segments.
fn file_bytes(file: &Path) -> u64 {
    let bytes = |path: &Path| std::fs::metadata(path).ok().map(|found| found.len());
    let segments = (1..).map_while(|n| bytes(Path::new(&format!("{}.{n}", file.display()))));
    bytes(file).unwrap_or(0) + segments.sum::<u64>()
}
