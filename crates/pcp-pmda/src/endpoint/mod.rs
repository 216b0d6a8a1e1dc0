//! What a direct endpoint adds to the agent it serves: the metrics of a collector (`pmcd.*`, domain 2) that
//! stock clients ask for, and the labels of every context.
//!
//! It is an agent like any other, made with the framework. What pminfo, pmval, pmprobe and pmlogger need of
//! it was found by trying: the name, time zone and zone file of the host, the process id and sequence number,
//! and a storable `pmcd.client.whoami`.

mod host;

pub use host::HostInfo;

use std::collections::BTreeMap;

use crate::builder::{Agent, BuildError};
use crate::call::{Attributes, Call, ClientId};
use crate::core::Core;
use crate::indom::{Indom, Instances};
use crate::labels::{LabelError, LabelList, json_string};
use crate::metric::Metric;
use pcp_model::{Inst, LabelKind, LabelSet, PM_IN_NULL, PmError, Timestamp, Value, ValueType};

/// The domain of a collector's own metrics.
pub(super) const DOMAIN: u16 = 2;
const LOGGERS: u32 = 1;
const AGENTS: u32 = 3;
const CLIENTS: u32 = 6;
/// Longest text a client may give itself.
const MAX_WHOAMI: usize = 1024;

/// What is the same for all clients of a direct endpoint.
pub struct Endpoint {
    pub(super) core: Core<State>,
    pub(super) clock: fn() -> Timestamp,
    /// Entries in the profiles of all clients.
    pub(super) profile_entries: usize,
}

/// The collector's state, as its metrics show it.
pub(super) struct State {
    host: HostInfo,
    /// Name and version of the agent that is served: it is all there is of a collector.
    build: String,
    version: String,
    agents: Instances,
    loggers: Instances,
    clients: BTreeMap<ClientId, ClientInfo>,
    instances: Instances,
    labels: String,
    /// What is on offer.
    encrypts: bool,
    authenticates: bool,
}

struct ClientInfo {
    whoami: String,
    start: String,
    container: String,
}

impl Endpoint {
    /// The endpoint for `agent` on this host.
    ///
    /// # Errors
    /// An agent with the domain of the collector's own metrics, 2.
    pub fn new<S>(agent: &Core<S>, host: HostInfo) -> Result<Endpoint, BuildError> {
        if agent.domain() == DOMAIN {
            return Err(BuildError::Domain(DOMAIN));
        }
        let mut agents = Instances::in_memory();
        for (domain, name) in [(DOMAIN, "pmcd"), (agent.domain(), agent.name())] {
            // The numbers differ; an agent that is called "pmcd" too is just not listed twice.
            let _ = agents.add_as(i32::from(domain), name);
        }
        let text = |(name, value): &(&str, &str)| format!("{}:{}", json_string(name), json_string(value));
        let labels: Vec<String> = host.labels().iter().map(text).collect();
        let state = State {
            labels: format!("{{{}}}", labels.join(",")),
            host,
            build: agent.name().to_owned(),
            version: agent.version().to_owned(),
            agents,
            loggers: Instances::in_memory(),
            clients: BTreeMap::new(),
            instances: Instances::in_memory(),
            encrypts: false,
            authenticates: false,
        };
        let core = Agent::new("pmcd", DOMAIN, state)
            .pmns("pmns of the endpoint", include_str!("pmns"))
            .help("help of the endpoint", include_str!("help"))
            .indom(Indom::of(LOGGERS, |state: &State| &state.loggers))
            .indom(Indom::of(AGENTS, |state: &State| &state.agents))
            .indom(Indom::of(CLIENTS, |state: &State| &state.instances))
            .metrics(metrics())
            .on_client_end(State::client_end)
            .build()?;
        let clock = || Timestamp::from(std::time::SystemTime::now());
        Ok(Endpoint { core, clock, profile_entries: 0 })
    }

