//! Differences back to values. Each value waits for the one before it, so that what counts is how few additions stand between
//! them: one for each four values, or, where the processor has AVX-512, one for each eight, which are added up within a register
//! in three steps that each double how far a difference has come (Hillis and Steele 1986). Compilers do not find that by themselves.

use super::frame::Scale;

/// Deltas to values: each slot becomes the sum of `first` and the scaled slots up to it but the first one, which holds anything. There is a slot.
pub fn prefix_sum(first: i64, out: &mut [i64], scale: Scale) {
    let (head, rest) = out.split_at_mut(1);
    head[0] = first;
    #[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
    if wide::is_there() {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { wide::add_up(first, rest, scale) };
    }
    match scale.gcd {
        1 => add_up(first, rest, |delta| delta.wrapping_add(scale.base)),
        _ => add_up(first, rest, |delta| scale.apply(delta)),
    }
}

#[inline]
fn add_up(first: i64, slots: &mut [i64], scale: impl Fn(i64) -> i64) {
    let mut value = first;
    let (fours, tail) = slots.as_chunks_mut::<4>();
    for four in fours {
        let [a, b, c, d] = [
            scale(four[0]),
            scale(four[1]),
            scale(four[2]),
            scale(four[3]),
        ];
        let ab = a.wrapping_add(b);
        *four = [
            a,
            ab,
            ab.wrapping_add(c),
            ab.wrapping_add(c.wrapping_add(d)),
        ];
        four.iter_mut()
            .for_each(|sum| *sum = sum.wrapping_add(value));
        value = four[3];
    }
    for slot in tail {
        value = value.wrapping_add(scale(*slot));
        *slot = value;
    }
}

#[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
mod wide {
    use super::Scale;
    use std::arch::x86_64::*;

    pub fn is_there() -> bool {
        std::arch::is_x86_feature_detected!("avx512f")
            && std::arch::is_x86_feature_detected!("avx512dq")
    }

    #[target_feature(enable = "avx512f,avx512dq")]
    pub fn add_up(first: i64, slots: &mut [i64], scale: Scale) {
        let (eights, tail) = slots.as_chunks_mut::<8>();
        let (zero, last) = (_mm512_setzero_si512(), _mm512_set1_epi64(7));
        let (gcd, base) = (_mm512_set1_epi64(scale.gcd), _mm512_set1_epi64(scale.base));
        let mut before = _mm512_set1_epi64(first);
        for eight in eights {
            // SAFETY: eight integers are there to read.
            let mut sums = unsafe { _mm512_loadu_si512(eight.as_ptr().cast()) };
            if scale.gcd != 1 {
                sums = _mm512_mullo_epi64(sums, gcd);
            }
            sums = _mm512_add_epi64(sums, base);
            sums = _mm512_add_epi64(sums, _mm512_alignr_epi64::<7>(sums, zero));
            sums = _mm512_add_epi64(sums, _mm512_alignr_epi64::<6>(sums, zero));
            sums = _mm512_add_epi64(sums, _mm512_alignr_epi64::<4>(sums, zero));
            let values = _mm512_add_epi64(sums, before);
            // SAFETY: and to write.
            unsafe { _mm512_storeu_si512(eight.as_mut_ptr().cast(), values) };
            before = _mm512_add_epi64(before, _mm512_permutexvar_epi64(last, sums));
        }
        let before = _mm_cvtsi128_si64(_mm512_castsi512_si128(before));
        super::add_up(before, tail, |delta| scale.apply(delta));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_one_addition_after_the_other() {
        let noise = |i: i64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64);
        for (gcd, base) in [(1, 0), (1, -3), (7, 5), (noise(3), noise(4))] {
            let scale = Scale { gcd, base };
            for length in (1..40).chain([1024, 1031]) {
                let mut slots: Vec<i64> = (0..length).map(noise).collect();
                let mut value = noise(99);
                let first = value;
                let mut expected = vec![first];
                for slot in &slots[1..] {
                    value = value.wrapping_add(slot.wrapping_mul(gcd).wrapping_add(base));
                    expected.push(value);
                }
                prefix_sum(first, &mut slots, scale);
                assert_eq!(slots, expected, "{length} of {gcd} and {base}");
                let mut slots: Vec<i64> = (1..length).map(noise).collect();
                add_up(first, &mut slots, |delta| scale.apply(delta));
                assert_eq!(slots, expected[1..]);
            }
        }
    }
}
