//! Cancels and statement timeouts at random moments of everything that can take long. Each must be answered soon, with
//! SQLSTATE 57014, and leave a table that equals its heap twin and that `varve.verify` finds nothing wrong with. Prints the
//! longest time to an answer of each; a test cannot be strict about times, so it only fails beyond a second.

use crate::heap_pair;
use crate::random::Random;
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::Result;
use postgres::{Client, NoTls};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

const MOST: Duration = Duration::from_secs(1);

struct Operation {
    name: &'static str,
    /// Runs first, undisturbed; what it sets or begins ends with the session.
    before: &'static str,
    statement: &'static str,
    /// Runs afterwards in another session, whatever happened.
    after: &'static str,
    /// Makes the table again for each attempt, by this statement.
    fill: Option<&'static str>,
}

const fn operation(name: &'static str, statement: &'static str) -> Operation {
    Operation {
        name,
        before: "",
        statement,
        after: "",
        fill: None,
    }
}

/// A change, which is rolled back where it was not cancelled.
const fn change(name: &'static str, statement: &'static str) -> Operation {
    Operation {
        before: "BEGIN",
        ..operation(name, statement)
    }
}

const IN_BATCHES: &str = "INSERT INTO work SELECT * FROM work_heap";
const IN_TAIL: &str = "SET varve.batch_rows = 100000000; INSERT INTO work SELECT * FROM work_heap; RESET varve.batch_rows";
const IN_ORDER: &str = "INSERT INTO work SELECT * FROM work_heap";
const BY_INDEX: &str = "SET enable_seqscan = off; SET enable_sort = off";

const OPERATIONS: [Operation; 28] = [
    Operation {
        before: BY_INDEX,
        fill: Some(IN_BATCHES),
        ..operation("scan of fresh chunks by index", "SELECT max(f) FROM (SELECT f FROM work ORDER BY host, time OFFSET 10) AS t")
    },
    operation("verify of fresh chunks", "SELECT * FROM varve.verify('work')"),
    operation("plain scan of fresh chunks", "SELECT max(note), max(f) FROM work"),
    operation("compact of fresh chunks", "CALL varve.compact('work')"),
    Operation {
        before: "SET varve.compression = 'small'",
        fill: Some(IN_BATCHES),
        ..operation("compact to small chunks", "CALL varve.compact('work')")
    },
    Operation {
        fill: Some(IN_TAIL),
        ..operation("verify of a tail", "SELECT * FROM varve.verify('work')")
    },
    operation("compact of a tail", "CALL varve.compact('work')"),
    Operation {
        before: "DELETE FROM work WHERE host % 3 < 2; INSERT INTO work SELECT * FROM work_heap WHERE host % 3 < 2",
        ..operation("compact of a file with holes", "CALL varve.compact('work')")
    },
    operation("plain scan", "SELECT max(note), max(f) FROM work"),
    operation("count", "SELECT count(*) FROM work"),
    Operation {
        before: BY_INDEX,
        ..operation("scan by index", "SELECT max(f) FROM (SELECT f FROM work ORDER BY host, time OFFSET 10) AS t")
    },
    operation("verify", "SELECT * FROM varve.verify('work')"),
    operation("stats", "SELECT * FROM varve.stats('work')"),
    operation("chunks", "SELECT * FROM varve.chunks('work')"),
    operation("analyze", "ANALYZE work"),
    operation("vacuum", "VACUUM work"),
    operation("copy out", "COPY work TO '/dev/null'"),
    change("index build", "CREATE INDEX ON work USING varve (host, time)"),
    Operation {
        after: "DROP INDEX IF EXISTS concurrent",
        ..operation("index build beside others", "CREATE INDEX CONCURRENTLY concurrent ON work USING varve (host, time)")
    },
    change("update of everything", "UPDATE work SET n = n + 1"),
    change("delete of everything", "DELETE FROM work"),
    change("lock of everything", "SELECT max(n) FROM (SELECT n FROM work FOR UPDATE) AS t"),
    change("insert", IN_ORDER),
    change("copy in", "COPY work FROM 'work.copy'"),
    operation("vacuum full", "VACUUM FULL work"),
    operation("cluster", "CLUSTER work USING work_host_time_idx"),
    change("rewriting alter table", "ALTER TABLE work ALTER n TYPE bigint"),
    change("rewriting alter table to heap", "ALTER TABLE work SET ACCESS METHOD heap"),
];

