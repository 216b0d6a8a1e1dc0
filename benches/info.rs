//! `jumpseat info -f` of a whole name space against PCP's `pminfo -f`, on the same pmcd: time by the clock, and
//! processor time of the tool.
//!
//! The name space is that of PCP's sample agent (twice), the Linux kernel, pmcd itself and jumpseat. Needs PCP
//! installed; `./test` does that.

mod common;
use common::clock::children_cpu;
use common::{Figure, Goal, Row, Times};

use std::process::Stdio;

#[allow(dead_code, reason = "tests use the rest")]
#[path = "../tests/seat/mod.rs"]
mod seat;

use seat::{Seat, Transport};
use support::{AgentSpec, PmnsSource, PrivatePmcd};

const ROUNDS: usize = 40;
/// At most 0.7 of the time PCP's tool takes.
const GOAL: f64 = 1.0 / 0.7;

fn main() {
    let builder = PrivatePmcd::with([AgentSpec::sample(), AgentSpec::sample_as("other", 30), linux()]);
    let seat = Seat::in_dir(builder.dir(), "");
    let agent = seat.agent(Transport::Pipe);
    let pmcd = builder.agent(agent).start();
    pmcd.wait_ready("jumpseat");
    let metrics = pmcd.run("pminfo", [""; 0]).ok().lines().count();
    let run = |program: &str, args: &[&str]| {
        let before = children_cpu();
        let wall = common::time(|| {
            let mut command = pmcd.env().command(program);
            let status = command.args(args).stdout(Stdio::null()).status();
            assert!(status.is_ok_and(|status| status.success()), "{program} fails");
        });
        (wall, children_cpu() - before)
    };
    let row = |what: String, tool: &Times, peer: &Times| {
        let each = |times: &Times| Figure::time(times, 1.0, 1e-3, "ms");
        Row::new(what, each(tool)).peer("pminfo", each(peer)).goal(Goal::Ratio(GOAL)).print();
    };
    let rounds = common::rounds(ROUNDS);
    for args in [["-f"], ["-d"], ["-dft"]] {
        let ours: Vec<&str> = ["info"].into_iter().chain(args).collect();
        let [tool, peer] =
            common::race(rounds, [&mut || run(seat::JUMPSEAT, &ours).0, &mut || run("pminfo", &args).0]);
        let what = format!("info {} of {metrics} metrics, by the clock", args[0]);
        row(what, &tool, &peer);
        let [tool, peer] =
            common::race(rounds, [&mut || run(seat::JUMPSEAT, &ours).1, &mut || run("pminfo", &args).1]);
        let what = format!("info {} of {metrics} metrics, processor time", args[0]);
        row(what, &tool, &peer);
    }
}

/// The agent for the kernel's metrics, inside pmcd, its names below `linux`.
fn linux() -> AgentSpec {
    let source = PmnsSource::read("linux", "LINUX", "/var/lib/pcp/pmns/root_linux");
    let text = source.text.lines().map(|line| match line.strip_suffix('{').map(str::trim_end) {
        Some("root") => "linux {\n".to_owned(),
        Some(name) if !name.starts_with([' ', '\t', '#']) => format!("linux.{name} {{\n"),
        _ => format!("{line}\n"),
    });
    let source = PmnsSource { text: text.collect(), ..source };
    AgentSpec::dso("linux", 60, "linux_init", "/var/lib/pcp/pmdas/linux/pmda_linux.so").with_pmns(source)
}
