//! `jumpseat generate`: manual pages of the subcommands and completions for shells, for packages. To standard output, so that
//! who makes a package decides where they go.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Arg, ArgAction, Args, Command, Subcommand};
use clap_complete::Shell;
use clap_mangen::Man;
use jumpseat_tools::{Choice, Entry, TOOLS, complain};

#[derive(Args)]
pub(crate) struct GenerateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// A manual page by its name, such as jumpseat-serve; without a name, all names.
    Man { page: Option<String> },
    /// What completes command lines, to be read by the shell.
    Completions { shell: Shell },
}

pub(crate) fn run(args: &GenerateArgs, command: Command) -> ExitCode {
    let mut command = complete(command);
    match print(&args.what, &mut command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            complain!("jumpseat: {message}");
            ExitCode::FAILURE
        }
    }
}

fn print(what: &What, command: &mut Command) -> Result<(), String> {
    let mut text = Vec::new();
    match what {
        What::Completions { shell } => {
            clap_complete::generate(*shell, command, "jumpseat", &mut text);
        }
        What::Man { page } => {
            command.build();
            let pages = pages(command);
            match page {
                None => {
                    pages.iter().for_each(|(name, _)| text.extend_from_slice(format!("{name}\n").as_bytes()))
                }
                Some(wanted) => {
                    let (_, command) =
                        pages.into_iter().find(|(name, _)| name == wanted).ok_or_else(|| {
                            format!("no manual page {wanted:?}: `jumpseat generate man` lists all")
                        })?;
                    text = manual(command).map_err(|error| error.to_string())?;
                }
            }
        }
    }
    std::io::stdout().write_all(&text).map_err(|error| format!("standard output: {error}"))
}

/// The subcommands of all levels, by the names of their pages. `jumpseat.1` is written by hand.
fn pages(command: &Command) -> Vec<(String, Command)> {
    let mut found = Vec::new();
    for subcommand in command.get_subcommands() {
        if subcommand.is_hide_set() || subcommand.get_name() == "help" {
            continue;
        }
        let name = subcommand.get_display_name().unwrap_or(subcommand.get_name()).to_owned();
        found.push((name, subcommand.clone()));
        found.extend(pages(subcommand));
    }
    found
}

fn manual(command: Command) -> std::io::Result<Vec<u8>> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let has_subcommands = command.get_subcommands().any(|one| !one.is_hide_set());
    let has_extra = command.get_after_help().is_some();
    let page = Man::new(command)
        .title(name.to_uppercase())
        .source(concat!("jumpseat ", env!("CARGO_PKG_VERSION")))
        .manual("Performance Co-Pilot");
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if has_subcommands {
        page.render_subcommands_section(&mut text)?;
    }
    if has_extra {
        page.render_extra_section(&mut text)?;
    }
    text.extend_from_slice(b".SH SEE ALSO\n.BR jumpseat (1),\n.BR pmdajumpseat (1),\n.BR PCPIntro (1)\n");
    Ok(text)
}

/// The command with the tools in PCP's way, whose options clap does not read.
fn complete(command: Command) -> Command {
    command.after_help("").subcommands(TOOLS.iter().map(tool))
}

fn tool(entry: &Entry) -> Command {
    let after = format!(
        "In place of {}(1), also by that name as a symbolic link. jumpseat(1) has what is different.",
        entry.name
    );
    let operands = Arg::new("operands")
        .help(entry.operands)
        .action(ArgAction::Append)
        .value_name("OPERAND")
        .num_args(0..);
    Command::new(entry.subcommand)
        .about(entry.about)
        .after_help(after)
        .disable_help_flag(true)
        .disable_version_flag(true)
        .args(entry.choices().iter().map(argument))
        .arg(operands)
}

fn argument(choice: &Choice) -> Arg {
    let arg = Arg::new(choice.long).long(choice.long).help(choice.help).help_heading(choice.heading);
    let arg = match choice.short {
        Some(letter) => arg.short(letter),
        None => arg,
    };
    match choice.argument {
        "" => arg.action(ArgAction::SetTrue),
        name => arg.value_name(name),
    }
}
