//! dbpmda, PCP's debugger for agents: it plays pmcd towards one agent, one command at a time.

use super::process::PcpEnv;
use std::path::PathBuf;

/// A dbpmda session to run: the commands in order.
#[derive(Debug)]
pub struct Dbpmda {
    env: PcpEnv,
    pmns: Option<PathBuf>,
    commands: Vec<String>,
}

impl Dbpmda {
    /// A session that opens an agent on pipes.
    pub fn pipe(env: &PcpEnv, argv: &[&str]) -> Dbpmda {
        Dbpmda::open(env, &format!("pipe {}", argv.join(" ")))
    }

    /// A session that opens an agent in any way: what follows the word `open`.
    pub fn open(env: &PcpEnv, how: &str) -> Dbpmda {
        Dbpmda { env: env.clone(), pmns: None, commands: vec![format!("open {how}")] }
    }

    /// Names of metrics are looked up in this name space (a file) rather than the default one.
    pub fn namespace(mut self, path: impl Into<PathBuf>) -> Dbpmda {
        self.pmns = Some(path.into());
        self
    }

    /// One more command.
    pub fn command(mut self, command: &str) -> Dbpmda {
        self.commands.push(command.to_owned());
        self
    }

    /// Runs the session to its end.
    #[track_caller]
    pub fn run(mut self) -> Transcript {
        self.commands.push("close".to_owned());
        self.commands.push("quit".to_owned());
        let mut args: Vec<PathBuf> = vec!["-e".into(), "-f".into()];
        if let Some(pmns) = &self.pmns {
            args.extend(["-n".into(), pmns.clone()]);
        }
        let input = self.commands.join("\n") + "\n";
        let output = self.env.run_with_input("dbpmda", args, input.as_bytes());
        let whole = format!("{output}");
        assert!(output.status.success(), "{whole}");
        // dbpmda reports an agent's refusals on either output; the order of both matters to nobody
        Transcript { sections: split(&self.commands, &output.stdout), stderr: output.stderr, whole }
    }
}

/// What dbpmda said to each command.
#[derive(Debug)]
pub struct Transcript {
    sections: Vec<(String, String)>,
    /// What it said on standard error, all commands together.
    pub stderr: String,
    /// Everything, for the message of a failing test.
    pub whole: String,
}

impl Transcript {
    /// The answer to the first such command.
    #[track_caller]
    pub fn answer(&self, command: &str) -> &str {
        let found = self.sections.iter().find(|(known, _)| known == command);
        &found.unwrap_or_else(|| panic!("dbpmda did not come to {command:?}:\n{}", self.whole)).1
    }

    /// All commands it came to, with their answers, in order.
    pub fn sections(&self) -> &[(String, String)] {
        &self.sections
    }
}

/// Cuts the output at the prompts, behind which dbpmda (with `-e`) repeats each command.
fn split(commands: &[String], stdout: &str) -> Vec<(String, String)> {
    let mut sections: Vec<(String, String)> = Vec::new();
    let mut expected = commands.iter();
    let mut next = expected.next();
    for line in stdout.lines() {
        let shown = line.strip_prefix("dbpmda> ").unwrap_or(line);
        if next.is_some_and(|command| shown == command) {
            sections.push((shown.to_owned(), String::new()));
            next = expected.next();
        } else if let Some((_, answer)) = sections.last_mut() {
            answer.push_str(line);
            answer.push('\n');
        }
    }
    sections
}
