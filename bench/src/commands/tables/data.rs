//! The rows that are loaded, as CSV files that the server reads itself: so no client takes processor time from it.

use crate::generate;
use crate::server::Tree;
use crate::Result;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Where the project's data sets are, if they are there.
const SHARED: &str = "../shared/data";

/// Cpu data of the Time Series Benchmark Suite, or, where its file is not there, made-up data of its shape.
pub struct Suite {
    pub name: &'static str,
    packed: &'static str,
    pub hosts: usize,
    /// Of ten seconds.
    pub steps: i64,
}

pub const A1: Suite = Suite {
    name: "A1",
    packed: "tsbs_cpu_100x3d.csv.zst",
    hosts: 100,
    steps: 25_920,
};
pub const A2: Suite = Suite {
    name: "A2",
    packed: "tsbs_cpu_4000x2h.csv.zst",
    hosts: 4_000,
    steps: 720,
};

impl Suite {
    /// What a page says about the data, and their rows.
    fn open(&self, directory: &Path) -> Result<(String, Box<dyn BufRead>)> {
        let (name, packed) = (self.name, self.packed);
        let shared = std::env::var("VARVE_DATA").unwrap_or_else(|_| SHARED.into());
        if let Ok(file) = File::open(Path::new(&shared).join(packed)) {
            let lines = BufReader::new(zstd::Decoder::new(file)?);
            return Ok((
                format!("{name} is the suite's own data ({packed})"),
                Box::new(lines),
            ));
        }
        let path = directory.join("generated.csv");
        let mut out = BufWriter::new(File::create(&path)?);
        generate::cpu(&mut out, self.hosts, self.steps)?;
        out.flush()?;
        Ok((
            format!("{name} is data of its shape by `varve-bench generate cpu`"),
            Box::new(BufReader::new(File::open(path)?)),
        ))
    }

    /// Writes the rows as one file; returns it with what a page says about them.
    pub fn write(&self, directory: &Path) -> Result<(PathBuf, String)> {
        let (source, mut lines) = self.open(directory)?;
        let path = directory.join(format!("{}.csv", self.name));
        let mut out = BufWriter::new(File::create(&path)?);
        std::io::copy(&mut lines, &mut out)?;
        out.flush()?;
        Ok((path, source))
    }
}

/// A1 as one file, as two of half the hosts each, and its first tenth.
pub struct Cpu {
    pub all: PathBuf,
    pub halves: [PathBuf; 2],
    pub tenth: PathBuf,
    pub rows: usize,
    pub tenth_rows: usize,
    /// What the page says about it.
    pub source: String,
}

/// Writes A1's files into `directory`.
pub fn cpu(directory: &Path) -> Result<Cpu> {
    let (source, mut lines) = A1.open(directory)?;
    let path = |name: &str| directory.join(name);
    let mut cpu = Cpu {
        all: path("all.csv"),
        halves: [path("even.csv"), path("odd.csv")],
        tenth: path("tenth.csv"),
        rows: 0,
        tenth_rows: 0,
        source,
    };
    let create = |path: &Path| -> Result<_> { Ok(BufWriter::new(File::create(path)?)) };
    let (mut all, mut tenth) = (create(&cpu.all)?, create(&cpu.tenth)?);
    let mut halves = [create(&cpu.halves[0])?, create(&cpu.halves[1])?];
    let mut line = String::new();
    while lines.read_line(&mut line)? > 0 {
        let host: usize = line.split(',').nth(1).unwrap_or("").parse()?;
        all.write_all(line.as_bytes())?;
        halves[host % 2].write_all(line.as_bytes())?;
        if cpu.rows < A1.hosts * A1.steps as usize / 10 {
            tenth.write_all(line.as_bytes())?;
            cpu.tenth_rows += 1;
        }
        cpu.rows += 1;
        line.clear();
    }
    let [even, odd] = halves;
    for mut out in [all, tenth, even, odd] {
        out.flush()?;
    }
    Ok(cpu)
}

/// Writes what a generator makes into `directory`; returns the file and the number of its rows.
pub fn generated(
    directory: &Path,
    name: &str,
    generate: impl FnOnce(&mut Counter) -> std::io::Result<()>,
) -> Result<(PathBuf, i64)> {
    let path = directory.join(name);
    let mut out = Counter {
        out: BufWriter::with_capacity(1 << 20, File::create(&path)?),
        lines: 0,
    };
    generate(&mut out)?;
    out.flush()?;
    Ok((path, out.lines))
}

/// Counts the lines that go through it.
pub struct Counter {
    out: BufWriter<File>,
    lines: i64,
}

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.lines += bytes[..written].iter().filter(|&&b| b == b'\n').count() as i64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// A directory that the server can read.
pub fn directory(tree: &Tree) -> Result<PathBuf> {
    tree.directory("data")
}
