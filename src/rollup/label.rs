//! What a dump has to tell of a rollup that its view and its stored table do not: how far it was stored, and what retention had
//! taken. It is the security label of the view, of provider `varve`, which goes wherever the view is dumped to (docs/design/0043).

use serde_json::{json, Value};

/// The label's content.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Label {
    /// As of `Rollup`.
    pub watermark: i64,
    pub removed: i64,
    pub ignores_late: bool,
    /// Do the stored table and the source have indexes? A dump is restored once they have them again.
    pub stored_has_index: bool,
    pub source_has_index: bool,
}

impl Label {
    pub fn parse(text: &str) -> Option<Label> {
        let value: Value = serde_json::from_str(text).ok()?;
        Some(Label {
            watermark: value["watermark"].as_i64()?,
            removed: value["removed"].as_i64()?,
            ignores_late: value["ignores_late"].as_bool()?,
            stored_has_index: value["stored_has_index"].as_bool()?,
            source_has_index: value["source_has_index"].as_bool()?,
        })
    }

    pub fn text(&self) -> String {
        let value = json!({
            "watermark": self.watermark,
            "removed": self.removed,
            "ignores_late": self.ignores_late,
            "stored_has_index": self.stored_has_index,
            "source_has_index": self.source_has_index,
        });
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_reads_as_it_was_written() {
        let label = Label {
            watermark: i64::MAX,
            removed: i64::MIN,
            ignores_late: true,
            stored_has_index: true,
            source_has_index: false,
        };
        assert_eq!(Label::parse(&label.text()), Some(label));
        assert_eq!(Label::parse("[]"), None);
        assert_eq!(Label::parse("{\"watermark\": 1}"), None);
    }
}
