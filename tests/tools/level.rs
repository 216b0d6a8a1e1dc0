//! The release that the tools print as: what differs between 6.3.8 and 7.2.1, which none of the installed tools can be compared
//! about. What is expected is what those releases print.

use std::fs;
use std::path::PathBuf;

use crate::seat::JUMPSEAT;
use crate::tools_support::{LEVEL, Pair};
use jumpseat::archive::{ArchiveWriter, LabelInfo, WriteOptions};
use jumpseat::client::Fetched;
use jumpseat::model::{
    Desc, InDom, Instance, PM_IN_NULL, Pmid, Semantics, Timestamp, Units, UnitsVocabulary, Value, ValueType,
};
use support::{AgentSpec, Output, PcpEnv, PrivatePmcd, temp_dir};
use tempfile::TempDir;

const INDOM: InDom = InDom::new(245, 1);
/// From 2001-09-09 01:46:40 on.
const BEGIN: i64 = 1_000_000_000;

/// An archive of metrics in units of all kinds, of 30 seconds, and our tools under PCP's names.
struct Made {
    dir: TempDir,
    env: PcpEnv,
}

fn desc(item: u16, value_type: ValueType, semantics: Semantics, units: &str) -> Desc {
    let units = Units::parse(units, UnitsVocabulary::Extra).expect("units").0;
    Desc { pmid: Pmid::new(245, 0, item), value_type, indom: InDom::NULL, semantics, units }
}

impl Made {
    fn new() -> Made {
        let dir = temp_dir();
        let label = LabelInfo {
            host: "made.up".to_owned(),
            zone: "UTC".to_owned(),
            zone_info: String::new(),
            pid: 4321,
        };
        let base = dir.path().join("made");
        let mut archive = ArchiveWriter::create(&base, label, WriteOptions::default()).expect("new");
        let mut odd = desc(5, ValueType::U32, Semantics::Instant, "count");
        (odd.units.scale_space, odd.units.scale_time) = (1, 3);
        let mut foreign = desc(6, ValueType::I32, Semantics::Discrete, "");
        foreign.indom = InDom::new(246, 1);
        let mut several = desc(7, ValueType::U32, Semantics::Counter, "count");
        several.indom = INDOM;
        for (desc, name) in [
            (desc(1, ValueType::Float, Semantics::Instant, "temperature (C)"), "made.temp"),
            (desc(2, ValueType::Double, Semantics::Counter, "power (W)"), "made.energy"),
            (desc(3, ValueType::Float, Semantics::Instant, "temperature (F)"), "made.fahrenheit"),
            (desc(4, ValueType::U32, Semantics::Instant, ""), "made.none"),
            (odd, "made.odd"),
            (foreign, "made.foreign"),
            (several, "made.cnt"),
        ] {
            archive.desc(&desc, &[name]).expect("new");
        }
        let instance = |id, name: &str| Instance { id, name: name.to_owned() };
        let time = |at| Timestamp { sec: BEGIN + at, nsec: 0 };
        archive.indom(time(0), INDOM, &[instance(0, "a one"), instance(7, "b")]);
        for at in [0, 10, 20, 30] {
            let mut fetched = Fetched::new();
            fetched.timestamp = time(at);
            let singular = [
                (1, Value::Float(20.5)),
                (2, Value::Double(10.0 * at as f64)),
                (3, Value::Float(68.0)),
                (5, Value::U32(5)),
            ];
            for (item, value) in singular {
                fetched.begin_set(Pmid::new(245, 0, item));
                fetched.push_value(PM_IN_NULL, &value).expect("fits");
                fetched.end_set();
            }
            fetched.begin_set(Pmid::new(245, 0, 7));
            for inst in [0, 7] {
                fetched.push_value(inst, &Value::U32(10 + inst as u32 + at as u32)).expect("fits");
            }
            fetched.end_set();
            archive.result(&fetched).expect("written");
        }
        archive.flush().expect("written");
        for name in ["pminfo", "pmval", "pmprobe"] {
            std::os::unix::fs::symlink(JUMPSEAT, dir.path().join(name)).expect("a link");
        }
        let mut env = PcpEnv::new();
        env.set("PCP_DERIVED_CONFIG", "");
        Made { dir, env }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, text).expect("the test's directory is writable");
        path
    }

    /// Runs a tool by PCP's name at a level, with `@` for the archive.
    fn run(&self, level: &str, line: &str) -> Output {
        let mut env = self.env.clone();
        env.set(LEVEL, level);
        self.run_in(&env, line)
    }

    fn run_in(&self, env: &PcpEnv, line: &str) -> Output {
        let base = self.dir.path().join("made").display().to_string();
        let mut words = line.split(' ').map(|word| word.replace('@', &base));
        let tool = words.next().expect("a tool");
        let path = if tool == "jumpseat" { JUMPSEAT.into() } else { self.dir.path().join(tool) };
        env.run(path.to_str().expect("ASCII"), words)
    }
}

