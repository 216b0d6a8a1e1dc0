//! A whole PMDA: a counter, an instance domain, a metric that can be stored, and their help.
//!
//! Under pmcd: a line `trivial 450 pipe binary /path/to/trivial -d 450` in pmcd.conf, and the names below in
//! the name space. Or try it alone: `dbpmda -n root`, then `open pipe /path/to/trivial -d 450`.

use std::process::ExitCode;
use std::time::Instant;

use pcp_model::{PmError, Units, Value, ValueType};
use pcp_pmda::{Agent, Indom, Metric, daemon};

const PMNS: &str = "
trivial {
    fetches     TRIVIAL:0:0
    uptime      TRIVIAL:0:1
    colour
}
trivial.colour {
    wavelength  TRIVIAL:1:0
    brightness  TRIVIAL:1:1
}
";

const HELP: &str = "\
@ trivial.fetches How often this metric was fetched
Counts from 1, over all clients.
@ trivial.uptime How long the agent runs
Seconds since it was started.
@ trivial.colour.wavelength Wavelength of light of each colour
The middle of the band that the eye takes for the colour.
@ trivial.colour.brightness Brightness of each colour
Can be stored: 0 to 100, at first 50.
@ TRIVIAL.0 Colours
The three that screens are made of.
";

const COLOURS: u32 = 0;
const WAVELENGTHS: [f64; 3] = [0.7, 0.53, 0.47];

struct State {
    started: Instant,
    fetches: u64,
    brightness: [u32; 3],
}

fn main() -> ExitCode {
    daemon::run("pmdatrivial", 450, |options| {
        let state = State { started: Instant::now(), fetches: 0, brightness: [50; 3] };
        let colours = Indom::fixed(COLOURS, [(0, "red"), (1, "green"), (2, "blue")]);
        let agent = Agent::new("trivial", options.domain, state)
            .pmns("pmns", PMNS)
            .help("help", HELP)
            .indom(colours.map_err(Box::from)?)
            .metric(Metric::new("trivial.fetches", ValueType::U64).counter().units(Units::COUNT).value(
                |state: &mut State| {
                    state.fetches += 1;
                    state.fetches
                },
            ))
            .metric(
                Metric::new("trivial.uptime", ValueType::Double)
                    .units(Units::SECOND)
                    .value(|state: &mut State| state.started.elapsed().as_secs_f64()),
            )
            .metric(
                Metric::new("trivial.colour.wavelength", ValueType::Double)
                    .discrete()
                    .indom(COLOURS)
                    .each(|_, _, inst| Ok(WAVELENGTHS.get(inst as usize).map(|length| (*length).into()))),
            )
            .metric(
                Metric::new("trivial.colour.brightness", ValueType::U32)
                    .indom(COLOURS)
                    .each(|state: &mut State, _, inst| {
                        Ok(state.brightness.get(inst as usize).map(|brightness| (*brightness).into()))
                    })
                    .store(|state, _, inst, value| match (value, state.brightness.get_mut(inst as usize)) {
                        (Value::U32(new @ 0..=100), Some(brightness)) => {
                            *brightness = *new;
                            Ok(())
                        }
                        _ => Err(PmError::CONV),
                    }),
            )
            .labels(|_, target, labels| {
                if target == pcp_pmda::LabelSubject::Domain {
                    labels.add("agent", "trivial")?;
                }
                Ok(())
            });
        Ok(agent.build()?)
    })
}
