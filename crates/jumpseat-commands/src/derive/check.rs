//! `jumpseat derive check`: everything that is wrong with definition files, at once.

use crate::say::{say, sayln};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pcp_derive::{DerivedContext, Registry, report_binding};

use super::metadata::{MetadataArgs, load};

#[derive(Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    metadata: MetadataArgs,

    /// Files or directories of definitions, in the syntax of pmLoadDerivedConfig(3).
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(super) fn run(args: &CheckArgs) -> io::Result<ExitCode> {
    let mut registry = Registry::new(args.metadata.dialect());
    let mut problems = Vec::new();
    let mut registered = 0;
    for file in &args.files {
        registered += load(&mut registry, file, &mut problems)?;
    }
    if let Some(mut metadata) = args.metadata.open()? {
        let mut errors = Vec::new();
        let mut context = DerivedContext::new();
        let mut context = context.attach(&registry, &mut metadata);
        for definition in registry.definitions() {
            if let Err(Some(error)) = context.binding(definition.pmid) {
                errors.push((report_binding(&definition.name, &definition.expression, &error), error));
            }
        }
        for (mut report, error) in errors {
            if let Some(hint) = args.metadata.hint(&error, &mut metadata) {
                report += &format!("  help: {hint}\n");
            }
            problems.push(report);
        }
    }
    for problem in &problems {
        say(format_args!("{problem}"));
    }
    sayln!("{registered} definitions, {} problems", problems.len());
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
