//! Parts that always come one behind the other as one step: what is noted in front of a run, the run, what is noted behind it, and the
//! delimiter.

use super::read::{Part, Parts, set};
use super::{Field, Fixed, NOWHERE, Run, Step, Template, Walk, Word};

/// Makes steps of parts.
pub(super) fn fuse(parts: Parts) -> Walk {
    let Parts { parts, sets, groups, optional, .. } = parts;
    let ends = 2 * groups;
    let mut led_to = vec![false; parts.len() + 1];
    let mut noted = vec![0; ends];
    for part in &parts {
        match part {
            Part::Unless(_, elsewhere) | Part::Jump(elsewhere) => led_to[*elsewhere] = true,
            Part::Note(end) => noted[*end] += 1,
            _ => {}
        }
    }
    let walk = Walk {
        steps: Vec::new(),
        sets,
        // Those of groups that are noted by themselves, and then the steps'.
        places: vec![NOWHERE; ends],
        groups: (0..groups).map(|group| [2 * group, 2 * group + 1]).collect(),
        optional: Vec::new(),
    };
    let mut fuser = Fuser { parts: &parts, led_to, noted, walk };
    let (mut at, mut began) = (0, vec![0; parts.len() + 1]);
    while at < parts.len() {
        began[at] = fuser.walk.steps.len();
        at = fuser.step(at);
    }
    let mut walk = fuser.walk;
    began[parts.len()] = walk.steps.len();
    for step in &mut walk.steps {
        if let Step::Unless(_, elsewhere) | Step::Jump(elsewhere) = step {
            *elsewhere = began[*elsewhere];
        }
    }
    walk.optional = optional.iter().map(|end| walk.groups[end / 2][end % 2]).collect();
    walk
}

struct Fuser<'a> {
    parts: &'a [Part],
    /// Whether a part is gone to from elsewhere: then a step begins with it.
    led_to: Vec<bool>,
    /// In how many places the ends of groups are noted: those of repeated groups in several.
    noted: Vec<usize>,
    walk: Walk,
}

impl Fuser<'_> {
    /// Adds a step that begins with a part; gives the part behind it.
    fn step(&mut self, begin: usize) -> usize {
        let body = self.notes(begin, true);
        if body == begin || !self.led_to[body] {
            if let Some(Part::Run(run, u32::MAX)) = self.parts.get(body) {
                let (places, behind, next) = self.around(begin, body, body + 1);
                // A character that is told to be behind it tells that the run ends there.
                let is_told = (1..0x80).contains(&(behind.word & 0xff));
                let has_some = run.has_some && !is_told;
                let run = Run { has_some, ..*run };
                self.walk.steps.push(Step::Field(Field { run, places, behind }));
                return next;
            }
            if let Some((sets, end)) = self.fixed(body) {
                let (places, behind, next) = self.around(begin, body, end);
                let bytes = Template::new(&self.walk.sets, sets);
                self.walk.steps.push(Step::Fixed(Fixed { bytes, places, behind }));
                return next;
            }
        }
        let step = match &self.parts[begin] {
            Part::Literal(bytes) => Word::new(bytes).map_or_else(|| Step::Bytes(bytes.clone()), Step::Word),
            Part::Run(run, most) => Step::Counted(*run, *most),
            Part::Note(end) => Step::Note(*end),
            Part::Unless(set, elsewhere) => Step::Unless(*set, *elsewhere),
            Part::Jump(elsewhere) => Step::Jump(*elsewhere),
            Part::End => Step::End,
        };
        self.walk.steps.push(step);
        begin + 1
    }

    /// The first part from `at` on that does not note the end of a group which is noted there alone, or to which another leads.
    fn notes(&self, at: usize, is_first: bool) -> usize {
        let is_one = |(place, part): (usize, &Part)| {
            let is_led_to = self.led_to[at + place] && !(is_first && place == 0);
            matches!(part, Part::Note(end) if self.noted[*end] == 1 && !is_led_to)
        };
        at + self.parts[at..].iter().enumerate().take_while(|part| is_one(*part)).count()
    }

    /// Gives parts from `body` to `end` places of their own, for the groups that begin and end with them; with the bytes that are behind
    /// those, and the part behind these.
    fn around(&mut self, begin: usize, body: usize, end: usize) -> (usize, Word, usize) {
        let places = self.walk.places.len();
        self.walk.places.extend([NOWHERE; 2]);
        let mut next = self.notes(end, false);
        for (parts, place) in [(begin..body, places), (end..next, places + 1)] {
            for part in &self.parts[parts] {
                if let Part::Note(end) = part {
                    self.walk.groups[end / 2][end % 2] = place;
                }
            }
        }
        let mut bytes = Vec::new();
        let mut behind = Word::default();
        while let Some(Part::Literal(literal)) = self.parts.get(next)
            && !self.led_to[next]
        {
            bytes.extend_from_slice(literal);
            let Some(word) = Word::new(&bytes) else { break };
            (behind, next) = (word, next + 1);
        }
        (places, behind, next)
    }

    /// Sets of bytes that are one behind the other from a part on, if they are not all told; with the part behind them.
    fn fixed(&mut self, from: usize) -> Option<(Vec<usize>, usize)> {
        let (mut end, mut len, mut has_set) = (from, 0, false);
        while end == from || !self.led_to[end] {
            let (more, is_set) = match self.parts.get(end) {
                Some(Part::Literal(bytes)) => (bytes.len(), false),
                Some(Part::Run(run, most)) if run.least == *most => (*most as usize, *most > 0),
                _ => break,
            };
            if more > Template::MOST - len {
                break;
            }
            (end, len, has_set) = (end + 1, len + more, has_set || is_set);
        }
        if !has_set {
            return None;
        }
        let mut sets = Vec::with_capacity(len);
        for part in &self.parts[from..end] {
            match part {
                Part::Literal(bytes) => {
                    sets.extend(bytes.iter().map(|byte| set(&mut self.walk.sets, only(*byte))));
                }
                Part::Run(run, most) => sets.extend(std::iter::repeat_n(run.set, *most as usize)),
                _ => {}
            }
        }
        Some((sets, end))
    }
}

fn only(byte: u8) -> [bool; 256] {
    let mut has = [false; 256];
    has[usize::from(byte)] = true;
    has
}
