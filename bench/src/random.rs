//! A small seeded generator (xoshiro256**, seeded by splitmix64; Blackman and Vigna, prng.di.unimi.it) and the distributions
//! that the data generators draw from. The same seed gives the same data on every machine.

pub struct Random {
    state: [u64; 4],
}

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        let mut next = || {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        Self {
            state: [next(), next(), next(), next()],
        }
    }

    /// A seed that differs from run to run, for tests that print it.
    pub fn fresh_seed() -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |d| d.as_nanos() as u64 % 1_000_000_007)
    }

    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in low..high (high excluded).
    pub fn integer(&mut self, low: i64, high: i64) -> i64 {
        low + (self.bits() % (high - low) as u64) as i64
    }

    /// True once in `n`, on average.
    pub fn one_in(&mut self, n: i64) -> bool {
        self.integer(0, n) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.integer(0, from.len() as i64) as usize]
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Box and Muller's transform.
    pub fn normal(&mut self, mean: f64, deviation: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        mean + deviation * radius * (std::f64::consts::TAU * self.unit()).cos()
    }

    pub fn exponential(&mut self, scale: f64) -> f64 {
        -scale * (1.0 - self.unit()).ln()
    }

    /// Knuth's product method for small means; the normal approximation beyond.
    pub fn poisson(&mut self, mean: f64) -> i64 {
        if mean > 60.0 {
            return self.normal(mean, mean.sqrt()).round().max(0.0) as i64;
        }
        let limit = (-mean).exp();
        let (mut count, mut product) = (0, self.unit());
        while product > limit {
            count += 1;
            product *= self.unit();
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fixes_the_sequence() {
        let (mut a, mut b) = (Random::new(7), Random::new(7));
        assert!((0..100).all(|_| a.bits() == b.bits()));
        assert_ne!(Random::new(7).bits(), Random::new(8).bits());
    }

    #[test]
    fn distributions_have_their_means() {
        let mut random = Random::new(1);
        let n = 20_000;
        let mean =
            |mut draw: Box<dyn FnMut() -> f64 + '_>| (0..n).map(|_| draw()).sum::<f64>() / n as f64;
        assert!((mean(Box::new(|| random.normal(5.0, 2.0))) - 5.0).abs() < 0.1);
        assert!((mean(Box::new(|| random.poisson(40.0) as f64)) - 40.0).abs() < 0.5);
        assert!((mean(Box::new(|| random.exponential(3.0))) - 3.0).abs() < 0.15);
    }
}
