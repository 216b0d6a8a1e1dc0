//! Metric, instance domain and instance identifiers (`docs/pcp/wire.md` 3.1 and 3.2).

use std::fmt;
use std::str::FromStr;

/// An internal instance identifier. [`PM_IN_NULL`] stands for "the" value of a singular metric.
pub type Inst = i32;

/// The instance of a singular metric (`PM_IN_NULL`).
pub const PM_IN_NULL: Inst = -1;

/// A metric identifier: domain (9 bits), cluster (12 bits), item (10 bits).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pmid(pub u32);

impl Pmid {
    /// `PM_ID_NULL`, the answer for a name that did not resolve.
    pub const NULL: Pmid = Pmid(u32::MAX);
    /// The domain reserved for dynamic subtrees and derived metrics.
    pub const DYNAMIC_DOMAIN: u16 = 511;

    /// Builds an identifier. Excess high bits of each part are dropped.
    pub const fn new(domain: u16, cluster: u16, item: u16) -> Pmid {
        Pmid((domain as u32 & 0x1ff) << 22 | (cluster as u32 & 0xfff) << 10 | (item as u32 & 0x3ff))
    }

    /// The agent's number, 0..=511.
    pub const fn domain(self) -> u16 {
        (self.0 >> 22 & 0x1ff) as u16
    }

    /// The group within the agent, 0..=4095.
    pub const fn cluster(self) -> u16 {
        (self.0 >> 10 & 0xfff) as u16
    }

    /// The metric within the cluster, 0..=1023.
    pub const fn item(self) -> u16 {
        (self.0 & 0x3ff) as u16
    }

    /// Whether it stands for a derived metric. Those that a logger has recorded are metrics like others: they have
    /// the uppermost bit of the cluster set.
    pub const fn is_derived(self) -> bool {
        self.domain() == Pmid::DYNAMIC_DOMAIN && self.cluster() < 1 << 11 && self.item() != 0
    }

    /// The same cluster and item in another domain.
    pub const fn with_domain(self, domain: u16) -> Pmid {
        Pmid::new(domain, self.cluster(), self.item())
    }

    /// Cluster and item without the domain, the key of an agent's own tables.
    pub const fn local(self) -> u32 {
        self.0 & 0x3f_ffff
    }
}

impl fmt::Display for Pmid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Pmid::NULL {
            return f.write_str("PM_ID_NULL");
        }
        // The root of a dynamic subtree holds the agent's number in place of the cluster.
        if self.domain() == Pmid::DYNAMIC_DOMAIN && self.item() == 0 {
            return write!(f, "{}.*.*", self.cluster());
        }
        write!(f, "{}.{}.{}", self.domain(), self.cluster(), self.item())
    }
}

impl fmt::Debug for Pmid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Pmid {
    type Err = ParseIdentError;

    /// Reads `domain.cluster.item`.
    fn from_str(text: &str) -> Result<Pmid, ParseIdentError> {
        let mut parts = text.split('.');
        let pmid = Pmid::new(part(&mut parts, 511)?, part(&mut parts, 4095)?, part(&mut parts, 1023)?);
        parts.next().is_none().then_some(pmid).ok_or(ParseIdentError)
    }
}

/// An instance domain identifier: domain (9 bits) and serial (22 bits).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct InDom(pub u32);

impl InDom {
    /// `PM_INDOM_NULL`: the metric is singular.
    pub const NULL: InDom = InDom(u32::MAX);

    /// Builds an identifier. Excess high bits of each part are dropped.
    pub const fn new(domain: u16, serial: u32) -> InDom {
        InDom((domain as u32 & 0x1ff) << 22 | serial & 0x3f_ffff)
    }

    /// The agent's number, 0..=511.
    pub const fn domain(self) -> u16 {
        (self.0 >> 22 & 0x1ff) as u16
    }

    /// The instance domain within the agent, 0..=4194303.
    pub const fn serial(self) -> u32 {
        self.0 & 0x3f_ffff
    }
}

impl fmt::Display for InDom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == InDom::NULL {
            return f.write_str("PM_INDOM_NULL");
        }
        write!(f, "{}.{}", self.domain(), self.serial())
    }
}

impl fmt::Debug for InDom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for InDom {
    type Err = ParseIdentError;

    /// Reads `domain.serial`.
    fn from_str(text: &str) -> Result<InDom, ParseIdentError> {
        let mut parts = text.split('.');
        let domain = part::<u16>(&mut parts, 511)?;
        let serial = part(&mut parts, 0x3f_ffff)?;
        parts.next().is_none().then_some(InDom::new(domain, serial)).ok_or(ParseIdentError)
    }
}

/// The text is not `domain.cluster.item` or `domain.serial` with each number in its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an identifier: write domain.cluster.item for a metric, domain.serial for an instance domain")]
pub struct ParseIdentError;

fn part<T: TryFrom<u32>>(parts: &mut std::str::Split<'_, char>, max: u32) -> Result<T, ParseIdentError> {
    let text = parts.next().ok_or(ParseIdentError)?;
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(ParseIdentError);
    }
    let number: u32 = text.parse().map_err(|_| ParseIdentError)?;
    if number > max {
        return Err(ParseIdentError);
    }
    T::try_from(number).map_err(|_| ParseIdentError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pmid_packs_as_on_the_wire() {
        assert_eq!(Pmid::new(60, 12, 7).0, 0x0f00_3007);
        assert_eq!(Pmid(0x0740_000a).to_string(), "29.0.10");
        assert_eq!("29.0.10".parse(), Ok(Pmid(0x0740_000a)));
        assert_eq!(Pmid::NULL.to_string(), "PM_ID_NULL");
    }

    #[test]
    fn indom_packs_as_on_the_wire() {
        assert_eq!(InDom::new(29, 2).0, 0x0740_0002);
        assert_eq!("29.2".parse(), Ok(InDom(0x0740_0002)));
        assert_eq!(InDom::NULL.to_string(), "PM_INDOM_NULL");
    }

    #[test]
    fn identifiers_out_of_range_are_refused() {
        for text in ["", "1", "1.2", "512.0.0", "1.4096.0", "1.0.1024", "1.2.3.4", "+1.0.0", "a.b.c"] {
            assert_eq!(text.parse::<Pmid>(), Err(ParseIdentError), "{text}");
        }
        for text in ["", "1", "512.0", "1.4194304", "1.2.3"] {
            assert_eq!(text.parse::<InDom>(), Err(ParseIdentError), "{text}");
        }
    }
}
