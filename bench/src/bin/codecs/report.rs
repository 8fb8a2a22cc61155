//! The table of a run: bytes per value, speeds, and the goals that they are held against.

use crate::contenders::{Contender, FAST, FRESH, PCO_1024, PCO_8192, SMALL};
use crate::kernels::Speed;
use crate::Measure;
use std::fmt::Write;

type Row = (String, Vec<Measure>);

/// A figure of a measure: the title of its table, its decimals.
struct Figure {
    title: &'static str,
    of: fn(&Measure) -> f64,
    decimals: usize,
}

const BYTES: Figure = Figure {
    title: "Bytes per value",
    of: Measure::bytes_per_value,
    decimals: 3,
};
const ENCODE: Figure = Figure {
    title: "Encode, million values a second",
    of: Measure::encode_speed,
    decimals: 0,
};
const DECODE: Figure = Figure {
    title: "Decode, million values a second",
    of: Measure::decode_speed,
    decimals: 0,
};

/// `kernels` where all contenders ran, so that the goals can be computed.
pub fn markdown(contenders: &[Contender], rows: &[Row], kernels: Option<Vec<Speed>>) -> String {
    let mut out = String::from(
        "# Codecs on the public corpus\n\n\
         Written by `make bench-codecs`: doubles only, every value compared bit for bit, processor time of \
         one thread, the fastest of three passes. The geometric means are over the folders that are not synthetic \
         (`syn_*`).\n",
    );
    for figure in [BYTES, ENCODE, DECODE] {
        table(&mut out, contenders, rows, &figure);
    }
    if let Some(kernels) = kernels {
        heading(
            &mut out,
            "Kernels",
            "over blocks of 1,024 | million values a second",
        );
        for Speed { what, speed } in &kernels {
            let _ = writeln!(out, "| {what} | {speed:.0} |");
        }
        goals(&mut out, rows, &kernels);
        goals_of_folders(&mut out, rows);
    }
    out
}

/// A title and the head of a table; columns are separated by ` | `.
fn heading(out: &mut String, title: &str, columns: &str) {
    let rule = "|---".repeat(columns.split(" | ").count());
    let _ = writeln!(out, "\n## {title}\n\n| {columns} |\n{rule}|");
}

fn table(out: &mut String, contenders: &[Contender], rows: &[Row], figure: &Figure) {
    let names: Vec<&str> = contenders.iter().map(|c| c.name).collect();
    heading(out, figure.title, &format!("data | {}", names.join(" | ")));
    let decimals = figure.decimals;
    for (name, measures) in rows {
        let cell = |measure| format!("{:.decimals$}", (figure.of)(measure));
        let cells: Vec<String> = measures.iter().map(cell).collect();
        let _ = writeln!(out, "| {name} | {} |", cells.join(" | "));
    }
    let mean = |c| format!("**{:.decimals$}**", geometric_mean(rows, c, figure));
    let means: Vec<String> = (0..names.len()).map(mean).collect();
    let _ = writeln!(out, "| **geometric mean** | {} |", means.join(" | "));
}

fn geometric_mean(rows: &[Row], contender: usize, figure: &Figure) -> f64 {
    let logs: Vec<f64> = rows
        .iter()
        .filter(|(name, _)| !name.starts_with("syn_"))
        .map(|(_, measures)| (figure.of)(&measures[contender]).ln())
        .collect();
    (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
}

fn goals(out: &mut String, rows: &[Row], kernels: &[Speed]) {
    heading(out, "Against the goals", "what | measured | goal");
    let mut line = |what: &str, measured: f64, goal: &str| {
        let _ = writeln!(out, "| {what} | {measured:.2} | {goal} |");
    };
    let mean = |figure: &Figure, contender| geometric_mean(rows, contender, figure);
    let ratio = |figure: &Figure, ours, other| mean(figure, ours) / mean(figure, other);
    let small = ratio(&BYTES, SMALL, PCO_8192);
    line("small, bytes / pcodec 8", small, "at most 0.90");
    let what = "small, million values decoded a second";
    line(what, mean(&DECODE, SMALL), "at least 200");
    let fast = ratio(&BYTES, FAST, PCO_8192);
    line("fast, bytes / pcodec 8", fast, "at most 1.00");
    let fast = ratio(&DECODE, FAST, PCO_8192);
    line("fast, decode speed / pcodec 8", fast, "at least 3");
    let fresh = ratio(&BYTES, FRESH, PCO_1024);
    line("fresh, bytes / pcodec 8 at 1,024", fresh, "at most 1.12");
    let fresh = ratio(&ENCODE, FRESH, PCO_1024);
    line("fresh, encode speed / pcodec 8", fresh, "at least 5");
    let fresh = ratio(&DECODE, FRESH, PCO_1024);
    line("fresh, decode speed / pcodec 8", fresh, "at least 6");
    let packed = kernels[0].speed / kernels[1].speed;
    line("sum of packed blocks / decode, sum", packed, "at least 2.5");
    let what = "decode, filter, sum: million values a second";
    line(what, kernels[2].speed, "at least 1,000");
}

/// Bytes a value that were reached in trials of all codecs on data of these kinds: fresh by packing alone, fresh with
/// zstd where it pays, small.
const FOLDER_GOALS: [(&str, f64, f64, f64); 8] = [
    ("node_1s", 0.445, 0.40, 0.35),
    ("nab_real", 1.51, 1.44, 1.26),
    ("tsbs_cpu", 0.385, 0.385, 0.31),
    ("ecg_mitbih", 0.91, 0.65, 0.55),
    ("beijing_pm25", 0.63, 0.50, 0.36),
    ("syn_temp_1dec", 1.385, 1.385, 1.32),
    ("syn_counter_int", 0.89, 0.89, 0.84),
    ("syn_constant", 0.010, 0.010, 0.0013),
];

fn goals_of_folders(out: &mut String, rows: &[Row]) {
    let title = "Bytes per value against the goals of folders";
    let columns = "data | fresh | goal, packed | goal, with zstd | small | goal";
    heading(out, title, columns);
    for (name, packed_goal, zstd_goal, small_goal) in FOLDER_GOALS {
        let Some((_, measures)) = rows.iter().find(|(row, _)| row == name) else {
            continue;
        };
        let [fresh, small] = [FRESH, SMALL].map(|c| measures[c].bytes_per_value());
        let _ = writeln!(
            out,
            "| {name} | {fresh:.3} | {packed_goal} | {zstd_goal} | {small:.4} | {small_goal} |"
        );
    }
}
