//! Specifications of agents for local contexts (`pmSpecLocalPMDA(3)`). They are checked; the agents themselves are
//! shared objects for PCP's own library.

/// Domains of the agents that a local context has from the start.
const BUILT_IN: [u16; 5] = [4, 60, 70, 122, 388];
const MAX_DOMAIN: u16 = 510;

/// The agents of a local context.
#[derive(Debug)]
pub(super) struct LocalAgents {
    domains: Vec<u16>,
}

impl Default for LocalAgents {
    fn default() -> LocalAgents {
        LocalAgents { domains: BUILT_IN.to_vec() }
    }
}

impl LocalAgents {
    /// Takes a specification: `add,DOMAIN,DSO,INIT`, `del,DOMAIN` or `clear`. As PCP does it looks at the first of
    /// several with `|` between.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn specify(&mut self, spec: &str) -> Result<(), &'static str> {
        if let Some(rest) = spec.strip_prefix("clear") {
            self.domains.clear();
            return if rest.is_empty() { Ok(()) } else { Err("unexpected text after clear op in spec") };
        }
        let spec = spec.split('|').next().unwrap_or_default();
        let (op, rest) = spec.split_at_checked(3).ok_or("bad op in spec")?;
        if op != "add" && op != "del" {
            return Err("bad op in spec");
        }
        let mut words = rest.strip_prefix(',').ok_or("expected , after op in spec")?.split(',');
        let mut word = |missing| words.next().filter(|word| !word.is_empty()).ok_or(missing);
        let domain = word("missing domain in spec")?;
        let domain: u16 = domain.parse().map_err(|_| "bad domain in spec")?;
        if domain > MAX_DOMAIN {
            return Err("bad domain in spec");
        }
        let known = self.domains.iter().position(|&other| other == domain);
        match (op, known) {
            ("add", _) => {
                word("missing dso-path in spec")?;
                word("missing init-routine in spec")?;
                self.domains.push(domain);
            }
            (_, Some(at)) => drop(self.domains.remove(at)),
            (_, None) => return Err("__pmLocalPMDA: Unknown or illegal instance domain identifier"),
        }
        Ok(())
    }
}
