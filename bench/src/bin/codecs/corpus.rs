//! Reads the corpus: a tar.zst of folders that hold doubles and the list of their series.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;

pub struct Folder {
    pub name: String,
    pub values: Vec<f64>,
    /// Each series is a range of `values`.
    pub series: Vec<Range<usize>>,
}

/// Timestamps: of a folder, or of one series of a folder that has nothing else.
pub struct Clock {
    pub name: String,
    pub series: Vec<Vec<i64>>,
}

pub struct Corpus {
    pub folders: Vec<Folder>,
    pub clocks: Vec<Clock>,
}

pub fn read(path: &Path) -> io::Result<Corpus> {
    let mut archive = tar::Archive::new(zstd::Decoder::new(File::open(path)?)?);
    let mut folders: BTreeMap<String, Folder> = BTreeMap::new();
    let mut times: BTreeMap<String, Times> = BTreeMap::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let (Some(name), Some(file)) = (path.parent().and_then(Path::file_name), path.file_name())
        else {
            continue;
        };
        let name = name.to_string_lossy().into_owned();
        let file = file.to_string_lossy().into_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        let new = Folder {
            name: name.clone(),
            values: Vec::new(),
            series: Vec::new(),
        };
        let folder = folders.entry(name.clone()).or_insert(new);
        match file.as_str() {
            "values.f64" => folder.values = doubles(&content),
            "series.csv" => {
                let ranges = series(&String::from_utf8_lossy(&content))?.into_values();
                folder.series = ranges.collect();
            }
            "timestamps.i64" => times.entry(name).or_default().values = integers(&content),
            "timestamps.csv" => {
                times.entry(name).or_default().series = series(&String::from_utf8_lossy(&content))?;
            }
            _ => {}
        }
    }
    let mut folders: Vec<Folder> = folders
        .into_values()
        .filter(|f| f.values.len() >= 1024)
        .collect();
    for folder in &mut folders {
        let len = folder.values.len();
        if folder
            .series
            .iter()
            .any(|range| range.start > range.end || range.end > len)
        {
            return Err(io::Error::other(format!(
                "series of {} lie outside its values",
                folder.name
            )));
        }
        folder.series.retain(|range| !range.is_empty());
    }
    // Real data first.
    folders.sort_by_key(|folder| (folder.name.starts_with("syn_"), folder.name.clone()));
    let clocks = times
        .into_iter()
        .flat_map(|(name, times)| times.clocks(&name));
    Ok(Corpus {
        clocks: clocks.collect(),
        folders,
    })
}

#[derive(Default)]
struct Times {
    values: Vec<i64>,
    series: BTreeMap<(usize, String), Range<usize>>,
}

impl Times {
    /// One of the folder; of generated patterns, one for each.
    fn clocks(self, folder: &str) -> Vec<Clock> {
        let series = self.series.into_iter().filter_map(|((_, name), range)| {
            let values = self.values.get(range)?.to_vec();
            Some((name, values))
        });
        if folder.starts_with("syn_") {
            let alone = |(name, values)| Clock {
                name,
                series: vec![values],
            };
            return series.map(alone).collect();
        }
        vec![Clock {
            name: folder.to_owned(),
            series: series.map(|(_, values)| values).collect(),
        }]
    }
}

fn integers(content: &[u8]) -> Vec<i64> {
    let integers = content.as_chunks::<8>().0.iter();
    integers.map(|bytes| i64::from_le_bytes(*bytes)).collect()
}

fn doubles(content: &[u8]) -> Vec<f64> {
    content
        .chunks_exact(8)
        .map(|bytes| f64::from_le_bytes(bytes.try_into().expect("BUG: a chunk of eight bytes")))
        .collect()
}

/// Lines of `"name",start,count` behind a header: by line and name.
fn series(csv: &str) -> io::Result<BTreeMap<(usize, String), Range<usize>>> {
    let mut ranges = BTreeMap::new();
    for (number, line) in csv.lines().enumerate().skip(1) {
        let mut fields = line.rsplitn(3, ',');
        let mut next_number = || fields.next()?.trim().parse::<usize>().ok();
        match (next_number(), next_number()) {
            (Some(count), Some(start)) => {
                let name = fields.next().unwrap_or_default().to_owned();
                ranges.insert((number, name), start..start + count);
            }
            _ => return Err(io::Error::other(format!("not a series: {line}"))),
        }
    }
    Ok(ranges)
}
