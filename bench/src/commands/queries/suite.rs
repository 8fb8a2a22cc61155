//! Queries of the types that the suite's generator emits for its cpu data, with hosts and times drawn at random.

use super::Kind;
use crate::generate::timestamp;
use crate::random::Random;
use crate::Result;
use postgres::Client;

/// Queries of a type.
const QUERIES_EACH: usize = 3;
const HOSTS: i64 = 100;
/// 2016-01-01, when the data begin, and how long they go on.
const START: i64 = 1_451_606_400;
const SECONDS: i64 = 3 * 86_400;
const METRICS: [&str; 10] = [
    "user",
    "system",
    "idle",
    "nice",
    "iowait",
    "irq",
    "softirq",
    "steal",
    "guest",
    "guest_nice",
];

/// The relation that names hosts.
pub fn create_tags(client: &mut Client) -> Result<()> {
    client.batch_execute(&format!(
        "CREATE TABLE tags(id int PRIMARY KEY, hostname text, region text, datacenter text);
         INSERT INTO tags SELECT n, 'host_' || n - 1, 'region ' || n % 5, 'datacenter ' || n % 12 FROM generate_series(1, {HOSTS}) n"
    ))?;
    Ok(client.batch_execute("VACUUM ANALYZE tags")?)
}

pub fn kinds() -> Result<Vec<Kind>> {
    let mut random = Random::new(123);
    let mut all = Vec::new();
    for (metrics, hosts, hours, most) in [
        (1, 1, 1, 0.35),
        (1, 1, 12, 0.09),
        (1, 8, 1, 0.14),
        (5, 1, 1, 0.44),
        (5, 1, 12, 0.13),
        (5, 8, 1, 0.22),
    ] {
        let mut make = || {
            let (some, range) = (some_hosts(&mut random, hosts), range(&mut random, hours));
            format!(
                "SELECT time_bucket('60 seconds', time) AS minute, {} FROM cpu WHERE {some} AND {range} GROUP BY minute ORDER BY minute ASC",
                aggregates("max", metrics)
            )
        };
        let name = format!("single-groupby-{metrics}-{hosts}-{hours}");
        all.push(kind(name, most, &mut make));
    }
    for (hosts, most) in [(1, 0.15), (8, 0.06)] {
        let mut make = || {
            let (some, range) = (some_hosts(&mut random, hosts), range(&mut random, 8));
            format!(
                "SELECT time_bucket('3600 seconds', time) AS hour, {} FROM cpu WHERE {some} AND {range} GROUP BY hour ORDER BY hour",
                aggregates("max", 10)
            )
        };
        all.push(kind(format!("cpu-max-all-{hosts}"), most, &mut make));
    }
    for (name, metrics, most) in [("1", 1, 0.03), ("5", 5, 0.06), ("all", 10, 0.08)] {
        let mut make = || {
            let range = range(&mut random, 12);
            format!(
                "WITH cpu_avg AS (SELECT time_bucket('3600 seconds', time) AS hour, tags_id, {} FROM cpu WHERE {range} GROUP BY 1, 2)
                 SELECT * FROM cpu_avg JOIN tags ON cpu_avg.tags_id = tags.id ORDER BY hour, tags.hostname",
                aggregates("avg", metrics)
            )
        };
        all.push(kind(format!("double-groupby-{name}"), most, &mut make));
    }
    let mut make = || {
        let end = timestamp(START + random.integer(SECONDS / 4, SECONDS));
        format!(
            "SELECT time_bucket('60 seconds', time) AS minute, max(usage_user) FROM cpu WHERE time < '{end}' GROUP BY minute ORDER BY minute DESC LIMIT 5"
        )
    };
    all.push(kind("groupby-orderby-limit".into(), 0.012, &mut make));
    Ok(all)
}

fn kind(name: String, most: f64, make: &mut dyn FnMut() -> String) -> Kind {
    Kind {
        name,
        queries: (0..QUERIES_EACH).map(|_| make()).collect(),
        most,
    }
}

fn aggregates(function: &str, metrics: usize) -> String {
    let each = METRICS[..metrics]
        .iter()
        .map(|metric| format!("{function}(usage_{metric}) AS {function}_usage_{metric}"));
    each.collect::<Vec<_>>().join(", ")
}

fn some_hosts(random: &mut Random, count: usize) -> String {
    let mut hosts = Vec::new();
    while hosts.len() < count {
        let host = format!("'host_{}'", random.integer(0, HOSTS));
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    format!(
        "tags_id IN (SELECT id FROM tags WHERE hostname IN ({}))",
        hosts.join(",")
    )
}

fn range(random: &mut Random, hours: i64) -> String {
    let start = START + random.integer(0, SECONDS - hours * 3_600);
    let (start, end) = (timestamp(start), timestamp(start + hours * 3_600));
    format!("time >= '{start}' AND time < '{end}'")
}
