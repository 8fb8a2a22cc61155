//! The page: a line for each figure, heap's beside varve's, what it is judged by, and the goal.

use crate::report::Report;
use crate::Result;

#[derive(Clone, Copy)]
pub enum Goal {
    None,
    Most(f64),
    Least(f64),
}

/// Which number the goal is about.
#[derive(Clone, Copy, PartialEq)]
pub enum Judge {
    /// What the varve column says.
    Varve,
    /// Varve's figure divided by heap's.
    Ratio,
    /// Heap's divided by varve's: for times, how many times as fast.
    Speed,
}

#[derive(Default)]
pub struct Page {
    text: String,
}

impl Page {
    pub fn section(&mut self, title: &str, about: &str) {
        self.text.push_str(&format!(
            "\n## {title}\n\n{about}\n\n| | heap | varve | varve ÷ heap | goal | |\n|---|---|---|---|---|---|\n"
        ));
        println!("--- {title}");
    }

    /// Figures of varve alone, a line for each moment: to be drawn as they are.
    pub fn table(
        &mut self,
        title: &str,
        about: &str,
        columns: &[&str],
        lines: impl Iterator<Item = Vec<f64>>,
    ) {
        println!("--- {title}");
        let mut text = format!(
            "\n## {title}\n\n{about}\n\n| {} |\n|{}\n",
            columns.join(" | "),
            "---|".repeat(columns.len())
        );
        for line in lines {
            let cells: Vec<_> = line.into_iter().map(number).collect();
            text.push_str(&format!("| {} |\n", cells.join(" | ")));
        }
        print!("{text}");
        self.text.push_str(&text);
    }

    /// A figure of varve alone.
    pub fn own(&mut self, report: &mut Report, name: &str, varve: f64, goal: Goal) {
        self.line(report, name, None, varve, (Judge::Varve, goal));
    }

    /// A figure of both.
    pub fn both(
        &mut self,
        report: &mut Report,
        name: &str,
        (heap, varve): (f64, f64),
        judged: (Judge, Goal),
    ) {
        self.line(report, name, Some(heap), varve, judged);
    }

    fn line(
        &mut self,
        report: &mut Report,
        name: &str,
        heap: Option<f64>,
        varve: f64,
        (judge, goal): (Judge, Goal),
    ) {
        let ratio = heap.map(|heap| varve / heap).filter(|r| r.is_finite());
        let judged = match judge {
            Judge::Varve => varve,
            Judge::Ratio => ratio.unwrap_or(f64::NAN),
            Judge::Speed => ratio.map_or(f64::NAN, f64::recip),
        };
        let (text, met) = match goal {
            Goal::None => (String::new(), None),
            Goal::Most(most) => (format!("≤ {most}"), Some(judged <= most)),
            Goal::Least(least) => (format!("≥ {least}"), Some(judged >= least)),
        };
        let of = match (judge, goal) {
            (_, Goal::None) | (Judge::Varve, _) => "",
            (Judge::Ratio, _) => " × heap",
            (Judge::Speed, _) => " × heap's speed",
        };
        let show = |figure: Option<f64>| figure.map_or("–".into(), number);
        let line = format!(
            "| {name} | {} | {} | {} | {text}{of} | {} |",
            show(heap),
            number(varve),
            show(ratio),
            met.map_or("", |met| if met { "met" } else { "missed" }),
        );
        println!("{line}");
        self.text.push_str(&line);
        self.text.push('\n');
        if let Some(met) = met {
            let outcome: Result<()> = if met {
                Ok(())
            } else {
                Err(format!("{}, wanted {text}{of}", number(judged)).into())
            };
            report.check(&format!("tables/{name}"), outcome);
        }
    }

    pub fn write(&self, path: &str, head: &str) -> Result<()> {
        std::fs::write(path, format!("{head}{}", self.text))?;
        println!("written: {path}");
        Ok(())
    }
}

/// Three or four digits that say something.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 10.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
