//! Random aggregate queries over random tables, a heap beside its varve twin: fresh and merged chunks, a tail, deleted and
//! updated rows, late ones and duplicates, nulls, NaN, infinities, columns that came and went; joins that name series; partitioned tables; groups that core has to make of rows, and
//! rows themselves; then
//! snapshots beside writers and compact. Every answer must be the
//! heap's: exactly, but for the last bits of sums of floats. A query that fails is cut down to what makes it fail.

mod answer;
mod query;
mod snapshots;
mod table;

use crate::random::Random;
use crate::report::Report;
use crate::server::{Cluster, Tree};
use crate::Result;
use answer::Answer;
use postgres::Client;
use query::Query;
use std::sync::Arc;
use std::time::{Duration, Instant};
use table::{Purpose, Table};

/// Queries between two changes of a table.
const QUERIES_EACH: usize = 12;
/// Changes of a table.
const CHANGES: usize = 8;
/// At least one query in so many must go through a node of ours.
const LEAST_SHARE: u64 = 2;

/// For so many `seconds`, and up to four times as long where `least` queries are wanted that it has not come to, or a way to answer them.
pub fn run(
    tree: &Arc<Tree>,
    report: &mut Report,
    seconds: u64,
    least: u64,
    seed: u64,
) -> Result<()> {
    println!("aggregates: seed {seed}");
    let cluster = Cluster::create(tree, &["statement_timeout = '60s'", "autovacuum = off"])?;
    let mut client = cluster.database("aggregates")?;
    let begun = Instant::now();
    let end = begun + Duration::from_secs(seconds * 3 / 4);
    let patience = begun + Duration::from_secs(seconds * 4);
    let mut random = Random::new(seed);
    let mut counts = Counts::default();
    let mut number = 0;
    let is_varve = crate::heap_pair::access_method() == "varve";
    let goes_on = |counts: &Counts| {
        let now = Instant::now();
        let is_wanting = counts.queries < least || is_varve && !counts.have_every_way();
        now < end || is_wanting && now < patience
    };
    while number == 0 || goes_on(&counts) {
        number += 1;
        let mut random = Random::new(random.bits());
        let purpose = Purpose::of(number);
        let outcome = one_table(&mut client, &mut random, purpose, &mut counts);
        let failed = outcome.is_err();
        report.check(&format!("aggregates/table {number}"), outcome);
        if failed {
            client = cluster.connect("aggregates")?;
        }
    }
    let outcome = snapshots::run(&cluster, (seconds / 4).max(5), random.bits(), &mut counts);
    report.check("aggregates/snapshots beside writers", outcome);
    println!(
        "aggregates: {} queries, {} of them by the node, {} over joins, {} in parallel, {} of these by ranges of keys, {} by slices of time, {} over partitions, {} chunks answered by summaries, \
         {} over rows of VarveScan, {} of these in parallel, {} errors, {} that the server could not plan by partitions",
        counts.queries, counts.by_node, counts.over_joins, counts.in_parallel, counts.by_ranges, counts.by_slices, counts.over_partitions, counts.summaries,
        counts.by_rows, counts.by_rows_in_parallel, counts.errors, counts.unplanned
    );
    if least > 0 {
        report.check(
            &format!("aggregates/{least} queries"),
            match counts.queries >= least {
                true => Ok(()),
                false => Err(format!("there was time for {} only", counts.queries).into()),
            },
        );
    }
    let enough = (counts.by_node + counts.by_rows) * LEAST_SHARE >= counts.queries;
    report.check(
        "aggregates/every way is among them",
        match counts.have_every_way() || !is_varve {
            true => Ok(()),
            false => Err(
                "no join, no parallel query, none by ranges or slices, none over partitions, none over rows, or no chunk answered by its summary"
                    .into(),
            ),
        },
    );
    report.check(
        "aggregates/share of the node",
        match enough || !is_varve {
            true => Ok(()),
            false => Err("fewer than half of the queries went through a node of ours".into()),
        },
    );
    Ok(())
}

#[derive(Default)]
struct Counts {
    queries: u64,
    by_node: u64,
    /// Of those, with another relation, in several processes, which finish groups, in the order of time, and over partitions.
    over_joins: u64,
    in_parallel: u64,
    by_ranges: u64,
    by_slices: u64,
    over_partitions: u64,
    /// By `VarveScan`, whose rows core aggregates; of those, in several processes.
    by_rows: u64,
    by_rows_in_parallel: u64,
    /// Chunks, in some of the queries.
    summaries: u64,
    errors: u64,
    /// That the server could not plan until they were asked without `enable_partitionwise_aggregate`.
    unplanned: u64,
}

impl Counts {
    /// Was each way to answer a query taken at least once?
    fn have_every_way(&self) -> bool {
        let ways = [
            self.by_rows,
            self.by_rows_in_parallel,
            self.over_joins,
            self.in_parallel,
            self.by_ranges,
            self.by_slices,
            self.over_partitions,
            self.summaries,
        ];
        ways.iter().all(|&count| count > 0)
    }
}