    /// There is another address to connect to: only local clients can come if all of them are local.
    pub(super) fn restrict(&mut self, local: bool) {
        self.core.state.host.local &= local;
    }

    /// Clients can encrypt their connections, and log in.
    pub(super) fn offers(&mut self, tls: bool, passwords: bool) {
        (self.core.state.encrypts, self.core.state.authenticates) = (tls, passwords);
    }

    /// A client has connected from `address`.
    pub(super) fn client_open(&mut self, address: &str, start: &str) -> ClientId {
        let client = self.core.client_open();
        let info =
            ClientInfo { whoami: address.to_owned(), start: start.to_owned(), container: String::new() };
        self.core.state.clients.insert(client, info);
        // Names are the decimal form of their ids, so they never clash.
        let _ = self.core.state.instances.add_as(client.slot as Inst, &client.slot.to_string());
        client
    }

    /// A client has asked for a container.
    pub(super) fn set_container(&mut self, client: ClientId, container: &str) {
        if let Some(info) = self.core.state.clients.get_mut(&client) {
            container.clone_into(&mut info.container);
        }
    }

    /// The labels of a client's context.
    pub(super) fn context_labels(&self, attributes: &Attributes) -> LabelSet {
        let mut list = LabelList::new(LabelKind::Context);
        let mut add = || -> Result<(), LabelError> {
            for (name, value) in self.core.state.host.labels() {
                list.add(name, value)?;
            }
            if let Some(container) = &attributes.container {
                list.add("container", container.as_str())?;
            }
            if let (Some(uid), Some(gid)) = (attributes.uid, attributes.gid) {
                list.add_optional("groupid", gid)?;
                list.add_optional("userid", uid)?;
            }
            Ok(())
        };
        // The names are legal and distinct; texts that do not fit leave out the labels after them.
        let _ = add();
        LabelSet { inst: PM_IN_NULL, labels: Ok(list.into_labels()) }
    }
}

impl State {
    fn client_end(&mut self, client: ClientId) {
        self.clients.remove(&client);
        self.instances.hide(client.slot as Inst);
    }

    fn client(&self, inst: Inst) -> Option<&ClientInfo> {
        self.clients.iter().find(|(client, _)| client.slot as Inst == inst).map(|(_, info)| info)
    }
}

