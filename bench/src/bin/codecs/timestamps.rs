//! Timestamps of the corpus: what a time column takes in blocks of each tier.

use std::fmt::Write;

use crate::corpus::Clock;
use varve_columns::codec::{int, Guess, Point, Tier};
use varve_columns::wire::Reader;

/// Rows of a block, and how it is coded.
const CODED: [(&str, usize, Tier); 4] = [
    ("fresh, 1,024", 1024, Tier::Fresh),
    ("fast, 1,024", 1024, Tier::Merged(Point::Fast)),
    ("small, 1,024", 1024, Tier::Merged(Point::Small)),
    ("small, 32,768", 32_768, Tier::Merged(Point::Small)),
];

/// What the best codec reached on data of these kinds at 1,024, of Gorilla, TimescaleDB's, VictoriaMetrics', frames
/// and runs of deltas, and pcodec.
const GOALS: [(&str, &str, f64); 5] = [
    ("regular", "regular_1s_us", 0.012),
    ("10 s with gaps", "regular_10s_gaps_us", 0.023),
    ("NAB, real, 5 minutes", "nab_real", 0.060),
    ("real scrape, jitter of ms", "node_1s", 0.215),
    ("jitter of µs", "jitter_1s_us", 1.48),
];

/// The table as Markdown: bytes per timestamp.
pub fn markdown(clocks: &[Clock]) -> String {
    let names: Vec<&str> = CODED.iter().map(|(name, ..)| *name).collect();
    let mut out = format!(
        "\n## Timestamps, bytes each\n\n| pattern | goal, 1,024 | {} | pcodec 8, 1,024 |\n|---|---|{}---|\n",
        names.join(" | "),
        "---|".repeat(CODED.len())
    );
    for (pattern, name, goal) in GOALS {
        let Some(clock) = clocks.iter().find(|clock| clock.name == name) else {
            continue;
        };
        let sizes = CODED.map(|(_, rows, tier)| {
            format!("{:.4}", bytes_each(clock, rows, |times| size(times, tier)))
        });
        let pcodec = bytes_each(clock, 1024, pcodec_size);
        let _ = writeln!(
            out,
            "| {pattern} | {goal} | {} | {pcodec:.4} |",
            sizes.join(" | ")
        );
    }
    out
}

fn bytes_each(clock: &Clock, rows: usize, size: impl Fn(&[i64]) -> usize) -> f64 {
    let values: usize = clock.series.iter().map(Vec::len).sum();
    let blocks = clock.series.iter().flat_map(|times| times.chunks(rows));
    blocks.map(size).sum::<usize>() as f64 / values as f64
}

/// The codec id counts as a byte.
fn size(times: &[i64], tier: Tier) -> usize {
    let (mut out, mut back) = (Vec::new(), Vec::new());
    let codec = int::encode_body(times, tier, Guess::default().order(), &mut out);
    let decoded = int::decode_body(codec, Reader::new(&out), times.len(), &mut back);
    assert!(
        decoded.is_ok() && back == times,
        "BUG: timestamps came back changed"
    );
    out.len() + 1
}

fn pcodec_size(times: &[i64]) -> usize {
    let config = pco::ChunkConfig::default().with_compression_level(8);
    pco::standalone::simple_compress(times, &config)
        .expect("BUG: pcodec refused integers")
        .len()
}
