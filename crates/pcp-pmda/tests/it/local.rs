//! Contexts on an agent in the same program.

use pcp_client::{Context, ContextKind, Fetched};
use pcp_model::{PmError, Value, ValueType};
use pcp_pmda::{Agent, Server};

use crate::agent_support::{Dynamic, State};

#[test]
fn a_context_within_the_program_sees_the_agent_and_ends_with_it() {
    // The agent's tables belong to its loop: only the handle leaves the thread.
    let (tell, told) = std::sync::mpsc::channel();
    let serving = std::thread::spawn(move || {
        let mut server = Server::new(crate::agent_support::agent(None)).expect("an event queue");
        tell.send(server.handle()).expect("the test waits for it");
        server.run().map_err(|error| error.to_string())
    });
    let handle = told.recv().expect("the server was made");
    let connect = || {
        let handle = handle.clone();
        move || handle.connect()
    };
    let mut context = Context::local(connect()).unwrap();
    let mut second = Context::local(connect()).unwrap();
    assert_eq!(context.kind(), ContextKind::Local);
    let count = context.pmid("probe.count").unwrap();
    let twice = context.add_derived("twice", "2 * probe.count").unwrap();
    let mut fetched = Fetched::new();
    context.fetch(&[count, twice], &mut fetched).unwrap();
    let value = |fetched: &Fetched, at: usize| {
        let set = fetched.set(at).unwrap().to_values(ValueType::U64).unwrap();
        set.values.unwrap().remove(0).value
    };
    assert_eq!(value(&fetched, 0), Value::U64(1));
    assert_eq!(value(&fetched, 1), Value::U64(2));
    second.fetch(&[count], &mut fetched).unwrap();
    assert_eq!(value(&fetched, 0), Value::U64(2));
    assert_eq!(context.text_of("probe.count"), "Counts fetches");
    context.reconnect().unwrap();
    assert!(!context.host_name().unwrap().is_empty());
    handle.stop();
    serving.join().unwrap().unwrap();
    let error = context.fetch(&[count], &mut fetched).unwrap_err();
    assert!(matches!(error.code(), PmError::IPC | PmError(-32) | PmError(-104)), "{error}");
    assert!(Context::local(connect()).is_err());
}

trait TextOf {
    fn text_of(&mut self, name: &str) -> String;
}

impl TextOf for Context {
    fn text_of(&mut self, name: &str) -> String {
        use pcp_client::{TextLevel, TextTarget};
        let pmid = self.pmid(name).unwrap();
        self.text(TextTarget::Metric(pmid), TextLevel::OneLine).unwrap()
    }
}

#[test]
fn an_agent_has_so_many_subtrees_and_no_more() {
    let agent = Agent::new("probe", 250, State::default());
    let agent = (0..=u16::MAX).fold(agent, |agent, n| agent.subtree(&format!("probe.s{n}"), Dynamic));
    let error = agent.build().err().expect("one too many").to_string();
    assert!(error.contains("more than 65535 subtrees"), "{error}");
}
