//! Arbitrary bytes taken apart into small choices, for proofs that build something out of what a fuzzer gives.
//!
//! Whatever is missing at the end reads as zero, so that every input means something.

/// What is left of an input.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Whether nothing is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// The next byte, as a length or a place.
    pub fn small(&mut self) -> usize {
        usize::from(self.byte())
    }

    /// The next two bytes, as a length or a place.
    pub fn place(&mut self) -> usize {
        self.small() << 8 | self.small()
    }

    /// The next bytes, as many as there are of these.
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (first, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        first
    }

    /// This number, moved by the next byte: by nothing where that is zero, up to 127 upwards, else downwards.
    pub fn near(&mut self, number: u64) -> u64 {
        match self.byte() {
            up @ 0..=127 => number.wrapping_add(u64::from(up)),
            down => number.wrapping_sub(u64::from(u8::MAX - down) + 1),
        }
    }
}