#[test]
fn the_level_is_chosen_by_option_or_environment_and_is_the_newest_else() {
    let made = Made::new();
    let units =
        |output: Output| output.ok().rsplit_once("Units: ").expect("a descriptor").1.trim().to_owned();
    assert_eq!(units(made.run_in(&made.env, "jumpseat info -a @ -d made.temp")), "temperature (C)");
    assert_eq!(units(made.run_in(&made.env, "pminfo -a @ -d made.temp")), "temperature (C)");
    assert_eq!(units(made.run("6.3.8", "pminfo -a @ -d made.temp")), "none");
    assert_eq!(units(made.run("6.3.8", "jumpseat info -a @ -d made.temp")), "none");
    // The option wins, wherever it stands.
    let own = "jumpseat info -a @ --pcp-level=7.2.1 -d made.temp";
    assert_eq!(units(made.run("6.3.8", own)), "temperature (C)");
    assert_eq!(units(made.run("7.2.1", "jumpseat info -a @ made.temp -d --pcp-level 6.0.3")), "none");
    // PCP's tools have no such option, and so scripts must not come to need it.
    let output = made.run("7.2.1", "pminfo --pcp-level=7.2.1");
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stderr.starts_with("pminfo: unrecognized option '--pcp-level=7.2.1'\n"), "{output}");
    let output = made.run("7.2.1", "jumpseat info --pcp-level 7 -a @");
    assert!(
        output.stderr.starts_with(
            "jumpseat info: --pcp-level 7: not a known release of PCP (6.0.3, 6.3.8 or 7.2.1)\nUsage: "
        ),
        "{output}"
    );
    let output = made.run("7", "pminfo -a @ made.temp");
    let warning =
        "Error: $JUMPSEAT_PCP_LEVEL=7 is not a known release of PCP (6.0.3, 6.3.8 or 7.2.1), ignored\n";
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("made.temp\n", warning));
    // The version that programs ask for.
    for level in ["6.0.3", "6.3.8", "7.2.1"] {
        let own = env!("CARGO_PKG_VERSION");
        let said = made.run(level, "pminfo --version").stderr;
        assert_eq!(said, format!("pminfo version {level} (jumpseat {own})\n"));
    }
}

