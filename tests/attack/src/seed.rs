//! The single source of randomness.

use rand::SeedableRng as _;
use rand::rngs::StdRng;

/// A generator for one part of an attack: the same seed and name give the same numbers, whatever the other parts
/// draw.
pub fn generator(seed: u64, name: &str) -> StdRng {
    let mut mixed = seed ^ 0xcbf2_9ce4_8422_2325;
    for byte in name.bytes() {
        mixed = (mixed ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    StdRng::seed_from_u64(mixed)
}
