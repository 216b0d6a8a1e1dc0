//! One table of what all benches have said: `benches/run` runs them, with `JUMPSEAT_BENCH_ROWS` naming a file that each adds its rows to,
//! and this at the end. Says which goals were missed, and fails if any was. With `--headlines` only the rows that README shows, of
//! the same run, and how many of all goals were missed.

use std::fmt::Write;
use std::fs;
use std::process::{Command, ExitCode};

use serde_json::Value;

fn main() -> ExitCode {
    let Some(file) = std::env::var_os("JUMPSEAT_BENCH_ROWS") else {
        println!("table: benches/run runs this, behind all others");
        return ExitCode::SUCCESS;
    };
    let text = fs::read_to_string(file).unwrap_or_default();
    let rows: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a row of a bench")).collect();
    let missed: Vec<&str> =
        rows.iter().filter(|row| row["met"] == false).filter_map(|row| row["what"].as_str()).collect();
    if std::env::args().any(|argument| argument == "--headlines") {
        let headlines: Vec<&Value> = rows.iter().filter(|row| row["headline"] == true).collect();
        let goals = rows.iter().filter(|row| !row["met"].is_null()).count();
        print!("{}\n\n{}", conditions(), table(&headlines));
        println!("\n{} of all {goals} goals were met.", goals - missed.len());
        return ExitCode::SUCCESS;
    }
    print!("{}\n\n{}", conditions(), table(&rows.iter().collect::<Vec<_>>()));
    match (rows.is_empty(), missed.is_empty()) {
        (true, _) => println!("No bench has said anything."),
        (false, true) => println!("\nAll goals were met."),
        (false, false) => println!("\n{} goals were missed: {}.", missed.len(), missed.join("; ")),
    }
    if missed.is_empty() && !rows.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The rows as Markdown.
fn table(rows: &[&Value]) -> String {
    let mut table = String::from(
        "| what | jumpseat | in the same run | ratio | goal | noise |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for row in rows {
        let cell = |key: &str| row[key].as_str().unwrap_or_default();
        let verdict = match row["met"].as_bool() {
            Some(true) => ", met",
            Some(false) => ", **missed**",
            None => "",
        };
        let note = row["note"].as_str().map(|note| format!(" ({note})")).unwrap_or_default();
        let (what, ours, peer) = (cell("what"), cell("ours"), cell("peer"));
        let (ratio, goal, noise) = (cell("ratio"), cell("goal"), cell("noise"));
        writeln!(table, "| {what}{note} | {ours} | {peer} | {ratio} | {goal}{verdict} | {noise} |")
            .expect("to memory");
    }
    table
}

/// When, of what, and on which machine.
fn conditions() -> String {
    let run = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).output().ok().filter(|output| output.status.success());
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
    };
    let short = if std::env::args().any(|argument| argument == "--quick") { ", short rounds" } else { "" };
    let changed = if run("git", &["status", "--porcelain"]).is_empty() { "" } else { ", changed since" };
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let count = std::thread::available_parallelism().map_or(1, |count| count.get());
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<u64>().ok());
    format!(
        "{}, commit {}{changed}{short}, the profile that packages have; {count} processors ({}), {} GiB, Linux {}, {}.",
        run("date", &["-u", "+%F"]),
        run("git", &["rev-parse", "--short", "HEAD"]),
        model.map_or("unknown", |(_, model)| model),
        kib.unwrap_or(0) >> 20,
        run("uname", &["-r"]),
        pcp_version().unwrap_or_else(|| "no PCP".to_owned()),
    )
}

/// That of the tools, which tell it on standard error.
fn pcp_version() -> Option<String> {
    let said = Command::new("pminfo").arg("--version").output().ok()?.stderr;
    Some(String::from_utf8_lossy(&said).trim().replace("pminfo version", "PCP"))
}