#[test]
fn usage_texts_are_those_of_the_release() {
    let made = Made::new();
    let usage = |level, tool| made.run(level, &format!("{tool} --help")).stderr;
    let debug = "                        metrics source is a PCP archive\n\
                 \x20 -D DBG, --debug=DBG   set debug options, see pmdbg(1)\n";
    for tool in ["pminfo", "pmval", "pmprobe"] {
        assert!(usage("7.2.1", tool).contains(debug), "{tool}");
        assert!(!usage("6.3.8", tool).contains("--debug"), "{tool}");
        assert!(usage("6.3.8", tool).contains("source is a PCP archive\n"), "{tool}");
        assert!(usage("6.0.3", tool).contains("source is a PCP log archive\n"), "{tool}");
    }
    let new = "\nProtocol and reporting options:\n\
               \x20 -b N, --batch=N       fetch N metrics at a time for -f and -v [128]\n\
               \x20 -d, --desc            get and print metric description\n\
               \x20 -1, --desc-oneline    variant of -d with one output line per metric\n\
               \x20 -e, --metadata-errors like -v, but don't report metrics with no values\n\
               \x20 -f, --fetch           fetch and print values for all instances\n";
    assert!(usage("7.2.1", "pminfo").contains(new), "{}", usage("7.2.1", "pminfo"));
    assert!(usage("6.3.8", "pminfo").contains("\nProtocol options:\n"));
    assert!(
        usage("6.3.8", "pminfo").contains("--register") && !usage("6.0.3", "pminfo").contains("--register")
    );
    for (level, line, said) in [
        ("6.3.8", "pminfo -1 x", "pminfo: invalid option -- '1'\n"),
        ("6.3.8", "pminfo -e x", "pminfo: invalid option -- 'e'\n"),
        ("7.2.1", "pminfo -C x", "pminfo: invalid option -- 'C'\n"),
        ("6.3.8", "pmprobe -d", "pmprobe: invalid option -- 'd'\n"),
        ("7.2.1", "pmprobe -d", "pmprobe version 7.2.1 "),
        ("6.3.8", "pmprobe -e", "Usage: pmprobe"),
        ("7.2.1", "pmprobe -e", "pmprobe: invalid option -- 'e'\n"),
        ("6.3.8", "pmval -t 5x x", "pmval: -t argument not in pmParseHighResInterval(3) format:\n"),
        ("7.2.1", "pmval -t 5x x", "pmval: -t argument not in pmParseInterval(3) format:\n"),
    ] {
        let output = made.run(level, line);
        assert!(output.stderr.starts_with(said), "{level} {line}: {output}");
    }
}

#[test]
fn descriptors_on_one_line() {
    let made = Made::new();
    let expected = "\nmade.cnt\n\
         made.cnt\t32-bit unsigned int\t245.1 0x3d400001\tcounter\tcount\n    \
         inst [0 or \"a one\"] value 10\n    inst [7 or \"b\"] value 17\n";
    assert_eq!(made.run("7.2.1", "pminfo -1f -a @ made.cnt").ok(), expected);
    let expected = "\nmade.temp PMID: 245.0.1\n\
         made.temp\tfloat\tPM_INDOM_NULL 0xffffffff\tinstant\ttemperature (C)\n";
    assert_eq!(made.run("7.2.1", "pminfo --desc-oneline -m -a @ made.temp").ok(), expected);
}

#[test]
fn metadata_that_does_not_fit_is_told_of() {
    let made = Made::new();
    let odd = "made.odd: Questionable metadata ...\n    \
         Data Type: 32-bit unsigned int  InDom: PM_INDOM_NULL 0xffffffff\n    \
         Semantics: instant  Units: count\n\
         Error: non-zero scale (1) with zero dimension for Space in pmUnits\n\
         Error: non-zero scale (3) with zero dimension for Time in pmUnits\n\n";
    assert_eq!(made.run("7.2.1", "pminfo -v -a @ made.odd made.temp made.cnt").ok(), odd);
    assert_eq!(made.run("7.2.1", "pminfo -e -a @ made.odd made.temp made.cnt").ok(), odd);
    assert_eq!(made.run("6.3.8", "pminfo -v -a @ made.odd made.temp made.cnt").ok(), "");
    let pair = Pair::new(PrivatePmcd::with([AgentSpec::sample()]).start());
    let said = |options: &str| {
        let words = format!("info {options} sample.bad.novalues sample.long.one");
        pair.pmcd().run(JUMPSEAT, words.split(' ')).ok()
    };
    assert_eq!(said("-v"), "sample.bad.novalues: No value(s) available\n");
    assert_eq!(said("-e"), "");
}

#[test]
fn extra_units_are_in_descriptions_headers_and_json() {
    let made = Made::new();
    let header = |level, line: &str| {
        let text = made.run(level, line).ok();
        text.lines().find(|line| line.starts_with("units:")).expect("a header").to_owned()
    };
    assert_eq!(header("7.2.1", "pmval -a @ made.temp"), "units:     temperature (C)");
    assert_eq!(header("6.3.8", "pmval -a @ made.temp"), "units:     none");
    let energy = "units:     power (W) (converting to power (W) / sec)";
    assert_eq!(header("7.2.1", "pmval -a @ -t 10 made.energy"), energy);
    let json = |line: &str| -> serde_json::Value {
        let text = made.run_in(&made.env, line).ok();
        serde_json::from_str(text.lines().next().expect("a line")).expect("JSON")
    };
    assert_eq!(json("jumpseat info --json -a @ made.temp")["units"], "temperature (C)");
    assert_eq!(json("jumpseat val --json -a @ made.temp")["units"], "temperature (C)");
    assert_eq!(json("jumpseat val --json --pcp-level 6.3.8 -a @ made.temp")["units"], "");
}

