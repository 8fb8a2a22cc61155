//! Gorilla's XOR scheme for doubles as published (Pelkonen et al., "Gorilla: A Fast, Scalable,
//! In-Memory Time Series Database", VLDB 2015, section 4.1.2): the usual yardstick.

pub fn encode(values: &[f64], out: &mut Vec<u8>) {
    let mut bits = Writer {
        out,
        pending: 0,
        len: 0,
    };
    let Some(first) = values.first() else { return };
    let mut previous = first.to_bits();
    bits.put(previous, 64);
    let (mut leading, mut trailing) = (65, 0);
    for value in &values[1..] {
        let xor = value.to_bits() ^ previous;
        previous = value.to_bits();
        if xor == 0 {
            bits.put(0, 1);
            continue;
        }
        let (new_leading, new_trailing) = (xor.leading_zeros().min(31), xor.trailing_zeros());
        if new_leading >= leading && new_trailing >= trailing {
            bits.put(0b01, 2);
            bits.put(xor >> trailing, 64 - leading - trailing);
            continue;
        }
        (leading, trailing) = (new_leading, new_trailing);
        let meaningful = 64 - leading - trailing;
        bits.put(0b11, 2);
        bits.put(leading as u64, 5);
        bits.put((meaningful - 1) as u64, 6);
        bits.put(xor >> trailing, meaningful);
    }
    bits.finish();
}

pub fn decode(bytes: &[u8], rows: usize, out: &mut Vec<f64>) {
    out.clear();
    if rows == 0 {
        return;
    }
    let mut bits = Reader { bytes, at: 0 };
    let mut previous = bits.get(64);
    out.push(f64::from_bits(previous));
    let (mut leading, mut trailing) = (0, 0);
    for _ in 1..rows {
        if bits.get(1) == 1 {
            if bits.get(1) == 1 {
                leading = bits.get(5) as u32;
                trailing = 64 - leading - (bits.get(6) as u32 + 1);
            }
            previous ^= bits.get(64 - leading - trailing) << trailing;
        }
        out.push(f64::from_bits(previous));
    }
}

/// Least significant bit first, so that a control pair reads as its low bit, then its high bit.
struct Writer<'a> {
    out: &'a mut Vec<u8>,
    pending: u128,
    len: u32,
}

impl Writer<'_> {
    fn put(&mut self, bits: u64, len: u32) {
        let bits = if len == 64 {
            bits
        } else {
            bits & ((1 << len) - 1)
        };
        self.pending |= (bits as u128) << self.len;
        self.len += len;
        if self.len >= 64 {
            self.out
                .extend_from_slice(&(self.pending as u64).to_le_bytes());
            self.pending >>= 64;
            self.len -= 64;
        }
    }

    fn finish(self) {
        self.out
            .extend_from_slice(&self.pending.to_le_bytes()[..self.len.div_ceil(8) as usize]);
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn get(&mut self, len: u32) -> u64 {
        let mut word = [0u8; 16];
        let tail = &self.bytes[self.at / 8..];
        let have = tail.len().min(16);
        word[..have].copy_from_slice(&tail[..have]);
        let bits = (u128::from_le_bytes(word) >> (self.at % 8)) as u64;
        self.at += len as usize;
        if len == 64 {
            bits
        } else {
            bits & ((1 << len) - 1)
        }
    }
}
