//! `generate billy [SENSORS] [DAYS]`, `noisy [DEVICES] [DAYS]`, `churn [INSTANCES]`, `cpu [HOSTS] [STEPS]`: CSV on stdout.

use crate::arguments::Arguments;
use crate::generate::{billy, churn, cpu, noisy};
use crate::Result;
use std::io::{BufWriter, Write};

pub fn run(arguments: &Arguments) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    match arguments.word(0, String::new())?.as_str() {
        "billy" => billy(&mut out, arguments.word(1, 500)?, arguments.word(2, 90)?)?,
        "noisy" => noisy(&mut out, arguments.word(1, 50)?, arguments.word(2, 30)?)?,
        "churn" => churn(&mut out, arguments.word(1, 1_000)?)?,
        "cpu" => cpu(
            &mut out,
            arguments.word(1, 100)?,
            arguments.word(2, 25_920)?,
        )?,
        other => {
            return Err(
                format!("there is no data set \"{other}\": billy, noisy, churn or cpu").into(),
            )
        }
    }
    Ok(out.flush()?)
}
