//! Asking for what is read next while computing with what is here.
//!
//! A pass alternates between two kernels on a block of rows that fits in the innermost cache: inner
//! products, then a scaled sum. The processor's own prefetching follows neither across the end of a block,
//! and the second kernel reads nothing new, so the memory would idle. Each kernel therefore takes steps in
//! the block that follows.

/// Cache lines are taken to be this long, in bytes.
const LINE: usize = 64;

/// A walk over rows that will be read soon, asking for them line by line.
///
/// It has no effect on any result. On processors other than x86-64 it does nothing.
pub struct Ahead<'a, T> {
    slices: std::slice::Iter<'a, &'a [T]>,
    position: *const i8,
    lines: usize,
}

impl<'a, T> Ahead<'a, T> {
    /// A walk over these slices: single rows, or many rows that lie side by side.
    #[must_use]
    pub fn new(slices: &'a [&'a [T]]) -> Self {
        Self {
            slices: slices.iter(),
            position: std::ptr::null(),
            lines: 0,
        }
    }

    /// Asks for half as many bytes as 32 entries have. A kernel that reads every entry twice, each time with
    /// one step for 32 entries, is as far ahead at its end as it has read.
    #[inline(always)]
    pub fn step(&mut self) {
        let count = (16 * size_of::<T>() / LINE).max(1);
        if self.lines < count {
            let Some(slice) = self.slices.next() else {
                return;
            };
            self.position = slice.as_ptr().cast();
            // A row seldom starts with a line, so it touches one more.
            self.lines = (size_of_val(*slice) / LINE + 1).max(count);
        }
        for line in 0..count {
            prefetch(self.position.wrapping_add(LINE * line));
        }
        self.position = self.position.wrapping_add(LINE * count);
        self.lines -= count;
    }
}

#[inline(always)]
fn prefetch(address: *const i8) {
    #[cfg(target_arch = "x86_64")]
    if let Some(sse) = pulp::core_arch::x86::Sse::try_new() {
        /// Into every level of cache.
        const ALL_LEVELS: i32 = 3;
        sse._mm_prefetch::<ALL_LEVELS>(address);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_covers_its_slices_and_then_rests() {
        let x = [0.0f64; 100];
        let rows = [&x[..50], &x[50..]];
        let mut ahead = Ahead::new(&rows);
        let mut asked = 0;
        for _ in 0..50 {
            let before = ahead.lines;
            ahead.step();
            asked += usize::from(ahead.lines != before);
        }
        // Fifty doubles are 6.25 lines, two of them a step.
        assert!((6..=8).contains(&asked), "{asked}");
        Ahead::<f32>::new(&[]).step();
    }
}
