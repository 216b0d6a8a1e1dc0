//! The source of metrics that a command line asks for.

use std::process::ExitCode;
use std::sync::Arc;

use pcp_client::{
    ArchiveProvider, ClientError, Context, EnvWarning, HostOptions, HostSpecError, IgnoredMarks, LocalAgents,
    LocalFault, NameSpace, global_registry, without_password,
};
use pcp_model::time::{TimeError, parse_interval};
use pcp_model::{Level, PmError};

use super::call::Call;
use super::command_line::Ready;
use super::common::Common;
use super::folio;
use super::messages::notification;

const IGNORE_MARKS: &str = "PCP_IGNORE_MARK_RECORDS";
/// The collector of this host.
const LOCAL_COLLECTOR: &str = "local:";

/// A context on what the command line asks for, by default this host's collector, with the definitions of derived
/// metrics.
///
/// # Errors
/// The exit code, after a message.
pub(crate) fn open(ready: &mut Ready) -> Result<Context, ExitCode> {
    let (call, common) = (&ready.call, &ready.common);
    let failed = |what: String| {
        complain!("{}: {what}", call.name);
        ExitCode::FAILURE
    };
    if common.local {
        let context = local(call, common);
        ready.definitions.load_defaults(call);
        return Ok(context);
    }
    // Definitions are loaded once the source is there: a source that is not there is all that is said then.
    if !common.archives.is_empty() {
        let archives = common.archives.join(",");
        let context = archive_at(&archives, call.level).map_err(|error| {
            let code = failed(format!("Cannot open archive \"{archives}\": {}", error.code().at(call.level)));
            if let (ClientError::Archive(error), false) = (&error, call.pcp) {
                complain!("{error}");
                hint_folio(&archives);
            }
            code
        })?;
        if let Err(error) = ignored_marks() {
            let what = format!("Warning: bad ${IGNORE_MARKS}: not in pmParseInterval(3) format:");
            complain!("{}: {what}\n{error}", call.name);
        }
        let mut context = context;
        tell_mended(call, &mut context);
        ready.definitions.load_defaults(call);
        return Ok(match &common.names {
            Some(names) => context.with_names(names.clone()),
            None => context,
        });
    }
    let host = common.host.as_deref().unwrap_or(LOCAL_COLLECTOR);
    let (context, warnings) = connect(host, common.container.clone()).map_err(|error| {
        if let ClientError::Spec(HostSpecError::Syntax { .. }) = &error {
            complain!("pmNewContext: bad host specification\n{}", error.to_string().trim_end());
        }
        let (shown, why) = (without_password(host), error.code().at(call.level));
        let code = failed(format!("Cannot connect to PMCD on host \"{shown}\": {why}"));
        // The code does not tell what has to be changed about a certificate.
        if error.code() == PmError::TLS || matches!(error, ClientError::Unsupported(_)) {
            eprintln!("{}: {error}", call.name);
        }
        code
    })?;
    for warning in warnings {
        complain!("{}", notification(&call.name, &format!("Warning: {warning}")));
    }
    ready.definitions.load_defaults(call);
    Ok(match &common.names {
        Some(names) => context.with_names(names.clone()),
        None => context,
    })
}

/// Tells once what of damaged archives is done without. PCP's tools do not, nor do these by their names.
pub(super) fn tell_mended(call: &Call, context: &mut Context) {
    for mended in context.take_mended() {
        if !call.pcp {
            complain!("{}: Warning: {mended}", call.name);
        }
    }
}

/// Tells what to name in place of a folio, which PCP's tools do not take for an archive either.
fn hint_folio(name: &str) {
    if let Ok(archives) = folio::archives(name) {
        let archives = archives.join(",");
        complain!("{name} is a folio: name its archives, -a {archives}, or set PCP_FOLIO={name}");
    }
}

/// The agents that the tool may start, before specifications. By PCP's names they are those that PCP has in local contexts.
pub(super) fn local_agents(call: &Call) -> LocalAgents {
    let agents = LocalAgents::installed();
    if call.pcp { agents.of_libpcp() } else { agents }
}

/// A context on agents that the tool starts by itself.
fn local(call: &Call, common: &Common) -> Context {
    let agents = common.local_agents.clone().unwrap_or_else(|| local_agents(call));
    let names = common.names.clone().or_else(|| match NameSpace::installed() {
        Ok(names) => Some(Arc::new(names)),
        Err(error) => {
            complain!("{}", error.report().trim_end());
            None
        }
    });
    let name = call.name.clone();
    let tell = move |fault: &LocalFault| complain!("{name}: {fault}");
    Context::local_agents(agents, names, Box::new(tell))
}

/// A context on archives, with the readings between two records that the newest release makes up.
pub fn archive(names: &str) -> Result<Context, ClientError> {
    archive_at(names, Level::default())
}

/// A context on archives, with the readings between two records that a release makes up, unless the environment wants those of
/// the releases before 6.3 (`prior`), or since then (`nearest`).
fn archive_at(names: &str, level: Level) -> Result<Context, ClientError> {
    let prior = match std::env::var("JUMPSEAT_INTERPOLATION").as_deref() {
        Ok("prior") => true,
        Ok("nearest") => false,
        _ => level < Level::V638,
    };
    let ignored = ignored_marks().unwrap_or_default();
    let provider = ArchiveProvider::open(names)?.nearest(!prior).ignoring(ignored);
    Ok(Context::new(Box::new(provider), global_registry()))
}

/// Which marks in archives are no gaps, as the environment says (`PCPIntro(1)`).
///
/// # Errors
/// Why that is no interval.
fn ignored_marks() -> Result<IgnoredMarks, TimeError> {
    match std::env::var(IGNORE_MARKS) {
        Err(_) => Ok(IgnoredMarks::None),
        Ok(all) if all.is_empty() => Ok(IgnoredMarks::All),
        Ok(interval) => parse_interval(&interval).map(IgnoredMarks::UpTo),
    }
}

/// A context, and what of the environment was ignored.
fn connect(host: &str, container: Option<String>) -> Result<(Context, Vec<EnvWarning>), ClientError> {
    let (mut options, warnings) = HostOptions::from_env();
    if container.is_some() {
        options.container = container;
    }
    Ok((Context::host_with(&host.parse()?, &options)?, warnings))
}
