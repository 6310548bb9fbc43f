//! Texts to buckets, by a hash that is a part of the format.
//!
//! It is public and has no key: which texts share a bucket is known, and depends on no record.

/// The bucket of a text, from 0 to `buckets` - 1.
///
/// # Formula
/// All arithmetic is modulo 2^64. h = FNV-1a of the bytes: from 14695981039346656037, for each byte h = (h xor byte) · 1099511628211.
/// g = (h xor floor(h / 2^32)) · 11400714819323198485, as the upper bits of h hardly depend on the last bytes.
/// The bucket is floor(g · buckets / 2^64), of the product in full.
///
/// # References
/// Fowler, Noll, Vo, Eastlake, *The FNV non-cryptographic hash algorithm*; Dietzfelbinger, Hagerup, Katajainen, Penttonen, *A reliable
/// randomized algorithm for the closest-pair problem*, 1997 (multiply and shift).
pub(super) fn bucket(text: &[u8], buckets: u32) -> u32 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = text.iter().fold(0xcbf2_9ce4_8422_2325, step);
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // Below `buckets`, so it fits.
    ((u128::from(mixed) * u128::from(buckets)) >> 64) as u32
}
