//! An agent for the tests with a bit of everything, served from within the test.

pub(crate) mod wire;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use pcp_model::{Desc, InDom, Inst, PM_IN_NULL, PmError, Pmid, Semantics, Units, Value, ValueType};
use pcp_pmda::{
    Agent, Call, ClientId, Core, Exit, Handle, Indom, Instances, LabelList, LabelSubject, Limits, Listen,
    Metric, PmcdOptions, Security, ServeError, Server, SetWriter, Subtree, TextLevel, Transport,
};

pub(crate) const DOMAIN: u16 = 460;

pub(crate) const PMNS: &str = "
probe {
    count   PROBE:0:0
    param   PROBE:0:1
    fails   PROBE:0:2
    absent  PROBE:0:3
    clients PROBE:0:4
    events  PROBE:0:5
    uid     PROBE:0:6
    gone    PROBE:0:7
    set
    dyn     PROBE:*:*
}
probe.set {
    size    PROBE:1:0
    name    PROBE:1:1
    half    PROBE:1:2
}
";

pub(crate) const HELP: &str = "\
@ probe.count Counts fetches
Long text.
@ probe.param Parameter of events
Has no values.
@ probe.fails Always fails
With PM_ERR_AGAIN.
@ probe.absent Never there
No value, no error.
@ probe.clients Contexts that have ended
Counted by the end-of-context callback.
@ probe.events Packed events
One array with one record.
@ probe.uid User id of the client
As told by pmcd or the kernel.
@ probe.gone Asks for what would drop an agent
An error of PM_ERR_IPC, which must not be sent as it is.
@ probe.set.size Size of each thing
Storable.
@ probe.set.name Name of each thing
Text.
@ probe.set.half Only every other thing
Others have errors.
@ PROBE.3 Things
That can be added by storing to probe.dyn.add.
";

#[derive(Default)]
pub(crate) struct State {
    pub count: u64,
    pub ended: u32,
    pub things: Option<Instances>,
    pub sizes: BTreeMap<Inst, u32>,
    /// Dynamic metrics: name and value.
    pub dynamic: Vec<(String, u32)>,
    pub generation: u64,
    pub label_generation: u64,
    pub ready: bool,
    pub seen: Vec<ClientId>,
}

impl State {
    fn things(&self) -> &Instances {
        self.things.as_ref().expect("set when the agent is made")
    }
}

pub(crate) struct Dynamic;

impl Subtree<State> for Dynamic {
    fn generation(&self, state: &State) -> u64 {
        state.generation
    }

    fn names(&self, state: &State, name: &mut dyn FnMut(&str, Pmid)) {
        name("add", Pmid::new(0, 8, 1023));
        for (index, (text, _)) in state.dynamic.iter().enumerate() {
            name(text, Pmid::new(0, 8, index as u16));
        }
    }

    fn desc(&self, _: &State, pmid: Pmid) -> Option<Desc> {
        let (value_type, semantics) = match pmid.item() {
            1023 => (ValueType::String, Semantics::Discrete),
            _ => (ValueType::U32, Semantics::Instant),
        };
        Some(Desc { pmid, value_type, indom: InDom::NULL, semantics, units: Units::NONE })
    }

    fn fetch(&self, state: &mut State, call: &Call<'_>, values: &mut SetWriter<'_>) -> Result<(), PmError> {
        match call.pmid.item() {
            1023 => values.string(PM_IN_NULL, b"store a name here"),
            item => {
                let (_, value) = state.dynamic.get(usize::from(item)).ok_or(PmError::PMID)?;
                values.value(PM_IN_NULL, &Value::U32(*value))
            }
        }
    }

    fn store(&self, state: &mut State, call: &Call<'_>, _: Inst, value: &Value) -> Result<(), PmError> {
        match (call.pmid.item(), value) {
            (1023, Value::String(name)) => {
                let name = String::from_utf8_lossy(name).into_owned();
                state.dynamic.push((name, 7));
                state.generation += 1;
                state.label_generation += 1;
                Ok(())
            }
            _ => Err(PmError::PERMISSION),
        }
    }

    fn text(&self, _: &State, pmid: Pmid, kind: TextLevel) -> Option<String> {
        match kind {
            TextLevel::OneLine => Some(format!("dynamic metric {}", pmid.item())),
            TextLevel::Help => None,
        }
    }

    fn labels(&self, _: &State, pmid: Pmid, labels: &mut LabelList) -> Result<(), PmError> {
        Ok(labels.add("dynamic", u32::from(pmid.item()))?)
    }
}

/// An array of one EVENT record with one U32 parameter, by hand.
fn one_event(out: &mut Vec<u8>) -> bool {
    let param = Pmid::new(DOMAIN, 0, 1).0;
    let words: [u32; 9] = [9 << 24 | 36, 1, 1_700_000_000, 5, 1, 1, param, 1 << 24 | 8, 42];
    words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
    true
}