/// What PostgreSQL 17 says of some queries with partitionwise aggregates, of heaps as of varve's tables: those that group by the partition key
/// and an expression, and have an aggregate that is DISTINCT or ordered.
const UNPLANNED: (&str, &str) = ("XX000", "variable not found in subplan target list");

fn one_table(
    client: &mut Client,
    random: &mut Random,
    purpose: Purpose,
    counts: &mut Counts,
) -> Result<()> {
    let mut table = Table::create(client, random, purpose)?;
    for _ in 0..CHANGES {
        if !table.change(client, random)? {
            client.batch_execute("BEGIN")?;
        }
        client.batch_execute("SAVEPOINT before")?;
        for _ in 0..QUERIES_EACH {
            let query = Query::random(random, &table);
            counts.queries += 1;
            check(client, &query, &table, counts)?;
        }
        let end = *random.pick(&["COMMIT", "ROLLBACK"]);
        client.batch_execute(end)?;
    }
    Ok(())
}

fn check(client: &mut Client, query: &Query, table: &Table, counts: &mut Counts) -> Result<()> {
    let (heap, varve) = answers(client, query)?;
    if varve.is_this_error(UNPLANNED) && table.is_partitionwise() && is_17(client)? {
        counts.unplanned += 1;
        client.batch_execute("SET enable_partitionwise_aggregate = off")?;
        let (heap, varve) = answers(client, query)?;
        if !heap.equals(&varve, query) {
            return Err(difference(client, query, table)?.into());
        }
        return Ok(client.batch_execute("SET enable_partitionwise_aggregate = on")?);
    }
    counts.errors += u64::from(heap.is_error());
    let plan = plan_of(client, query)?;
    if plan.contains("VarveAggregate") {
        counts.by_node += 1;
        let in_parallel = plan.contains("Parallel Custom Scan (VarveAggregate)");
        counts.in_parallel += u64::from(in_parallel);
        counts.by_ranges += u64::from(in_parallel && !plan.contains("Finalize"));
        counts.by_slices += u64::from(plan.contains("Slices of Time"));
        counts.over_joins += u64::from(query.is_join());
        counts.over_partitions += u64::from(table.is_partitioned());
        if counts.by_node.is_multiple_of(8) && !varve.is_error() {
            counts.summaries += answered_by_summaries(client, query)?;
        }
    }
    if plan.contains("VarveScan") {
        let in_parallel = plan.contains("Parallel Custom Scan (VarveScan)");
        counts.by_rows += 1;
        counts.by_rows_in_parallel += u64::from(in_parallel);
    }
    if heap.equals(&varve, query) {
        return Ok(());
    }
    Err(difference(client, query, table)?.into())
}

fn is_17(client: &mut Client) -> Result<bool> {
    let version = "SELECT current_setting('server_version_num')::int / 10000";
    Ok(client.query_one(version, &[])?.get::<_, i32>(0) == 17)
}

/// In what the answers of the smallest such query differ.
fn difference(client: &mut Client, query: &Query, table: &Table) -> Result<String> {
    let smallest = cut_down(client, query)?;
    let (heap, varve) = answers(client, &smallest)?;
    Ok(format!(
        "{}\n  heap:  {}\n  varve: {}\n  tables: {}",
        smallest.text("v"),
        heap.beside(&varve, &smallest),
        varve.beside(&heap, &smallest),
        table.history.join(";\n          ")
    ))
}

fn answers(client: &mut Client, query: &Query) -> Result<(Answer, Answer)> {
    Ok((
        Answer::of(client, &query.text("h"))?,
        Answer::of(client, &query.text("v"))?,
    ))
}

fn plan_of(client: &mut Client, query: &Query) -> Result<String> {
    let rows = client.query(&format!("EXPLAIN (COSTS OFF) {}", query.text("v")), &[])?;
    Ok(rows
        .iter()
        .map(|row| row.get::<_, String>(0) + "\n")
        .collect())
}

fn answered_by_summaries(client: &mut Client, query: &Query) -> Result<u64> {
    let explain = "EXPLAIN (ANALYZE, VERBOSE, TIMING OFF, SUMMARY OFF)";
    let rows = client.query(&format!("{explain} {}", query.text("v")), &[])?;
    let of_line = |row: &postgres::Row| {
        let line: String = row.get(0);
        let (_, number) = line.split_once("Chunks Answered by Summaries: ")?;
        number.parse::<u64>().ok()
    };
    Ok(rows.iter().filter_map(of_line).sum())
}

/// The same query without whatever is not needed for it to fail.
fn cut_down(client: &mut Client, query: &Query) -> Result<Query> {
    let mut smallest = query.clone();
    loop {
        let mut found = None;
        for smaller in smallest.smaller() {
            let (heap, varve) = answers(client, &smaller)?;
            if !heap.equals(&varve, &smaller) {
                found = Some(smaller);
                break;
            }
        }
        match found {
            Some(smaller) => smallest = smaller,
            None => return Ok(smallest),
        }
    }
}
