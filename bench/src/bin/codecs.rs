//! Codec bench: the public corpus through the automatic choice of every tier and through the codecs
//! that others use, in one run on one thread. Prints a table; with `--write FILE` also as Markdown.
//! The corpus is a tar.zst of folders with `values.f64` and `series.csv`; its path comes from the
//! first argument or `VARVE_CORPUS`. Every decoded value is compared bit for bit. `--folder PART` and
//! `--codec PART` run a selection.

#[path = "codecs/clock.rs"]
mod clock;
#[path = "codecs/contenders.rs"]
mod contenders;
#[path = "codecs/corpus.rs"]
mod corpus;
#[path = "codecs/cuts.rs"]
mod cuts;
#[path = "codecs/gorilla.rs"]
mod gorilla;
#[path = "codecs/kernels.rs"]
mod kernels;
#[path = "codecs/report.rs"]
mod report;
#[path = "codecs/timestamps.rs"]
mod timestamps;
#[path = "codecs/types.rs"]
mod types;

use clock::fastest;
use contenders::Contender;
use corpus::Folder;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use varve_columns::codec::Guess;

const DEFAULT_CORPUS: &str = "../shared/data/public_corpus.tar.zst";

/// Each pass is repeated and the fastest counts.
const REPEATS: usize = 3;

/// Bytes and times of one contender on one folder.
#[derive(Clone, Copy)]
pub struct Measure {
    pub values: usize,
    pub bytes: usize,
    pub encode: Duration,
    pub decode: Duration,
}

impl Measure {
    pub fn bytes_per_value(&self) -> f64 {
        self.bytes as f64 / self.values as f64
    }

    /// Million values a second.
    pub fn encode_speed(&self) -> f64 {
        self.values as f64 / self.encode.as_secs_f64() / 1e6
    }

    pub fn decode_speed(&self) -> f64 {
        self.values as f64 / self.decode.as_secs_f64() / 1e6
    }
}

fn main() -> ExitCode {
    let mut corpus = std::env::var_os("VARVE_CORPUS").map(PathBuf::from);
    let mut write = None;
    let (mut folder_part, mut codec_part) = (String::new(), String::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--write" => write = arguments.next(),
            "--folder" => folder_part = arguments.next().unwrap_or_default(),
            "--codec" => codec_part = arguments.next().unwrap_or_default(),
            path => corpus = Some(PathBuf::from(path)),
        }
    }
    let corpus = corpus.unwrap_or_else(|| PathBuf::from(DEFAULT_CORPUS));
    if !corpus.exists() {
        println!(
            "SKIPPED codec bench: no corpus at {}; set VARVE_CORPUS",
            corpus.display()
        );
        return ExitCode::SUCCESS;
    }
    let corpus::Corpus { folders, clocks } = match corpus::read(&corpus) {
        Ok(corpus) => corpus,
        Err(error) => {
            eprintln!("cannot read {}: {error}", corpus.display());
            return ExitCode::FAILURE;
        }
    };
    let mut contenders = contenders::all();
    contenders.retain(|contender| contender.name.contains(&codec_part));
    let mut rows = Vec::new();
    for folder in folders
        .iter()
        .filter(|folder| folder.name.contains(&folder_part))
    {
        eprintln!("{} ({} values)", folder.name, folder.values.len());
        let measures = contenders
            .iter()
            .map(|contender| measure(folder, contender))
            .collect();
        rows.push((folder.name.clone(), measures));
    }
    let complete = codec_part.is_empty();
    let mut table = report::markdown(&contenders, &rows, complete.then(kernels::measure));
    if complete {
        table += &timestamps::markdown(&clocks);
        table += &types::markdown();
    }
    println!("{table}");
    if let Some(path) = write {
        if let Err(error) = std::fs::write(&path, table) {
            eprintln!("cannot write {path}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// All series of a folder, block by block.
fn measure(folder: &Folder, contender: &Contender) -> Measure {
    let blocks: Vec<&[f64]> = folder
        .series
        .iter()
        .flat_map(|range| folder.values[range.clone()].chunks(contender.rows))
        .collect();
    let mut streams: Vec<Vec<u8>> = Vec::new();
    let encode = fastest(REPEATS, || {
        streams.clear();
        let mut guess = Guess::default();
        for block in &blocks {
            let mut bytes = Vec::new();
            (contender.encode)(block, &mut guess, &mut bytes);
            streams.push(bytes);
        }
    });
    let mut decoded = Vec::new();
    let decode = fastest(REPEATS, || {
        for (block, bytes) in blocks.iter().zip(&streams) {
            (contender.decode)(bytes, block.len(), &mut decoded);
            std::hint::black_box(&decoded);
        }
    });
    for (block, bytes) in blocks.iter().zip(&streams) {
        (contender.decode)(bytes, block.len(), &mut decoded);
        let same = decoded
            .iter()
            .map(|v| v.to_bits())
            .eq(block.iter().map(|v| v.to_bits()));
        assert!(
            same,
            "BUG: {} changed values of {}",
            contender.name, folder.name
        );
    }
    Measure {
        values: blocks.iter().map(|block| block.len()).sum(),
        bytes: streams.iter().map(Vec::len).sum(),
        encode,
        decode,
    }
}