pub(crate) fn agent(ids: Option<&Path>) -> Core<State> {
    let indom = InDom::new(DOMAIN, 3);
    let mut things = match ids {
        Some(dir) => Instances::persistent(dir, indom).unwrap(),
        None => Instances::in_memory(),
    };
    for name in ["red one", "green two", "blue three"] {
        things.add(name).unwrap();
    }
    let state = State { things: Some(things), sizes: BTreeMap::from([(0, 10), (1, 20)]), ..State::default() };
    Agent::new("probe", DOMAIN, state)
        .pmns("pmns", PMNS)
        .help("help", HELP)
        .indom(Indom::of(3, State::things))
        .subtree("probe.dyn", Dynamic)
        .metric(Metric::new("probe.count", ValueType::U64).counter().units(Units::COUNT).value(
            |state: &mut State| {
                state.count += 1;
                state.count
            },
        ))
        .metric(Metric::new("probe.param", ValueType::U32))
        .metric(Metric::new("probe.fails", ValueType::I32).each(|_, _, _| Err(PmError::AGAIN)))
        .metric(Metric::new("probe.absent", ValueType::I32).each(|_, _, _| Ok(None)))
        .metric(Metric::new("probe.clients", ValueType::U32).value(|state: &mut State| state.ended))
        .metric(
            Metric::new("probe.events", ValueType::Event)
                .set(|_, _, values| values.events(PM_IN_NULL, one_event).map(|_| ())),
        )
        .metric(
            Metric::new("probe.uid", ValueType::U32)
                .each(|_, call, _| Ok(call.attributes.uid.map(Value::U32))),
        )
        .metric(Metric::new("probe.gone", ValueType::U32).each(|_, _, _| Err(PmError::IPC)))
        .metric(
            Metric::new("probe.set.size", ValueType::U32)
                .indom(3)
                .each(|state: &mut State, _, inst| Ok(state.sizes.get(&inst).map(|size| (*size).into())))
                .store(|state, call, inst, value| {
                    let Value::U32(size) = value else { return Err(PmError::CONV) };
                    state.sizes.insert(inst, *size);
                    state.seen.push(call.client);
                    Ok(())
                }),
        )
        .metric(Metric::new("probe.set.name", ValueType::String).discrete().indom(3).set(
            |state: &mut State, _, values| {
                for (inst, name) in state.things().iter() {
                    if values.wants(inst) {
                        values.string(inst, name.as_bytes())?;
                    }
                }
                Ok(())
            },
        ))
        .metric(
            Metric::new("probe.set.half", ValueType::Double)
                .indom(3)
                .each(|_, _, inst| if inst % 2 == 0 { Ok(Some(0.5.into())) } else { Err(PmError::VALUE) }),
        )
        .labels(|state: &State, target, labels| {
            match target {
                LabelSubject::Domain => labels.add("agent", "probe \"quoted\"")?,
                LabelSubject::InDom(_) => labels.add("kind", "things")?,
                LabelSubject::Cluster(cluster) => labels.add("cluster", u32::from(cluster))?,
                LabelSubject::Item(pmid) if pmid.cluster() == 1 => labels.add_optional("storable", true)?,
                LabelSubject::Item(_) => {}
                LabelSubject::Instance(_, inst) => {
                    labels.add("thing", state.things().name(inst).unwrap_or("?"))?
                }
            }
            Ok(())
        })
        .label_generation(|state| state.label_generation)
        .on_client_end(|state, _| state.ended += 1)
        .build()
        .unwrap()
}

/// A server in a thread of its own, ended when dropped.
pub(crate) struct Running {
    pub handle: Handle,
    pub address: Option<String>,
    thread: Option<JoinHandle<Result<Exit, ServeError>>>,
}

/// How to serve the agent.
#[derive(Clone, Default)]
pub(crate) struct Serving {
    pub direct: Option<Listen>,
    pub pmcd: Option<(Transport, PmcdOptions, bool)>,
    pub limits: Option<Limits>,
    pub security: Security,
    pub ids: Option<std::path::PathBuf>,
    /// How long the agent is not ready.
    pub not_ready: Option<Duration>,
}

impl Serving {
    pub(crate) fn tcp() -> Serving {
        Serving { direct: Some(Listen::Tcp(([127, 0, 0, 1], 0).into())), ..Serving::default() }
    }

    pub(crate) fn start(self) -> Running {
        let (send, receive) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut server = Server::new(agent(self.ids.as_deref()))?;
            if let Some(limits) = self.limits {
                server.set_limits(limits);
            }
            server.secure(self.security)?;
            if let Some(wait) = self.not_ready {
                server.ready_when(|state| state.ready);
                server.every(wait, |state| state.ready = true);
            }
            let address = self.direct.as_ref().map(|listen| server.listen(listen)).transpose()?;
            if let Some((transport, options, stay)) = &self.pmcd {
                server.serve_pmcd(transport, *options, *stay)?;
            }
            send.send((server.handle(), address.map(|address| address.to_string()))).unwrap();
            server.run()
        });
        match receive.recv() {
            Ok((handle, address)) => Running { handle, address, thread: Some(thread) },
            Err(_) => panic!("the server does not start: {:?}", thread.join()),
        }
    }
}

impl Running {
    pub(crate) fn host(&self) -> &str {
        self.address.as_deref().expect("serves direct clients")
    }

    /// Waits for the server to end by itself.
    pub(crate) fn join(mut self) -> Result<Exit, ServeError> {
        self.thread.take().expect("joined once").join().expect("the server does not panic")
    }

    pub(crate) fn stop(mut self) -> Exit {
        self.handle.stop();
        self.thread.take().expect("joined once").join().expect("the server does not panic").unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.handle.stop();
            let _ = thread.join();
        }
    }
}
