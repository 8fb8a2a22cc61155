//! The command line: a subcommand, options as `--name value`, and plain words.

use crate::Result;
use std::collections::HashMap;
use std::str::FromStr;

pub struct Arguments {
    pub command: String,
    pub words: Vec<String>,
    options: HashMap<String, String>,
}

impl Arguments {
    pub fn from_environment() -> Result<Self> {
        Self::parse(std::env::args().skip(1))
    }

    fn parse(mut given: impl Iterator<Item = String>) -> Result<Self> {
        let command = given.next().unwrap_or_default();
        let (mut words, mut options) = (Vec::new(), HashMap::new());
        while let Some(word) = given.next() {
            match word.strip_prefix("--") {
                Some(name) => {
                    let value = given
                        .next()
                        .ok_or_else(|| format!("--{name} wants a value"))?;
                    options.insert(name.to_string(), value);
                }
                None => words.push(word),
            }
        }
        Ok(Self {
            command,
            words,
            options,
        })
    }

    /// The option's value, or `default` where it was not given.
    pub fn option<T: FromStr>(&self, name: &str, default: T) -> Result<T> {
        Ok(self.given(name)?.unwrap_or(default))
    }

    /// The option's value, if it was given.
    pub fn given<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        let parse = |text: &String| {
            text.parse()
                .map_err(|_| format!("--{name} {text}: not a valid value").into())
        };
        self.options.get(name).map(parse).transpose()
    }

    /// The plain word at `position`, or `default`.
    pub fn word<T: FromStr>(&self, position: usize, default: T) -> Result<T> {
        match self.words.get(position) {
            None => Ok(default),
            Some(text) => text
                .parse()
                .map_err(|_| format!("{text}: not a valid value").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_take_a_value_and_words_do_not() {
        let given = ["crash", "--rounds", "5", "page"].map(String::from);
        let arguments = Arguments::parse(given.into_iter()).unwrap();
        assert_eq!(arguments.command, "crash");
        assert_eq!(arguments.option("rounds", 1).unwrap(), 5);
        assert_eq!(arguments.word(0, String::new()).unwrap(), "page");
        assert!(arguments.option::<u8>("rounds", 0).is_ok());
        assert!(Arguments::parse(["crash", "--seed"].map(String::from).into_iter()).is_err());
    }
}