#[test]
fn times_of_headers_are_in_the_form_of_samples() {
    let made = Made::new();
    let times = |level, options: &str| {
        let text = made.run(level, &format!("pmval {options} -a @ -s 1 made.temp")).ok();
        let times = text.lines().filter(|line| line.starts_with("start:") || line.starts_with("end:"));
        times.map(|line| line.split_once("Sun ").expect("a day").1.to_owned()).collect::<Vec<_>>()
    };
    let (plain, end) = ("Sep  9 01:46:40 2001", "Sep  9 01:47:10 2001");
    assert_eq!(times("7.2.1", "-z"), [plain, end]);
    assert_eq!(times("6.3.8", "-z -X"), [plain, end]);
    assert_eq!(times("7.2.1", "-z -X"), ["Sep  9 01:46:40.000000 2001", "Sep  9 01:47:10.000000 2001"]);
    assert_eq!(
        times("7.2.1", "-z -XX"),
        ["Sep  9 01:46:40.000000000 2001", "Sep  9 01:47:10.000000000 2001"]
    );
}

#[test]
fn definitions_that_do_not_bind_are_unknown_names() {
    let made = Made::new();
    let definitions = made.file(
        "definitions",
        "my.bad = no.such + 1\nmy.good = 2 * made.odd\nmy.mixed = made.energy * made.energy\n",
    );
    let definitions = definitions.display();
    let unknown = "Semantic error: derived metric my.bad: operand no.such: Unknown operand metric\n";
    let mixed =
        "Semantic error: derived metric my.mixed: made.energy * made.energy: Illegal operator for counters\n";
    let run = |level: &str, line: &str| {
        let output = made.run(level, line);
        (output.stdout, output.stderr, output.status.code())
    };
    let line = format!("pminfo -a @ -c {definitions} -d my.bad");
    let failed = "my.bad: pmLookupDesc: Derived metric definition failed\n";
    assert_eq!(run("6.3.8", &line), (failed.to_owned(), String::new(), Some(0)));
    let told = format!("{unknown}Error: my.bad: Unknown metric name\n");
    assert_eq!(run("7.2.1", &line), (String::new(), told, Some(1)));
    let line = format!("pmprobe -a @ --derived={definitions} my.bad");
    let named = "my.bad -12357 Unknown metric name\n";
    assert_eq!(run("7.2.1", &line), (named.to_owned(), unknown.to_owned(), Some(0)));
    // Below a node they are left out, and told of.
    let line = format!("pminfo -a @ -c {definitions} my");
    let (listed, told, code) = run("7.2.1", &line);
    assert_eq!((listed.as_str(), code), ("my.good\n", Some(0)));
    assert_eq!(told, format!("{unknown}{mixed}"));
    assert_eq!(run("6.3.8", &line).0, "my.bad\nmy.good\nmy.mixed\n");
    assert_eq!(run("7.2.1", &format!("pmprobe -a @ --derived={definitions} my")).0, "my.good 1\n");
}

