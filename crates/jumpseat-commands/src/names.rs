//! `jumpseat names`: which names an agent has given numbers to, and places back from those that nobody uses.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::{Args, Subcommand};
use jumpseat_source::registry::{KnownName, known_names, retire};
use jumpseat_tools::complain;
use pcp_model::Timestamp;
use pcp_model::time::{Reference, Switches, Zone, parse_interval, parse_window};
use serde_json::json;

use crate::say::sayln;
use crate::serve::user_state_dir;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct NamesArgs {
    #[command(subcommand)]
    command: Option<NamesCommand>,
    #[command(flatten)]
    identifiers: Identifiers,
}

#[derive(Subcommand)]
enum NamesCommand {
    /// Take the names that nobody has used lately off the list. Their numbers are never given to others.
    Retire(RetireArgs),
}

#[derive(Args)]
struct RetireArgs {
    /// Last use before this: YYYY-MM-DD, an age such as 90d, or a time as PCP's -S takes it.
    #[arg(long, value_name = "DATE")]
    before: String,
    /// Only tell which.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    identifiers: Identifiers,
}

// Which identifiers, and the form in which what belongs to them is told.
#[derive(Args)]
pub(crate) struct Identifiers {
    /// Directory of the identifiers; that of `jumpseat serve` by default.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Number of the performance metrics domain.
    #[arg(short, long, default_value_t = jumpseat_agent::DEFAULT_DOMAIN, value_parser = clap::value_parser!(u16).range(1..=510))]
    pub(crate) domain: u16,
    /// One JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &NamesArgs) -> ExitCode {
    let done = match &args.command {
        None => list(&args.identifiers),
        Some(NamesCommand::Retire(args)) => take_back(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            complain!("jumpseat: {message}");
            ExitCode::FAILURE
        }
    }
}

fn list(identifiers: &Identifiers) -> Result<(), String> {
    let names =
        known_names(&identifiers.state_dir(), identifiers.domain).map_err(|error| error.to_string())?;
    names.iter().for_each(|known| identifiers.show(known));
    Ok(())
}

fn take_back(args: &RetireArgs) -> Result<(), String> {
    let identifiers = &args.identifiers;
    let before = instant(&args.before, SystemTime::now().into())?;
    let gone = retire(&identifiers.state_dir(), identifiers.domain, before, args.dry_run)
        .map_err(|error| error.to_string())?;
    gone.iter().for_each(|known| identifiers.show(known));
    if !identifiers.json {
        sayln!("{} names {}", gone.len(), if args.dry_run { "to retire" } else { "retired" });
    }
    Ok(())
}

impl Identifiers {
    pub(crate) fn state_dir(&self) -> PathBuf {
        self.state_dir.clone().unwrap_or_else(|| user_state_dir(false))
    }

    fn show(&self, KnownName { kind, id, name, used }: &KnownName) {
        if self.json {
            sayln!("{}", json!({"kind": kind, "id": id, "name": name, "used": used}));
        } else {
            sayln!("{kind:<10} {id:>6}  {}  {name:?}", day(*used));
        }
    }
}

/// The day of an instant here, as `YYYY-MM-DD`.
fn day(sec: u64) -> String {
    let civil = Zone::local().civil(i64::try_from(sec).unwrap_or(i64::MAX));
    format!("{:04}-{:02}-{:02}", civil.year, civil.month, civil.day)
}

/// What a date or an age means, in seconds since the epoch.
pub(crate) fn instant(text: &str, now: Timestamp) -> Result<u64, String> {
    let zone = Zone::local();
    if text.trim().is_empty() {
        return Err("--before: YYYY-MM-DD or an age such as 90d must follow".to_owned());
    }
    let sec = if let Some((year, month, day)) = date(text) {
        zone.seconds(year, month, day, 0).ok_or_else(|| format!("--before {text}: there is no such day"))?
    } else if let Ok(age) = parse_interval(text) {
        now.sec.saturating_sub(i64::try_from(age.as_secs()).unwrap_or(i64::MAX))
    } else {
        let reference = Reference { start: Timestamp::default(), ..Reference::live(now) };
        let switches = Switches { start: Some(text), ..Switches::default() };
        let window = parse_window(&switches, &reference, &zone);
        window.map_err(|error| format!("--before: YYYY-MM-DD, an age such as 90d, or\n{error}"))?.start.sec
    };
    // What is in use right now must not be taken for unused because of a mistake.
    match u64::try_from(sec) {
        Ok(sec) if sec <= now.sec.unsigned_abs() + DAY.as_secs() => Ok(sec),
        _ => Err(format!("--before {text}: allowed are times from 1970 to tomorrow")),
    }
}

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Year, month and day of `YYYY-MM-DD`.
fn date(text: &str) -> Option<(i64, u8, i64)> {
    let mut parts = text.split('-');
    let date = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    ((1..=12).contains(&date.1) && (1..=31).contains(&date.2) && parts.next().is_none()).then_some(date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_ages_and_what_pcp_takes() {
        let now = Timestamp { sec: 1_800_000_000, nsec: 0 };
        assert_eq!(instant("90d", now), Ok(1_800_000_000 - 90 * 24 * 3600));
        let day_of = |text: &str| instant(text, now).map(day);
        assert_eq!(day_of("2026-03-05"), Ok("2026-03-05".to_owned()));
        assert_eq!(day_of("@Mar 5 2026").map(|day| day[..4].to_owned()), Ok("2026".to_owned()));
        for wrong in ["2026-13-01", "soon", "2100-01-01", ""] {
            assert!(instant(wrong, now).is_err(), "{wrong}");
        }
    }
}