pub fn run(
    tree: &Arc<Tree>,
    report: &mut Report,
    rows: u64,
    rounds: usize,
    seed: u64,
) -> Result<()> {
    println!("cancel: seed {seed}");
    let mut random = Random::new(seed);
    let cluster = Cluster::create(tree, &["autovacuum = off", "shared_buffers = '512MB'"])?;
    let mut client = cluster.database("cancel")?;
    create(&mut client, rows)?;
    for operation in &OPERATIONS {
        if let Some(fill) = operation.fill {
            client.batch_execute(&format!("TRUNCATE work; {fill}"))?;
        }
        let outcome = try_cancels(&cluster, operation, rounds, &mut random).and_then(|longest| {
            println!("cancel: {}: {} ms", operation.name, longest.as_millis());
            if longest < MOST {
                Ok(())
            } else {
                Err(format!("answered after {longest:?}").into())
            }
        });
        report.check(&format!("cancel/{}", operation.name), outcome);
    }
    Ok(())
}

/// Hosts in turn, late rows, incompressible text.
fn create(client: &mut Client, rows: u64) -> Result<()> {
    Ok(client.batch_execute(&format!(
        "CREATE TABLE work (time timestamptz NOT NULL, host int NOT NULL, n int, f float8, note text, amount numeric) USING varve;
         CREATE INDEX ON work USING varve (host, time);
         CREATE TABLE work_heap (LIKE work) USING heap;
         INSERT INTO work_heap SELECT '2026-01-01'::timestamptz + (i - (i % 1000 = 0)::int * 50000) * interval '1 s', i % 100,
             i % 1000, random(), md5(i::text) || md5((i + 1)::text), i / 8.0 FROM generate_series(1, {rows}) AS i;
         COPY work_heap TO PROGRAM 'cat > work.copy'"
    ))?)
}

/// The longest time to an answer. Moments are spread over the time that the operation takes alone.
fn try_cancels(
    cluster: &Cluster,
    operation: &Operation,
    rounds: usize,
    random: &mut Random,
) -> Result<Duration> {
    let mut client = cluster.connect("cancel")?;
    let mut usual = Duration::from_millis(500);
    let mut longest = Duration::ZERO;
    for round in 0..rounds {
        let moment = usual.mul_f64(random.unit());
        let by_timeout = round % 3 == 2;
        // A session of its own: what comes too late for it hits nothing that follows.
        let mut session = cluster.connect("cancel")?;
        let attempt = if by_timeout {
            time_out(&mut session, operation, moment)?
        } else {
            cancel(&mut session, operation, moment)?
        };
        drop(session);
        match attempt {
            Attempt::Answered(late) => longest = longest.max(late),
            Attempt::Done(took) => usual = usual.min(took),
        }
        if !operation.after.is_empty() {
            client.batch_execute(operation.after)?;
        }
        heap_pair::expect_verified(&mut client, "work")?;
        let same =
            heap_pair::digest(&mut client, "work")? == heap_pair::digest(&mut client, "work_heap")?;
        if !same {
            heap_pair::expect_equal(&mut client, "work_heap", "work")?;
        }
    }
    Ok(longest)
}

enum Attempt {
    /// Cancelled; so long after it was asked to.
    Answered(Duration),
    /// It was done before that; so long it took.
    Done(Duration),
}

fn cancel(client: &mut Client, operation: &Operation, moment: Duration) -> Result<Attempt> {
    client.batch_execute(operation.before)?;
    let token = client.cancel_token();
    let start = Instant::now();
    let canceller = thread::spawn(move || {
        thread::sleep(moment);
        let asked = Instant::now();
        token.cancel_query(NoTls).map(|()| asked)
    });
    let outcome = client.batch_execute(operation.statement);
    let end = Instant::now();
    let asked = canceller
        .join()
        .map_err(|_| "the canceller panicked")?
        .map_err(|error| error.to_string())?;
    judge(outcome, end.saturating_duration_since(asked), end - start)
}

fn time_out(client: &mut Client, operation: &Operation, moment: Duration) -> Result<Attempt> {
    client.batch_execute(operation.before)?;
    let limit = Duration::from_millis(moment.as_millis().max(1) as u64);
    client.batch_execute(&format!("SET statement_timeout = {}", limit.as_millis()))?;
    let start = Instant::now();
    let outcome = client.batch_execute(operation.statement);
    let took = start.elapsed();
    judge(outcome, took.saturating_sub(limit), took)
}

fn judge(
    outcome: std::result::Result<(), postgres::Error>,
    late: Duration,
    took: Duration,
) -> Result<Attempt> {
    match outcome {
        Ok(()) => Ok(Attempt::Done(took)),
        Err(error) if error.code().is_some_and(|code| code.code() == "57014") => {
            Ok(Attempt::Answered(late))
        }
        Err(error) => Err(error.into()),
    }
}