#[test]
fn options_of_the_language_come_from_the_environment() {
    let made = Made::new();
    let definitions = made.file("definitions", "my.count = count(no.such)\n");
    let line = format!("pminfo -a @ -c {} -f my.count", definitions.display());
    let run = |level: &str, control: &str| {
        let mut env = made.env.clone();
        env.set(LEVEL, level);
        env.set("PCP_DERIVED_CONTROL", control);
        let output = made.run_in(&env, &line);
        (output.stdout, output.stderr)
    };
    assert_eq!(run("7.2.1", "OPTION_NOVALUE=1").0, "\nmy.count\n    value 0\n");
    assert_eq!(run("7.2.1", "global_limit=-1,o=1").0, "\nmy.count\n    value 0\n");
    // Releases before it do not know the variable.
    let (values, told) = run("6.3.8", "OPTION_NOVALUE=1");
    assert_eq!(
        (values.as_str(), told.as_str()),
        ("my.count: pmLookupDesc: Derived metric definition failed\n", "")
    );
    let unbound = "Semantic error: derived metric my.count: operand no.such: Unknown operand metric\n\
                   Error: my.count: Unknown metric name\n";
    for (control, what) in [
        ("novalue=1", "unknown derived metric control (novalue)"),
        ("opt", "missing '=' in derived metric control (opt)"),
        ("opt=", "missing value in derived metric control (opt=)"),
        ("opt=x,y=1", "bad value (x,y=1) for derived metric control (opt)"),
        ("opt=2", "failed to set derived metric control opt=2: Bad value for function argument"),
        ("context=5", "failed to set derived metric control context=5: Attempt to use an illegal context"),
    ] {
        let told = format!("Warning: $PCP_DERIVED_CONTROL: {what}\n{unbound}");
        assert_eq!(run("7.2.1", control), (String::new(), told), "{control}");
    }
}

#[test]
fn what_newer_releases_say_of_operands() {
    let made = Made::new();
    let definitions = made.file(
        "definitions",
        "my.ratio = made.temp / made.fahrenheit\nmy.id = mkconst(1, indom=245.1)\nmy.zone = made.temp / made.temp\n",
    );
    let definitions = definitions.display();
    let said = made.run("7.2.1", &format!("pminfo -a @ -c {definitions} my.ratio")).stderr;
    assert_eq!(
        said,
        "Semantic error: derived metric my.ratio: made.temp / made.fahrenheit: \
         Different extra units not allowed for both operands of /\nError: my.ratio: Unknown metric name\n"
    );
    assert_eq!(
        made.run("7.2.1", &format!("pminfo -a @ -c {definitions} -f my.zone")).ok(),
        "\nmy.zone\n    value 1\n"
    );
    let described = made.run("7.2.1", &format!("pminfo -a @ -c {definitions} -d my.id")).ok();
    assert!(described.contains("InDom: 245.1 0x3d400001"), "{described}");
    // Words that the release does not have.
    let output = made.run("6.3.8", &format!("pminfo -a @ -c {definitions} my.id"));
    assert!(output.stderr.contains("metadata keyword expected to follow mkconst(type"), "{output}");
    // As a tool of its own jumpseat takes all words at all levels.
    let own = format!("jumpseat info --pcp-level 6.3.8 -a @ -c {definitions} -d my.id");
    assert!(made.run_in(&made.env, &own).ok().contains("InDom: 245.1 0x3d400001"));
}

#[test]
fn messages_about_archives() {
    let made = Made::new();
    for (level, text) in [("6.0.3", "PCP archive log"), ("6.3.8", "PCP archive"), ("7.2.1", "PCP archive")] {
        let output = made.run(level, "pminfo -f -a @ made.none");
        assert_eq!(output.ok(), format!("made.none: pmFetch: End of {text}\n"), "{level}");
    }
}

/// Of several that are asked about at once the one without a descriptor is shown with the others, as 6.3.8 does.
#[test]
fn a_descriptor_among_many_that_fails() {
    let mut pair = Pair::new(PrivatePmcd::with([AgentSpec::sample()]).start());
    let metrics = "sample.long.one sample.bad.unknown sample.long.ten";
    let mut said = |level: &str, options: &str| {
        pair.set_level(level);
        let text = pair.ours("pminfo", &format!("{options} {metrics}")).ok();
        pair.env_unset();
        text
    };
    let error = "Unknown or illegal metric identifier";
    for level in ["6.3.8", "7.2.1"] {
        assert_eq!(said(level, "-v"), format!("sample.bad.unknown: {error}\n"));
        assert_eq!(
            said(level, "-f"),
            format!(
                "\nsample.long.one\n    value 1\n\nsample.bad.unknown\nError: {error}\n\n\
                 sample.long.ten\n    value 10\n"
            )
        );
        let both = said(level, "-df");
        assert!(
            both.contains(&format!("\n\nsample.bad.unknown\n    Metadata unavailable\nError: {error}\n\n")),
            "{both}"
        );
    }
    assert_eq!(said("6.0.3", "-v"), format!("sample.bad.unknown: pmLookupDesc: {error}\n"));
}
