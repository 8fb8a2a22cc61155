//! The table of a run: bytes per value, speeds, and the goals that they are held against.

use crate::contenders::{Contender, FAST, FRESH, PCO_1024, PCO_8192, SMALL};
use crate::kernels::Speed;
use crate::Measure;
use std::fmt::Write;

type Row = (String, Vec<Measure>);

/// `kernels` where all contenders ran, so that the goals can be computed.
pub fn markdown(contenders: &[Contender], rows: &[Row], kernels: Option<Vec<Speed>>) -> String {
    let mut out = String::from(
        "# Codecs on the public corpus\n\n\
         Written by `make bench-codecs`: doubles only, every value compared bit for bit, processor time of \
         one thread, the fastest of three passes. The geometric means are over the folders that are not synthetic \
         (`syn_*`).\n",
    );
    table(
        &mut out,
        "Bytes per value",
        contenders,
        rows,
        Measure::bytes_per_value,
        3,
    );
    table(
        &mut out,
        "Encode, million values a second",
        contenders,
        rows,
        Measure::encode_speed,
        0,
    );
    table(
        &mut out,
        "Decode, million values a second",
        contenders,
        rows,
        Measure::decode_speed,
        0,
    );
    if let Some(kernels) = kernels {
        let _ = writeln!(
            out,
            "\n## Kernels\n\n| over blocks of 1,024 | million values a second |\n|---|---|"
        );
        for Speed { what, speed } in &kernels {
            let _ = writeln!(out, "| {what} | {speed:.0} |");
        }
        goals(&mut out, rows, &kernels);
    }
    out
}

fn table(
    out: &mut String,
    title: &str,
    contenders: &[Contender],
    rows: &[Row],
    figure: fn(&Measure) -> f64,
    decimals: usize,
) {
    let names: Vec<&str> = contenders.iter().map(|c| c.name).collect();
    let _ = writeln!(out, "\n## {title}\n\n| data | {} |", names.join(" | "));
    let _ = writeln!(out, "|---|{}", "---|".repeat(names.len()));
    for (name, measures) in rows {
        let cells: Vec<String> = measures
            .iter()
            .map(|m| format!("{:.decimals$}", figure(m)))
            .collect();
        let _ = writeln!(out, "| {name} | {} |", cells.join(" | "));
    }
    let means: Vec<String> = (0..names.len())
        .map(|c| format!("**{:.decimals$}**", geometric_mean(rows, c, figure)))
        .collect();
    let _ = writeln!(out, "| **geometric mean** | {} |", means.join(" | "));
}

fn geometric_mean(rows: &[Row], contender: usize, figure: fn(&Measure) -> f64) -> f64 {
    let logs: Vec<f64> = rows
        .iter()
        .filter(|(name, _)| !name.starts_with("syn_"))
        .map(|(_, measures)| figure(&measures[contender]).ln())
        .collect();
    (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp()
}

fn goals(out: &mut String, rows: &[Row], kernels: &[Speed]) {
    let bytes = |c| geometric_mean(rows, c, Measure::bytes_per_value);
    let encode = |c| geometric_mean(rows, c, Measure::encode_speed);
    let decode = |c| geometric_mean(rows, c, Measure::decode_speed);
    let lines = [
        (
            "small, bytes / pcodec 8",
            bytes(SMALL) / bytes(PCO_8192),
            "at most 0.90",
        ),
        (
            "small, million values decoded a second",
            decode(SMALL),
            "at least 200",
        ),
        (
            "fast, bytes / pcodec 8",
            bytes(FAST) / bytes(PCO_8192),
            "at most 1.00",
        ),
        (
            "fast, decode speed / pcodec 8",
            decode(FAST) / decode(PCO_8192),
            "at least 3",
        ),
        (
            "fresh, bytes / pcodec 8 at 1,024",
            bytes(FRESH) / bytes(PCO_1024),
            "at most 1.12",
        ),
        (
            "fresh, encode speed / pcodec 8",
            encode(FRESH) / encode(PCO_1024),
            "at least 5",
        ),
        (
            "fresh, decode speed / pcodec 8",
            decode(FRESH) / decode(PCO_1024),
            "at least 6",
        ),
        (
            "sum of packed blocks / decode, sum",
            kernels[0].speed / kernels[1].speed,
            "at least 2.5",
        ),
        (
            "decode, filter, sum: million values a second",
            kernels[2].speed,
            "at least 1,000",
        ),
    ];
    let _ = writeln!(
        out,
        "\n## Against the goals\n\n| what | measured | goal |\n|---|---|---|"
    );
    for (what, measured, goal) in lines {
        let _ = writeln!(out, "| {what} | {measured:.2} | {goal} |");
    }
}
