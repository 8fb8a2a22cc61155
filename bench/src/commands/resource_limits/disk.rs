//! A full disk: the varve table lies in a tablespace on a small file system of its own. COPY, INSERT, UPDATE, VACUUM FULL and
//! compact must end with SQLSTATE 53100 and leave everything as it was; when there is room again, they must succeed.

use super::{check, create_twins, rows};
use crate::heap_pair::{self, VARVE};
use crate::report::Report;
use crate::server::{run as run_program, Cluster, Tree};
use crate::Result;
use postgres::Client;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

const DISK_MEGABYTES: usize = 6;

/// A mounted file system in memory; unmounted on drop.
struct Disk(PathBuf);

impl Disk {
    /// The file system belongs to whom the directory belonged to.
    fn mount(at: &Path) -> Result<Disk> {
        let owner = std::fs::metadata(at)?;
        let options = format!(
            "size={DISK_MEGABYTES}m,uid={},gid={}",
            owner.uid(),
            owner.gid()
        );
        run_program(
            Command::new("mount")
                .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
                .arg(at),
        )?;
        Ok(Disk(at.to_path_buf()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if run_program(Command::new("umount").arg(&self.0)).is_err() {
            eprintln!("could not unmount {}", self.0.display());
        }
    }
}

pub fn run(tree: &Arc<Tree>, report: &mut Report) -> Result<()> {
    let place = tree.directory("disk")?;
    let disk = match Disk::mount(&place) {
        Ok(disk) => disk,
        Err(error) => {
            report.skip(
                "resource-limits/full disk",
                &format!("nothing can be mounted here: {error}"),
            );
            return Ok(());
        }
    };
    let cluster = Cluster::create(tree, &["autovacuum = off"])?;
    report.check("resource-limits/full disk", fill_up(&cluster, &disk));
    drop(cluster);
    drop(disk);
    Ok(())
}

fn fill_up(cluster: &Cluster, disk: &Disk) -> Result<()> {
    let mut client = cluster.database("disk")?;
    create_twins(&mut client)?;
    client.batch_execute(&format!(
        "CREATE TABLESPACE small LOCATION '{}'",
        disk.0.display()
    ))?;
    client.batch_execute(&format!(
        "ALTER TABLE {VARVE} SET TABLESPACE small; ALTER INDEX {VARVE}_device_time_idx SET TABLESPACE small;
         CREATE TABLE ballast (t text) TABLESPACE small"
    ))?;
    // Room for hardly more than what there is.
    for rows in [100, 4] {
        let ballast =
            format!("INSERT INTO ballast SELECT repeat('b', 1900) FROM generate_series(1, {rows})");
        let last = loop {
            if let Err(error) = client.batch_execute(&ballast) {
                break Err(error);
            }
        };
        full(last, "ballast")?;
    }
    check(&mut client)?;
    full(copy(&mut client), "COPY")?;
    check(&mut client)?;
    let insert = rows("more", 20_001, 300_000).replace("{t}", VARVE);
    full(client.batch_execute(&insert), "INSERT")?;
    check(&mut client)?;
    full(
        client.batch_execute(&format!("UPDATE {VARVE} SET state = state || 'x'")),
        "UPDATE",
    )?;
    check(&mut client)?;
    full(
        client.batch_execute(&format!("VACUUM FULL {VARVE}")),
        "VACUUM FULL",
    )?;
    check(&mut client)?;
    full(
        client.batch_execute(&format!("CALL varve.compact('{VARVE}')")),
        "compact",
    )?;
    check(&mut client)?;
    client.batch_execute("DROP TABLE ballast")?;
    let before = size(&mut client)?;
    heap_pair::compact(&mut client, VARVE)?;
    check(&mut client)?;
    let after = size(&mut client)?;
    if after > 2 * before {
        return Err(format!("compact made {after} bytes of {before}").into());
    }
    heap_pair::both(&mut client, &rows("more", 20_001, 30_000))?;
    client.batch_execute(&format!("VACUUM FULL {VARVE}"))?;
    check(&mut client)
}

fn copy(client: &mut Client) -> std::result::Result<(), postgres::Error> {
    let mut writer = client.copy_in(&format!("COPY {VARVE} FROM STDIN"))?;
    let mut random = crate::random::Random::new(1);
    for row in 0..400_000 {
        let line = format!(
            "2026-02-01 00:00:00\t{}\t{row}\t{:?}\t1\tcopied\n",
            row % 5,
            random.unit()
        );
        if writer.write_all(line.as_bytes()).is_err() {
            break;
        }
    }
    writer.finish().map(|_| ())
}

/// The statement must have failed for want of room.
fn full(outcome: std::result::Result<(), postgres::Error>, what: &str) -> Result<()> {
    match outcome {
        Ok(()) => Err(format!("{what} finds room where there is none").into()),
        Err(error) if error.code().is_some_and(|code| code.code() == "53100") => Ok(()),
        Err(error) => Err(format!("{what}: {}", crate::errors::describe(&error)).into()),
    }
}

fn size(client: &mut Client) -> Result<i64> {
    let query = format!("SELECT pg_relation_size('{VARVE}')");
    Ok(client.query_one(&query, &[])?.get(0))
}
