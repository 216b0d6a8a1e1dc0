//! pmlogger writing an archive, and pmdumplog reading it back.

use super::pmcd::PrivatePmcd;
use super::process::{Output, PcpEnv, Process, temp_dir, user};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// A pmlogger that is recording.
#[derive(Debug)]
pub struct LoggerRun {
    process: Process,
    archive: Archive,
}

impl LoggerRun {
    /// Starts pmlogger on `host` (what `-h` takes), recording `metrics` every `interval`.
    #[track_caller]
    pub fn start(env: &PcpEnv, host: &str, metrics: &[&str], interval: Duration) -> LoggerRun {
        LoggerRun::with_options(env, host, metrics, interval, &[])
    }

    /// The same with more options of pmlogger.
    #[track_caller]
    pub fn with_options(
        env: &PcpEnv,
        host: &str,
        metrics: &[&str],
        interval: Duration,
        options: &[&str],
    ) -> LoggerRun {
        let dir = temp_dir();
        let mut env = env.clone();
        // pmlogger leaves control files here
        for (variable, sub) in [("PCP_RUN_DIR", "run"), ("PCP_TMP_DIR", "tmp"), ("PCP_LOG_DIR", "log")] {
            let path = dir.path().join(sub);
            fs::create_dir_all(path.join("pmlogger")).expect("the test's directory is writable");
            env.set(variable, path);
        }
        let config = dir.path().join("config");
        let list = metrics.iter().map(|metric| format!("    {metric}\n")).collect::<String>();
        let text = format!("log mandatory on every {} msec {{\n{list}}}\n", interval.as_millis());
        fs::write(&config, text).expect("the test's directory is writable");
        let archive = dir.path().join("archive");
        let mut command = env.command("pmlogger");
        command.args(["-U", &user(), "-h", host]).args(options).arg("-c").arg(&config);
        command.arg("-l").arg(dir.path().join("pmlogger.log")).arg(&archive).current_dir(dir.path());
        let process = Process::start(&mut command, dir.path(), "pmlogger");
        LoggerRun { process, archive: Archive { base: archive, env, dir } }
    }

    /// Recorder and its archive as it is so far.
    pub fn archive(&self) -> &Archive {
        &self.archive
    }

    /// Stops recording; the archive is complete then.
    #[track_caller]
    pub fn finish(mut self) -> Archive {
        assert!(
            self.process.exited().is_none(),
            "pmlogger ended by itself:\n{}{}",
            self.process.text(),
            self.log()
        );
        let status = self.process.stop();
        assert!(status.success(), "pmlogger: {status}\n{}{}", self.process.text(), self.log());
        self.archive
    }

    /// Kills it (SIGKILL); the archive is as it was left then.
    #[track_caller]
    pub fn kill(mut self) -> Archive {
        self.process.crash();
        self.archive
    }

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.process.exited().is_some()
    }

    /// pmlogger's own log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.archive.dir.path().join("pmlogger.log")).unwrap_or_default()
    }
}

impl PrivatePmcd {
    /// Records `metrics` from this pmcd every `interval`.
    #[track_caller]
    pub fn record(&self, metrics: &[&str], interval: Duration) -> LoggerRun {
        LoggerRun::start(self.env(), &self.inet(), metrics, interval)
    }
}

/// An archive in a directory of its own, removed when dropped.
#[derive(Debug)]
pub struct Archive {
    base: PathBuf,
    env: PcpEnv,
    dir: TempDir,
}

impl Archive {
    /// Base name, as `-a` takes it.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// pmdumplog with these options on this archive, showing these metrics only (all if none is named).
    #[track_caller]
    pub fn dump<'a>(
        &'a self,
        options: impl IntoIterator<Item = &'a str>,
        metrics: impl IntoIterator<Item = &'a str>,
    ) -> Output {
        let base = self.base.to_str().expect("temporary paths are ASCII");
        self.env.run("pmdumplog", options.into_iter().chain([base]).chain(metrics))
    }

    /// A PCP tool that takes `-a archive`.
    #[track_caller]
    pub fn run<A: AsRef<OsStr>>(&self, program: &str, args: impl IntoIterator<Item = A>) -> Output {
        let mut all = vec!["-a".into(), self.base.clone().into_os_string()];
        all.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self.env.run(program, all)
    }
}
