//! A pmcd with an agent that has as many metrics as the definitions want. Each client sees the same values: those of its own first,
//! second, ... fetch.

use std::collections::HashMap;
use std::fmt::Write;
use std::process::ExitCode;

use jumpseat::client::{Context, global_registry};
use jumpseat::model::{Value, ValueType};
use jumpseat::pmda::{Agent, BuildError, ClientId, Core, Indom, Metric, Options, daemon};
use support::{AgentSpec, PmnsSource, PrivatePmcd};

use crate::clients;
use crate::peer::Peer;
use crate::workload::{expression, is_rate, operands};

/// The first argument of this program as an agent; how many metrics and instances are in its environment.
pub(crate) const AGENT: &str = "--derive-operands";
const METRICS: &str = "DERIVE_OPERANDS";
const INSTANCES: &str = "DERIVE_INSTANCES";
const DOMAIN: u16 = 245;
const FETCHES: usize = 10;

pub(crate) fn race(definitions: usize, instances: usize) {
    let metrics = operands(definitions);
    let pmcd = start(metrics, instances);
    let host = pmcd.inet();
    {
        let registry = global_registry();
        let mut registry = registry.write().expect("nobody has panicked");
        for n in 0..definitions {
            registry.register(&format!("d.n{n}"), &expression("many.n", n)).expect("is correct");
        }
    }
    let open = || Context::host(&host).expect("pmcd is running");
    let mut peer = Peer::start(&format!("host\t{host}"), (0..definitions).map(|n| expression("many.n", n)));
    let dir = tempfile::tempdir().expect("a directory");
    let ours = clients::sample(&mut open(), "d.n", definitions, FETCHES);
    ours.assert_same(&peer.values(FETCHES, dir.path()), is_rate);
    let what = format!("{definitions} definitions over {instances} instances, host");
    clients::race(&what, ours.len(), &open, (definitions, metrics, "many.n", FETCHES), &mut peer);
}

fn start(metrics: usize, instances: usize) -> PrivatePmcd {
    let me = std::env::current_exe().expect("this program");
    let user = support::user();
    let arguments = [me.to_str().expect("a path of Cargo's"), AGENT, "-U", &user];
    let agent = AgentSpec::pipe("many", DOMAIN.into(), &arguments).with_pmns(PmnsSource::new(
        "many",
        "MANY",
        pmns(metrics),
    ));
    let pmcd = PrivatePmcd::with([agent])
        .env(METRICS, &metrics.to_string())
        .env(INSTANCES, &instances.to_string())
        .start();
    pmcd.wait_ready("many");
    pmcd
}

fn pmns(metrics: usize) -> String {
    let names: String = (0..metrics).map(|n| format!("  n{n} MANY:0:{n}\n")).collect();
    format!("many {{\n{names}}}\n")
}

/// Which fetch of a client this is.
#[derive(Default)]
struct Clients(HashMap<ClientId, (u64, u64)>);

/// This program as the agent.
pub(crate) fn serve() -> ! {
    let arguments = std::env::args_os().skip(2);
    let options = Options::parse("pmdamany", DOMAIN, arguments).expect("as this file gives them");
    let ended = daemon::run_with("pmdamany", options, |_| Ok(agent()?));
    std::process::exit(i32::from(ended != ExitCode::SUCCESS));
}

fn agent() -> Result<Core<Clients>, BuildError> {
    let number = |name: &str| -> usize { std::env::var(name).expect("is set").parse().expect("a number") };
    let (metrics, instances) = (number(METRICS), number(INSTANCES));
    let mut help = String::new();
    for n in 0..metrics {
        writeln!(help, "@ many.n{n} Counts\nUp, with each fetch of a client.").expect("to memory");
    }
    help += "@ MANY.1 Things\nMany.\n";
    let names: Vec<String> = (0..instances).map(|n| format!("instance{n}")).collect();
    let things = Indom::fixed(1, (0..).zip(names.iter().map(String::as_str))).expect("they differ");
    let mut agent = Agent::new("many", DOMAIN, Clients::default())
        .pmns("pmns", &pmns(metrics))
        .help("help", &help)
        .indom(things)
        .on_client_end(|clients: &mut Clients, client| _ = clients.0.remove(&client));
    for n in 0..metrics {
        let metric = Metric::new(format!("many.n{n}"), ValueType::U64).counter().indom(1);
        agent = agent.metric(metric.set(move |clients: &mut Clients, call, values| {
            let (number, fetches) = clients.0.entry(call.client).or_default();
            if *number != call.fetch.number {
                (*number, *fetches) = (call.fetch.number, *fetches + 1);
            }
            for inst in 0..instances as i32 {
                let value = *fetches * (n as u64 + 1) * (1000 + 7 * inst as u64) + inst as u64;
                values.value(inst, &Value::U64(value))?;
            }
            Ok(())
        }));
    }
    agent.build()
}
