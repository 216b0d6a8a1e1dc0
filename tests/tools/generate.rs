//! `jumpseat generate`: what packages take from the program.

use std::process::Command;

fn jumpseat(arguments: &[&str]) -> String {
    let output =
        Command::new(env!("CARGO_BIN_EXE_jumpseat")).args(arguments).output().expect("jumpseat runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn every_subcommand_has_a_manual_page() {
    let pages = jumpseat(&["generate", "man"]);
    // Subcommands as `--help` shows them: a name at the same depth each.
    let help = jumpseat(&["--help"]);
    let shown: Vec<&str> = help
        .lines()
        .filter(|line| line.starts_with("  ") && line.as_bytes().get(2).is_some_and(u8::is_ascii_lowercase))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(shown.contains(&"serve") && shown.contains(&"val"), "{help}");
    for name in shown {
        assert!(pages.lines().any(|page| page == format!("jumpseat-{name}")), "{name} is not in\n{pages}");
    }
    assert!(pages.lines().any(|page| page == "jumpseat-derive-check"), "{pages}");
    assert!(!pages.contains("generate"), "{pages}");
}

#[test]
fn a_page_has_the_options() {
    let serve = jumpseat(&["generate", "man", "jumpseat-serve"]);
    assert!(serve.contains(".SH NAME") && serve.contains("state\\-dir"), "{serve}");
    let val = jumpseat(&["generate", "man", "jumpseat-val"]);
    assert!(val.contains("\\-\\-interval") && val.contains("sampling interval"), "{val}");
}

#[test]
fn shells_complete_subcommands_and_options() {
    for (shell, said) in [("bash", "--state-dir"), ("zsh", "self-check"), ("fish", "state-dir")] {
        let text = jumpseat(&["generate", "completions", shell]);
        assert!(text.contains(said), "{shell}");
    }
}
