//! A small generator (xorshift64*): a seed gives the same batches forever.

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64, stream: u64) -> Random {
        let mut random = Random((seed ^ stream.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            random.word();
        }
        random
    }

    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.word() >> 33) as usize % limit
    }

    /// True in so many cases of a hundred.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    /// A place in a list, each as likely as its weight.
    pub fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut at = self.below(weights.iter().sum());
        for (n, &weight) in weights.iter().enumerate() {
            if at < weight {
                return n;
            }
            at -= weight;
        }
        unreachable!("below the sum of all weights")
    }
}
