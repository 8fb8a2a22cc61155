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

pub fn read(path: &Path) -> io::Result<Vec<Folder>> {
    let mut archive = tar::Archive::new(zstd::Decoder::new(File::open(path)?)?);
    let mut folders: BTreeMap<String, Folder> = BTreeMap::new();
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
        let folder = folders.entry(name).or_insert(new);
        match file.as_str() {
            "values.f64" => folder.values = doubles(&content),
            "series.csv" => folder.series = series(&String::from_utf8_lossy(&content))?,
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
    Ok(folders)
}

fn doubles(content: &[u8]) -> Vec<f64> {
    content
        .chunks_exact(8)
        .map(|bytes| f64::from_le_bytes(bytes.try_into().expect("BUG: a chunk of eight bytes")))
        .collect()
}

/// Lines of `"name",start,count` behind a header.
fn series(csv: &str) -> io::Result<Vec<Range<usize>>> {
    let mut ranges = Vec::new();
    for line in csv.lines().skip(1) {
        let mut fields = line
            .rsplitn(3, ',')
            .map(|field| field.trim().parse::<usize>());
        match (fields.next(), fields.next()) {
            (Some(Ok(count)), Some(Ok(start))) => ranges.push(start..start + count),
            _ => return Err(io::Error::other(format!("not a series: {line}"))),
        }
    }
    Ok(ranges)
}
