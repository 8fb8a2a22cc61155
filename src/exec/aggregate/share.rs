//! Parts of all groups, by the hashes of their columns: where memory has no room for all of them, one part is read after the other.

/// Hashes that begin with these bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    bits: u32,
    value: u64,
}

/// Most bits that tell shares apart, and those by which one is divided.
const MOST_BITS: u32 = 32;
const MOST_BITS_AT_ONCE: u32 = 6;

impl Share {
    /// Its parts, at least so many of them; none where it is as small as can be.
    pub fn parts(self, count: f64) -> Vec<Share> {
        let wanted = count.log2().ceil().clamp(1.0, f64::from(MOST_BITS_AT_ONCE));
        let bits = (wanted as u32).min(MOST_BITS - self.bits);
        let part = |value: u64| Share {
            bits: self.bits + bits,
            value: self.value << bits | value,
        };
        match bits {
            0 => Vec::new(),
            _ => (0..1 << bits).map(part).collect(),
        }
    }

    /// Are these all hashes?
    pub fn is_all(self) -> bool {
        self.bits == 0
    }

    pub fn has(self, hash: u64) -> bool {
        self.bits == 0 || hash >> (u64::BITS - self.bits) == self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_hash_is_in_one_part_of_the_share_that_has_it() {
        let mut share = Share::default();
        let hash = 0xa5a5_0123_4567_89ab;
        for count in [1.0, 3.0, 50.0, 1e9, f64::INFINITY, 100.0, 100.0] {
            let parts = share.parts(count);
            let mut own = parts.iter().filter(|part| part.has(hash));
            share = *own.next().expect("a part that has it");
            assert_eq!(own.next(), None);
            let outside = Share::default().parts(2.0);
            let outside = outside.iter().filter(|part| part.has(!hash));
            assert!(outside.count() == 1 && !share.has(!hash));
        }
        assert!(share.parts(2.0).is_empty());
    }
}
