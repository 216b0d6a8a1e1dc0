//! `jumpseat derive explain`: how a definition is understood.

use crate::say::say;
use jumpseat_tools::complain;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pcp_derive::{DerivedContext, Registry, explain, report_binding, report_refusal};

use super::metadata::{MetadataArgs, load};

/// The name of an expression that has none.
const UNNAMED: &str = "it";

#[derive(Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    metadata: MetadataArgs,

    /// Files or directories of definitions, or several with colons between them [default: what
    /// $PCP_DERIVED_CONFIG names].
    #[arg(short, long, value_name = "FILE")]
    config: Vec<PathBuf>,

    /// The name of a definition, or an expression.
    #[arg(value_name = "NAME|EXPR")]
    what: String,
}

pub(super) fn run(args: &ExplainArgs) -> io::Result<ExitCode> {
    let Some(mut metadata) = args.metadata.open()? else {
        return Err(io::Error::other("--host, --agent or --metrics must say what the operands are"));
    };
    let mut registry = Registry::new(args.metadata.dialect());
    let mut problems = Vec::new();
    let named = std::env::var_os("PCP_DERIVED_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from);
    let default = if args.config.is_empty() { named } else { None };
    for file in args.config.iter().chain(&default) {
        load(&mut registry, file, &mut problems)?;
    }
    problems.iter().for_each(|problem| complain!("{}", problem.to_string().trim_end()));
    let defined = registry.find(&args.what).map(|definition| definition.pmid);
    let pmid = match defined.map_or_else(|| registry.register(UNNAMED, &args.what), Ok) {
        Ok(pmid) => pmid,
        Err(error) => {
            say(format_args!("{}", report_refusal(UNNAMED, &args.what, &error)));
            return Ok(ExitCode::FAILURE);
        }
    };
    let mut context = DerivedContext::new();
    let bound = context.attach(&registry, &mut metadata).binding(pmid);
    match bound {
        Ok(bound) => {
            say(format_args!("{}", explain(&bound)));
            Ok(ExitCode::SUCCESS)
        }
        Err(Some(error)) => {
            if let Some(definition) = registry.find_pmid(pmid) {
                say(format_args!("{}", report_binding(&definition.name, &definition.expression, &error)));
                if let Some(hint) = args.metadata.hint(&error, &mut metadata) {
                    say(format_args!("  help: {hint}\n"));
                }
            }
            Ok(ExitCode::FAILURE)
        }
        Err(None) => Err(io::Error::other(format!("{} is the name of a real metric, which wins", args.what))),
    }
}