fn metrics() -> Vec<Metric<State>> {
    use ValueType::{I32, String as Text, U32, U64};
    let text = |name: &str, value: fn(&State) -> String| {
        Metric::new(name, Text).discrete().value(move |state: &mut State| value(state))
    };
    let flag = |name: &str, value: fn(&State) -> bool| {
        Metric::new(name, U32).value(move |state: &mut State| u32::from(value(state)))
    };
    let number = |name: &str, value: u32| Metric::new(name, U32).discrete().value(move |_: &mut State| value);
    let of_client = |name: &str, value: fn(&ClientInfo) -> &str| {
        Metric::new(name, Text).discrete().indom(CLIENTS).each(move |state: &mut State, _, inst| {
            Ok(state.client(inst).map(|info| Value::from(value(info).to_owned())))
        })
    };
    let of_logger = |name: &str, value_type| Metric::new(name, value_type).discrete().indom(LOGGERS);
    let never = |_: &State| false;
    let always = |_: &State| true;
    vec![
        number("pmcd.numagents", 2),
        Metric::new("pmcd.numclients", U32).value(|state: &mut State| state.clients.len() as u32),
        text("pmcd.timezone", |state| state.host.timezone.clone()),
        text("pmcd.zoneinfo", |state| state.host.zoneinfo.clone()),
        text("pmcd.simabi", |_| std::env::consts::ARCH.to_owned()),
        text("pmcd.version", |state| state.version.clone()),
        text("pmcd.services", |_| "pmcd".to_owned()),
        text("pmcd.build", |state| state.build.clone()),
        text("pmcd.hostname", |state| state.host.hostname.clone()),
        Metric::new("pmcd.pid", U64).discrete().value(|_: &mut State| u64::from(std::process::id())),
        number("pmcd.seqnum", 1),
        text("pmcd.labels", |state| state.labels.clone()),
        number("pmcd.control.timeout", crate::BODY_SECONDS),
        of_logger("pmcd.pmlogger.port", U32),
        of_logger("pmcd.pmlogger.pmcd_host", Text),
        of_logger("pmcd.pmlogger.archive", Text),
        of_logger("pmcd.pmlogger.host", Text),
        Metric::new("pmcd.agent.type", U32).discrete().indom(AGENTS).each(|_, _, _| Ok(Some(0u32.into()))),
        Metric::new("pmcd.agent.status", I32).discrete().indom(AGENTS).each(|_, _, _| Ok(Some(0i32.into()))),
        Metric::new("pmcd.agent.name", Text).discrete().indom(AGENTS).each(|state: &mut State, _, inst| {
            Ok(state.agents.name(inst).map(|name| Value::from(name.to_owned())))
        }),
        of_client("pmcd.client.whoami", |info| &info.whoami).any_instance().store(whoami),
        of_client("pmcd.client.start_date", |info| &info.start),
        of_client("pmcd.client.container", |info| &info.container),
        flag("pmcd.feature.secure", |state| state.encrypts),
        flag("pmcd.feature.compress", never),
        flag("pmcd.feature.ipv6", always),
        flag("pmcd.feature.authentication", |state| state.authenticates),
        flag("pmcd.feature.creds_required", never),
        flag("pmcd.feature.unix_domain_sockets", always),
        flag("pmcd.feature.service_discovery", never),
        flag("pmcd.feature.containers", always),
        flag("pmcd.feature.local", |state| state.host.local),
        flag("pmcd.feature.client_cert_required", never),
    ]
}

/// A client tells who it is. Stock clients give no instance: they mean themselves.
fn whoami(state: &mut State, call: &Call<'_>, _: Inst, value: &Value) -> Result<(), PmError> {
    let Value::String(text) = value else { return Err(PmError::CONV) };
    if text.len() > MAX_WHOAMI {
        return Err(PmError::TOOBIG);
    }
    // Whatever instance it names: a client cannot speak for others.
    let info = state.clients.get_mut(&call.client).ok_or(PmError::INST)?;
    info.whoami = String::from_utf8_lossy(text).into_owned();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_instances_until_they_end() {
        let agent = Agent::new("x", 400, ()).build().unwrap();
        let mut endpoint = Endpoint::new(&agent, HostInfo::default()).unwrap();
        let first = endpoint.client_open("1.2.3.4", "now");
        let second = endpoint.client_open("5.6.7.8", "now");
        endpoint.core.client_close(first);
        assert_eq!(endpoint.core.state.instances.active(), [second.slot as Inst]);
        let third = endpoint.client_open("9.9.9.9", "now");
        assert_eq!(third.slot, first.slot);
        assert_eq!(endpoint.core.state.client(third.slot as Inst).unwrap().whoami, "9.9.9.9");
    }

    #[test]
    fn whoever_serves_is_what_the_collector_is() {
        let agent = Agent::new("x", 400, ()).version("1.2.3").build().unwrap();
        let mut endpoint = Endpoint::new(&agent, HostInfo::default()).unwrap();
        let mut text = |name: &str| {
            let (mut values, pmid) = (Vec::new(), endpoint.core.pmid(name).unwrap());
            endpoint.core.own_values(pmid, &mut values).unwrap();
            values.remove(0).value
        };
        assert_eq!(text("pmcd.build"), Value::from("x".to_owned()));
        assert_eq!(text("pmcd.version"), Value::from("1.2.3".to_owned()));
    }

    #[test]
    fn the_collectors_domain_is_taken() {
        let agent = Agent::new("x", DOMAIN, ()).build().unwrap();
        assert!(matches!(Endpoint::new(&agent, HostInfo::default()), Err(BuildError::Domain(2))));
    }
}
