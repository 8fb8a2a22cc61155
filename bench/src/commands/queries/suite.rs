//! Queries of the types that the suite's generator emits for its cpu data, with hosts and times drawn at random.

use super::kind::{Kind, Most};
use crate::commands::tables::data::{Suite, A1};
use crate::generate::timestamp;
use crate::random::Random;
use crate::Result;
use postgres::Client;

/// Queries of a type.
const QUERIES_EACH: usize = 3;
/// 2016-01-01, when the data begin.
const START: i64 = 1_451_606_400;
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

/// The relation that names hosts, in the schema of a data set.
pub fn create_tags(client: &mut Client, schema: &str, hosts: usize) -> Result<()> {
    client.batch_execute(&format!(
        "CREATE TABLE {schema}.tags(id int PRIMARY KEY, hostname text, region text, datacenter text);
         INSERT INTO {schema}.tags SELECT n, 'host_' || n - 1, 'region ' || n % 5, 'datacenter ' || n % 12 FROM generate_series(1, {hosts}) n"
    ))?;
    Ok(client.batch_execute(&format!("VACUUM ANALYZE {schema}.tags"))?)
}

/// The types, each with the most that its ratio may be.
pub fn kinds(suite: &Suite) -> Vec<Kind> {
    let mut draw = Draw {
        random: Random::new(123),
        hosts: suite.hosts as i64,
        seconds: suite.steps * 10,
    };
    // Of A1, of A2.
    let most = |a1: f64, a2: f64| if suite.name == A1.name { a1 } else { a2 };
    let mut all = Vec::new();
    for (metrics, hosts, hours, most) in [
        (1, 1, 1, most(0.35, 0.4)),
        (1, 1, 12, most(0.09, 0.4)),
        (1, 8, 1, most(0.14, 0.4)),
        (5, 1, 1, most(0.44, 0.4)),
        (5, 1, 12, most(0.13, 0.4)),
        (5, 8, 1, most(0.22, 0.3)),
    ] {
        let name = format!("single-groupby-{metrics}-{hosts}-{hours}");
        all.push(kind(name, most, || {
            let (some, range) = (draw.some_hosts(hosts), draw.range(hours));
            format!(
                "SELECT time_bucket('60 seconds', time) AS minute, {} FROM cpu WHERE {some} AND {range} GROUP BY minute ORDER BY minute ASC",
                aggregates("max", metrics, "max")
            )
        }));
    }
    for (hosts, most) in [(1, most(0.15, 0.4)), (8, most(0.06, 0.12))] {
        all.push(kind(format!("cpu-max-all-{hosts}"), most, || {
            let (some, range) = (draw.some_hosts(hosts), draw.range(8));
            format!(
                "SELECT time_bucket('3600 seconds', time) AS hour, {} FROM cpu WHERE {some} AND {range} GROUP BY hour ORDER BY hour",
                aggregates("max", 10, "max")
            )
        }));
    }
    for (name, metrics, most) in [
        ("1", 1, most(0.03, 0.06)),
        ("5", 5, most(0.06, 0.1)),
        ("all", 10, most(0.08, 0.12)),
    ] {
        all.push(kind(format!("double-groupby-{name}"), most, || {
            let range = draw.range(12);
            format!(
                "WITH cpu_avg AS (SELECT time_bucket('3600 seconds', time) AS hour, tags_id, {} FROM cpu WHERE {range} GROUP BY 1, 2)
                 SELECT hour, tags.hostname, {} FROM cpu_avg JOIN tags ON cpu_avg.tags_id = tags.id ORDER BY hour, tags.hostname",
                aggregates("avg", metrics, "mean"),
                METRICS[..metrics].iter().map(|metric| format!("mean_usage_{metric}")).collect::<Vec<_>>().join(", ")
            )
        }));
    }
    let most = most(0.012, 0.05);
    all.push(kind("groupby-orderby-limit".into(), most, || {
        let end = moment(START + draw.random.integer(draw.seconds / 4, draw.seconds));
        format!(
            "SELECT time_bucket('60 seconds', time) AS minute, max(usage_user) FROM cpu WHERE time < '{end}' GROUP BY minute ORDER BY minute DESC LIMIT 5"
        )
    }));
    all
}

/// A moment as the suite writes it, some time after a second.
fn moment(unix_seconds: i64) -> String {
    let text = timestamp(unix_seconds).replace('T', " ");
    format!("{}.646325 +0000", text.trim_end_matches('Z'))
}

fn kind(name: String, most: f64, make: impl FnMut() -> String) -> Kind {
    Kind {
        name,
        queries: std::iter::repeat_with(make).take(QUERIES_EACH).collect(),
        most: Most::OfHeap(most),
        most_buffers: None,
    }
}

/// One of the first so many metrics, by names that begin with `name`.
fn aggregates(function: &str, metrics: usize, name: &str) -> String {
    let each = METRICS[..metrics]
        .iter()
        .map(|metric| format!("{function}(usage_{metric}) AS {name}_usage_{metric}"));
    each.collect::<Vec<_>>().join(", ")
}

/// Draws hosts and times of a data set.
struct Draw {
    random: Random,
    hosts: i64,
    seconds: i64,
}

impl Draw {
    fn some_hosts(&mut self, count: usize) -> String {
        let mut hosts = Vec::new();
        while hosts.len() < count {
            let host = format!("'host_{}'", self.random.integer(0, self.hosts));
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        format!(
            "tags_id IN (SELECT id FROM tags WHERE hostname IN ({}))",
            hosts.join(",")
        )
    }

    /// So many hours, or all that there are.
    fn range(&mut self, hours: i64) -> String {
        let length = (hours * 3_600).min(self.seconds);
        let start = START + self.random.integer(0, self.seconds - length + 1);
        let (start, end) = (moment(start), moment(start + length));
        format!("time >= '{start}' AND time < '{end}'")
    }
}
