//! The tools on archives next to PCP's own: output, messages and exit codes are equal to the byte, but for wordings
//! that differ between releases of PCP. The archives are those of PCP's test suite: versions 2 and 3, compressed ones,
//! several together, such with gaps, and damaged ones.
//!
//! Left out, as the tools differ from PCP 6.0 on purpose: samples from exactly the time of the last record (PCP's
//! position in its index is behind it), nanoseconds of windows (`-XX`; 6.0 has microseconds), instants that libpcp
//! prints as `02.1000`, and archives whose damage the reader steps over.

use std::io::Write;

use crate::seat::JUMPSEAT;
use crate::tools_support::Pair;
use support::{Output, PrivatePmcd, temp_dir};

/// Where Debian's pcp-testsuite has them.
const ARCHIVE_DIR: &str = "/var/lib/pcp/testsuite/archives";

/// Small archives: of both versions, with gaps, of changing instances, with event records, compressed, by a
/// member's name, and several at once.
const ARCHIVES: [&str; 10] = [
    "gap",
    "changeinst",
    "dyninsts.meta",
    "markmerge",
    "mirage-3",
    "eventrec",
    "omnibus_v3",
    "log-derived.0",
    "foo+",
    "multi",
];

/// An archive and one of its metrics: gauges and counters, of 32 and 64 bits, floating, text and bytes, with and
/// without instances, instances that come and go.
const METRICS: [(&str, &str); 13] = [
    ("gap", "sample.bin"),
    ("changeinst", "sample.seconds"),
    ("changeinst", "irix.network.interface.total.packets"),
    ("markmerge", "sample.const_rate.value"),
    ("markmerge", "sample.dynamic.counter"),
    ("mirage-3", "sample.mirage"),
    ("omnibus_v3", "sample.string.bin"),
    ("omnibus_v3", "sample.float.bin"),
    ("omnibus_v3", "sample.aggregate.hullo"),
    ("changeinst", "sample.milliseconds"),
    ("interpmark", "disk.dev.total"),
    ("multi", "kernel.all.load"),
    ("multi-xz", "kernel.all.cpu.user"),
];

/// A line for the tools: `@` is where the archives are.
struct Archives {
    pair: Pair,
}

impl Archives {
    fn new() -> Archives {
        Archives { pair: Pair::of_archives(PrivatePmcd::with([]).start()) }
    }

    fn compare(&mut self, tool: &str, lines: impl IntoIterator<Item = String>) {
        let with_paths = |line: String| line.replace('@', &format!("{ARCHIVE_DIR}/")).replace('%', "@");
        let lines: Vec<String> = lines.into_iter().map(with_paths).collect();
        self.pair.compare_all(tool, &lines);
    }

    fn with_env(&mut self, name: &str, value: &str, compare: impl FnOnce(&mut Archives)) {
        self.pair.env_set(name, value);
        compare(self);
        self.pair.env_unset();
    }

    fn finish(self, least: usize) {
        let cases = self.pair.finish();
        assert!(cases >= least, "only {cases} cases");
    }
}

#[test]
fn metadata_and_first_values() {
    let mut archives = Archives::new();
    let forms = [
        "",
        "-f",
        "-dmtT -z",
        "-f -O 3 -Z EST5EDT",
        "-v",
        "-x",
        "-s",
        "-l",
        "-MIF",
        "-f -z -O -4",
        "-b 9 -f",
    ];
    for archive in ARCHIVES {
        // What instances have labels there depends on all metrics before.
        let forms = forms.into_iter().filter(|form| archive != "multi" || *form != "-l");
        archives.compare("pminfo", forms.map(|form| format!("-a @{archive} {form}")));
    }
    archives.compare(
        "pminfo",
        [
            "-a @gap -f nosuch sample.bin",
            "-a @gap 29.0.6 29.2 29.9 29.99.99",
            "-a @gap -l 29.2",
            "-a @gap -tT 29.2 sample",
            "-a @gap -O xx",
            "-a @gap -O 1h -f sample.milliseconds",
            "-a @gap -O %1:2:3 -f sample.bin",
            "-a @gap -T 3 -f",
            "-a @gap -b x",
            "-a @gap -h x",
            "-a @gap -a @gap2 -f",
            "-a @multi -f kernel.all.load",
            "-a @multi/20150508.11.50,@multi/20150508.11.44 -f kernel.all.load",
            "-a @nosuch",
            "-a @..",
            "-a /nonexistent/a",
            "-a @gap -z -Z EST",
            "-z",
            "-x -O 2 -a @eventrec sample.event.records",
            "-x -a @eventrec-old",
            "-lf -a @omnibus_v3 sample.bin sample.colour",
        ]
        .map(str::to_owned),
    );
    archives.finish(125);
}

/// Instances that a derived metric picks by name are those of its sample, not of the next.
#[test]
fn instances_by_name_of_derived_metrics() {
    let mut archives = Archives::new();
    let mut definitions = tempfile::NamedTempFile::new().unwrap();
    definitions
        .write_all(b"some = matchinst(/^m-/, sample.mirage)\nnone = matchinst(!/^m-/, sample.mirage)\n")
        .unwrap();
    let forms = ["-S %17:51:14.030 -s 3 -t 20msec", "-s 8 -t 50msec", "-U"].into_iter().flat_map(|form| {
        let form = form.replace("-U", "-s 6 -U @mirage-3").replace("-t", "-a @mirage-3 -t");
        ["some", "none"].map(|name| format!("-z --derived {} {form} {name}", definitions.path().display()))
    });
    archives.compare("pmval", forms);
    archives.finish(6);
}

/// Marks that are no gaps if the environment says so: all, or those of some length.
#[test]
fn marks_that_are_ignored() {
    let mut archives = Archives::new();
    let lines: Vec<String> = [
        ("interpmark", "disk.dev.total"),
        ("gap", "sample.bin"),
        ("markmerge", "sample.dynamic.counter"),
        ("multi", "kernel.all.load"),
        ("mark-bug", "hinv.ncpu"),
    ]
    .into_iter()
    .flat_map(|(archive, metric)| {
        ["-t 1sec", "-t 7sec -r", "-t 5sec -S 1min"].map(|form| format!("-z -a @{archive} {form} {metric}"))
    })
    .collect();
    let one = "-z -a @gap -t 7sec sample.bin";
    for value in ["", "1min", "5sec", "bad"] {
        let lines = if value == "bad" { vec![one.to_owned()] } else { lines.clone() };
        archives.with_env("PCP_IGNORE_MARK_RECORDS", value, |archives| archives.compare("pmval", lines));
    }
    archives.finish(46);
}

/// A metric that is in no archive needs no record, sound or not.
#[test]
fn metrics_that_an_archive_does_not_have() {
    let mut archives = Archives::new();
    let forms = ["-O +1", "-s 2", "-t 3 -O -1"].map(|form| format!("-a @pcp-mpstat3 {form} event.missed"));
    archives.compare("pmval", forms.clone());
    archives.compare("pmevent", forms);
    archives.finish(6);
}

#[test]
fn counts_of_values() {
    let mut archives = Archives::new();
    for archive in ARCHIVES {
        let forms = ["", "-v", "-I -z -O -3", "-i -O 2", "-f -i", "-f -I"];
        archives.compare("pmprobe", forms.map(|form| format!("{form} -a @{archive}")));
    }
    archives.compare(
        "pmprobe",
        [
            "-a @gap -v nosuch sample.bin sample",
            "-F -a @gap sample.bin nosuch",
            "-F -a @gap nosuch",
            "-F -i -a @gap nosuch",
            "-F -a @gap sample",
            "-F -a @gap sample nosuch",
            "-a @gap -b 5",
            "-a @gap -O foo",
            "-a @nosuch",
            "-a @gap -i -v",
            "-a @gap -Z EST5 -v",
        ]
        .map(str::to_owned),
    );
    archives.compare("pmstore", ["-a @gap sample.bin 1", "sample.bin -a @gap"].map(str::to_owned));
    archives.finish(73);
}

#[test]
fn interpolated_samples() {
    let mut archives = Archives::new();
    let forms = [
        "",
        "-t 3.3 -s 8",
        "-r -t 2 -s 5",
        "-f 2 -s 4 -w 14",
        "-X -s 3 -z",
        "-Z EST5EDT -s 2",
        "-S 3 -T +7",
        "-S 2.5 -A 1",
        "-O -2",
        "-T -5 -t 1.75",
        "-A 5 -O 3 -s 4",
        "-S 1h -s 2",
        "-s 0",
    ];
    for (archive, metric) in METRICS {
        // Its samples are a minute apart.
        let forms = forms.map(|form| match archive {
            "multi" | "multi-xz" if form.is_empty() => "-t 20",
            _ => form,
        });
        archives.compare("pmval", forms.map(|form| format!("-a @{archive} {form} {metric}")));
    }
    archives.finish(165);
}

#[test]
fn records_as_they_are() {
    let mut archives = Archives::new();
    for (archive, metric) in METRICS {
        let forms = ["-r -s 30", "-s 12", "-T 8 -X", "-t 5 -s 8 -f 1 -z", "-O 2 -s 5"];
        archives.compare("pmval", forms.map(|form| format!("-U @{archive} {form} {metric}")));
    }
    let events = [
        ("eventrec", "sample.event.records"),
        ("eventrec-old", "sample.event.records"),
        ("eventrec", "sample.event.highres_records"),
        ("omnibus_v3", "sampledso.event.records"),
    ];
    for (archive, metric) in events {
        let forms =
            ["", "-s 2 -v", "-T +3 -X", "-S 2 -z", "-i bogus", "-i nope", "-r -f 0 -w 3 -s 1", "-A 1 -s 2"];
        for tool in ["pmevent", "pmval"] {
            archives.compare(tool, forms.map(|form| format!("-a @{archive} {form} {metric}")));
        }
        archives.compare("pmevent", [format!("-U @{archive} -v {metric}")]);
    }
    archives.finish(130);
}

#[test]
fn names_windows_and_environment() {
    let mut archives = Archives::new();
    archives.compare(
        "pmval",
        [
            "-O xx -a @gap sample.bin",
            "-A 0 -a @gap sample.bin",
            "-T 1x -a @gap sample.bin",
            "-S %foo -a @gap sample.bin",
            "-S %21:14:40 -a @gap sample.bin",
            "-z -Z EST -a @gap sample.bin",
            "-a @nosuch x",
            "-a @gap nosuch",
            "-a @gap -z nosuch",
            "-a @gap sample",
            "-a @gap",
            "-a @gap x y",
            "@gap/sample.bin",
            "-s 2 @gap/sample.bin[bin-300]",
            "@gap/sample.bin[nope]",
            "-a @gap -h x sample.bin",
            "-a @gap -i bin-100,bin-300 sample.bin",
            "-a @gap -i bin-300 -i bin-100 -s 3 sample.bin",
            "-a @gap -i nope sample.bin",
            "-a @gap -f 30 sample.bin",
            "-a @gap -x 3 -s 1 sample.bin",
            "-a @gap -d -t 0.01 -s 4 sample.bin",
            "-a @gap -a @gap2 -s 3 sample.bin",
            "-a @gap,@nosuch sample.bin",
            "-a @multi/20150508.11.44,@multi/20150508.11.50 -t 1min kernel.all.load",
            "-a @multi-corrupted -t 1min kernel.all.cpu.user",
            "-a @. x",
            "-a @gap -g -p 1 sample.bin",
            "-a @gap -t 5foo sample.bin",
            "-a @gap -s x sample.bin",
            "-a @gap -w 0 sample.bin",
            "-U @gap -a @gap2 sample.bin",
            // No interval at all.
            "-a @gap -t 0 -s 3 sample.bin",
            // Windows that end before they begin.
            "-a @gap -S 1h -O -10 -s 1 sample.bin",
            "-a @gap -S 1h -O 10 -s 1 sample.bin",
            "-a @gap -S 1h -T -2 -O -3 -s 1 sample.bin",
            "-a @gap -t 1h -S 5min sample.bin",
            "-a @gap -t 1 -S 5min sample.bin",
            // What depends on the source, where the metric names it.
            "-S 1 -s 1 @gap/sample.bin",
            "-A 1 -s 1 @gap/sample.bin",
            "-d -s 1 @gap/sample.bin",
            "-O 1 -s 1 @gap/sample.bin",
            "-S 1 -s x @gap/sample.bin",
            "-S 1 -s 1",
            "-S 1 -d nosuch:sample.bin",
            "-S 1 sample.bin[",
            // Counters that fall, with digits.
            "-z -f 0 -a @uwrap -t 1sec -s 9 sample.wrap.ulong",
            "-f 2 -w 8 -a @uwrap -t 5sec -s 9 sample.wrap.ulong",
            // An instance domain that was never recorded.
            "-a @zero_disk_activity -s 1 disk.md.await",
            "-z -U @all-sles9-sp1 -s 1 disk.xvm.read_bytes",
            "-a @zero_disk_activity -i x -s 1 disk.md.await",
        ]
        .map(str::to_owned),
    );
    for (name, value, tool, line) in [
        ("PCP_START_TIME", "10", "pmval", "sample.bin"),
        ("PCP_FINISH_TIME", "+7", "pmval", "sample.bin"),
        ("PCP_INTERVAL", "5", "pmval", "sample.bin"),
        ("PCP_SAMPLES", "2", "pmval", "sample.bin"),
        ("PCP_ALIGN_TIME", "5", "pmval", "sample.bin"),
        ("PCP_TIMEZONE", "EST5EDT", "pmval", "-s 1 sample.bin"),
        ("PCP_HOSTZONE", "1", "pmval", "-s 1 sample.bin"),
        ("PCP_ORIGIN", "4", "pminfo", "-f sample.bin"),
        ("PCP_COUNTER_WRAP", "1", "pmval", "sample.milliseconds"),
        ("TZ", "Europe/Berlin", "pmval", "-X -s 2 sample.bin"),
    ] {
        archives.pair.env_set(name, value);
        archives.compare(tool, [format!("-a @gap {line}")]);
        archives.pair.env_unset();
    }
    archives.pair.env_set("PCP_ARCHIVE", &format!("{ARCHIVE_DIR}/gap"));
    archives.compare("pminfo", ["-f sample.bin".to_owned()]);
    archives.compare("pmprobe", ["-v".to_owned()]);
    archives.compare("pmval", ["-s 2 sample.bin".to_owned()]);
    archives.pair.env_unset();
    archives.finish(64);
}

/// Folios are what the environment may name; for an archive PCP's tools do not take them.
#[test]
fn folios() {
    let mut archives = Archives::new();
    let dir = temp_dir();
    let head = "PCPFolio\nVersion: 1\n# of a test\nCreated: on made.up\nCreator: pmchart\n";
    let (gap, babylon) = (format!("{ARCHIVE_DIR}/gap"), format!("{ARCHIVE_DIR}/babylon.percpu_v2"));
    for suffix in ["0", "index", "meta"] {
        let copy = dir.path().join(format!("beside.{suffix}"));
        std::fs::copy(format!("{gap}.{suffix}"), copy).expect("writable");
    }
    for (number, text) in [
        format!("{head}Archive: gonzo {gap}\n"),
        format!("{head}Archive:\tgonzo\t\tbeside with more\n"),
        format!("{head}Archive: gonzo {gap}.meta"),
        format!("{head}Archive: gonzo {ARCHIVE_DIR}/multi-xz\nArchive: gonzo nosuch\n"),
        format!("{head}Archive: gonzo {gap}\nArchive: gonzo {babylon}\n"),
        format!("{head}Archive: {gap}\n"),
        format!("{head}Archive:\n"),
        format!("{head} Archive: gonzo {gap}\n"),
        format!("{head}Archive: a,b {gap},nosuch\n"),
        head.replace("Version: 1", "Version: 2"),
        head.replace("PCPF", "pcpf"),
        "PCPFolio\n".to_owned(),
        String::new(),
    ]
    .into_iter()
    .enumerate()
    {
        let folio = dir.path().join(format!("folio{number}")).display().to_string();
        std::fs::write(&folio, text).expect("writable");
        archives.with_env("PCP_FOLIO", &folio, |archives| {
            archives.compare("pminfo", ["-f sample.bin".to_owned()]);
            archives.compare("pmprobe", ["-v sample.bin".to_owned(), format!("-a {gap} sample.bin")]);
            archives
                .compare("pmval", ["-z -s 2 sample.bin".to_owned(), "-h localhost sample.bin".to_owned()]);
        });
        archives.compare("pminfo", [format!("-a {folio} sample.bin")]);
    }
    // An archive that is named already is not there twice.
    let lists = [
        "-a @gap -a nosuch -a @gap x",
        "-a a,nosuch,b -a nosuch x",
        "-a nosuchx -a nosuch x",
        "-a ''",
        "-a '' x",
    ];
    archives.compare("pmprobe", lists.map(str::to_owned));
    let first = dir.path().join("folio0").display().to_string();
    let told = archives.pair.pmcd().run(JUMPSEAT, ["info", "-a", &first, "sample.bin"]);
    let hint = format!("{first} is a folio: name its archives, -a {gap}, or set PCP_FOLIO={first}\n");
    assert!(!told.status.success() && told.stderr.ends_with(&hint), "{told}");
    archives.finish(83);
}

/// Something that our tools do otherwise with a damaged archive, as `docs/differences.md` has it.
struct Mended {
    /// The archive, the tool, and how it is called.
    case: (&'static str, &'static str, &'static str),
    /// The archive that PCP's tool is given: the damaged one itself, or that which it was before.
    like: &'static str,
    /// What stands in ours for what is in PCP's output, and in its messages.
    but: &'static [(&'static str, &'static str)],
    /// With which status ours ends.
    status: i32,
}

impl Mended {
    /// The output and the messages of ours.
    #[track_caller]
    fn expected(&self, pcp: &Output) -> [String; 2] {
        let mut texts = [pcp.stdout.clone(), pcp.stderr.clone()];
        for (from, to) in self.but {
            // In one of both only, so that it is clear what is meant.
            let found: Vec<_> = texts.iter_mut().filter(|text| text.contains(from)).collect();
            assert_eq!(found.len(), 1, "{:?}: {from:?} of {pcp}", self.case);
            found.into_iter().for_each(|text| *text = text.replacen(from, to, 1));
        }
        texts.map(|text| text.replace(&format!("{ARCHIVE_DIR}/ok-foo"), &bad_archive(self.case.0)))
    }
}

const fn mended(
    case: (&'static str, &'static str, &'static str),
    like: &'static str,
    but: &'static [(&'static str, &'static str)],
    status: i32,
) -> Mended {
    Mended { case, like, but, status }
}

const SOUND: &str = "@ok-foo";
const ITSELF: &str = "";
const NO_END: &str = "pmval: Cannot locate end of archive \
                      /var/lib/pcp/testsuite/archives/../badarchives/archive-20150417.131733: Corrupted record in a PCP archive \
                      log\n\nWARNING: This archive is sufficiently damaged that it may not be possible to\n         produce complete \
                      information.  Continuing and hoping for the best.\n\n";

const MENDED: [Mended; 14] = [
    // A time that an entry of the index has exactly.
    mended(
        ("badlog-4", "pminfo", "-f"),
        ITSELF,
        &[
            ("value 890\n", "value 892\n"),
            ("value 119\n", "value 125\n"),
            ("value 220\n", "value 226\n"),
            ("value 321\n", "value 327\n"),
            ("value 150\n", "value 108\n"),
            ("value \"yellow\"\n\n", "value \"green\"\n"),
            (
                "archive\n    inst [5403 or \"5403\"] value \"/usr/people/kenmcd/isms/pcp/qa/src/foo\"\n\n",
                "archive: pmFetch: End of PCP archive log\n",
            ),
            ("port\n    inst [5403 or \"5403\"] value 4332\n\n", "port: pmFetch: End of PCP archive log\n"),
            (
                "host\n    inst [5403 or \"5403\"] value \"gonzo.melbourne.sgi.com\"\n",
                "host: pmFetch: End of PCP archive log\n",
            ),
        ],
        0,
    ),
    mended(
        ("badlog-4", "pmprobe", "-v"),
        ITSELF,
        &[
            (" 890\n", " 892\n"),
            (" 119 220 321\n", " 125 226 327\n"),
            (" 150\n", " 108\n"),
            ("yellow", "green"),
            (
                "archive 1 \"/usr/people/kenmcd/isms/pcp/qa/src/foo\"\n",
                "archive -12370 End of PCP archive log (pmFetch)\n",
            ),
            ("port 1 4332\n", "port -12370 End of PCP archive log (pmFetch)\n"),
            ("host 1 \"gonzo.melbourne.sgi.com\"\n", "host -12370 End of PCP archive log (pmFetch)\n"),
        ],
        0,
    ),
    mended(
        ("badlog-3", "pmval", "-U"),
        ITSELF,
        &[
            ("04:34:35.258     0.9952\n", "16:13:20.248          !\n04:34:35.258  9.763E-09\n"),
            ("04:34:37.258     0.9998\n", ""),
        ],
        0,
    ),
    // A type that does not exist.
    mended(("badmeta-2", "pminfo", "-f"), ITSELF, &[("150 2.1019477e-43 0x96", "150")], 0),
    mended(("badmeta-2", "pmprobe", "-v"), ITSELF, &[("150 2.1019477e-43 0x96", "150")], 0),
    // Entries of the index that point to where nothing is.
    mended(("badti-2", "pminfo", "-f"), SOUND, &[], 0),
    mended(("badti-2", "pmprobe", "-v"), SOUND, &[], 0),
    mended(("badti-4", "pminfo", "-f"), SOUND, &[], 0),
    mended(("badti-4", "pmprobe", "-v"), SOUND, &[], 0),
    mended(("badti-4", "pmval", "-a"), SOUND, &[], 0),
    mended(("badti-4", "pmval", "-U"), SOUND, &[], 0),
    // The last bytes are no record.
    mended(
        ("badlen-11", "pmval", "-a"),
        ITSELF,
        &[
            ("17:29:20.472  No values available\n", ""),
            ("the best.\n\n", "the best.\n\n\npmval: pmFetch: Corrupted record in a PCP archive log\n"),
        ],
        1,
    ),
    mended(("archive-20150417.131733", "pmval", "-a"), ITSELF, &[(NO_END, "")], 1),
    mended(("archive-20150417.131733", "pmval", "-U"), ITSELF, &[(NO_END, "")], 1),
];

fn bad_archive(name: &str) -> String {
    format!("{ARCHIVE_DIR}/../badarchives/{name}")
}

/// All of the suite: output, messages and status are PCP's, or are those of an archive that is read around its damage.
#[test]
fn damaged_archives() {
    let mut archives = Archives::new();
    let files = std::fs::read_dir(format!("{ARCHIVE_DIR}/../badarchives")).expect("PCP's test suite");
    let names = files.map(|file| file.expect("listed").file_name().to_string_lossy().into_owned());
    let bases: std::collections::BTreeSet<String> =
        names.filter_map(|name| Some(name.split_once(".meta")?.0.to_owned())).collect();
    assert!(bases.len() >= 40, "{bases:?}");
    let mut mended = 0;
    for bad in &bases {
        for (tool, form, rest) in [
            ("pminfo", "", ""),
            ("pminfo", "-f", ""),
            ("pmprobe", "-v", ""),
            ("pmval", "-a", "-z -t 5 -s 3 sample.seconds"),
            ("pmval", "-U", "-z -t 5 -s 3 sample.seconds"),
        ] {
            let option = if form == "-U" { "" } else { "-a" };
            let words = if form == "-a" { "" } else { form };
            let line = |archive: &str| format!("{words} {option} {archive} {rest}");
            let damaged = bad_archive(bad);
            let Some(differs) = MENDED.iter().find(|mended| mended.case == (bad.as_str(), tool, form)) else {
                archives.compare(tool, [line(&damaged)]);
                continue;
            };
            mended += 1;
            let like = match differs.like {
                ITSELF => damaged.clone(),
                sound => sound.replace('@', &format!("{ARCHIVE_DIR}/")),
            };
            let expected = differs.expected(&archives.pair.pcps(tool, &line(&like)));
            let ours = archives.pair.ours(tool, &line(&damaged));
            assert_eq!([&ours.stdout, &ours.stderr], expected.each_ref(), "{tool} {}", line(&damaged));
            assert_eq!(ours.status.code(), Some(differs.status), "{tool} {}: {ours}", line(&damaged));
            assert!(
                archives.pair.difference(tool, &line(&damaged)).is_some(),
                "no difference any more: {tool} {}",
                line(&damaged)
            );
        }
    }
    assert_eq!(mended, MENDED.len());
    archives.finish(200);
}

/// By their own names the tools tell once what of a damaged archive they do without; by PCP's names they say what PCP's say.
#[test]
fn what_is_left_out_of_damaged_archives_is_told_once() {
    let mut archives = Archives::new();
    let dir = temp_dir();
    let base = dir.path().join("cut");
    let mut end = (0, 0);
    for suffix in ["0", "index", "meta"] {
        let mut bytes =
            std::fs::read(format!("{ARCHIVE_DIR}/changeinst.{suffix}")).expect("PCP's test suite");
        match suffix {
            // The last record is not whole.
            "0" => {
                let last = u32::from_be_bytes(*bytes.last_chunk().expect("a trailer")) as usize;
                end = (bytes.len() - last, last - 7);
                bytes.truncate(bytes.len() - 7);
            }
            // The third entry is of a volume that is not there.
            "index" => bytes[132 + 2 * 20 + 11] = 9,
            _ => {}
        }
        std::fs::write(base.with_extension(suffix), bytes).expect("writable");
    }
    let cut = base.display().to_string();
    let index =
        format!("Warning: {cut}: 1 of 9 entries of the temporal index cannot be meant, and are not used\n");
    let (at, bytes) = end;
    let end = format!(
        "Warning: {cut}: the last record that is whole ends at byte {at} of volume 0, {bytes} bytes behind it are \
         left out\n"
    );
    for file in ["0.xz", "1.xz", "3.xz", "index", "meta.xz"] {
        let name = format!("20180416.10.00.{file}");
        std::fs::copy(format!("{ARCHIVE_DIR}/{name}"), dir.path().join(name)).expect("writable");
    }
    let holes = dir.path().join("20180416.10.00").display().to_string();
    let out = dir.path().join("out").display().to_string();
    let run = |words: &[&str]| {
        let told = archives.pair.pmcd().run(JUMPSEAT, words);
        assert!(told.status.success(), "{told}");
        told.stderr
    };
    let named = |tool: &str, texts: &[&str]| {
        texts.iter().map(|text| format!("jumpseat {tool}: {text}")).collect::<String>()
    };
    let metric = "sample.seconds";
    assert_eq!(run(&["info", "-f", "-a", &cut, metric]), named("info", &[&index]));
    assert_eq!(run(&["probe", "-v", "-O", "1", "-a", &cut, metric]), named("probe", &[&index, &end]));
    assert_eq!(run(&["val", "-s", "2", "-t", "1", "-a", &cut, metric]), named("val", &[&index, &end]));
    let recorded = run(&["record", "-a", &cut, &out, metric]);
    for text in [&index, &end] {
        assert_eq!(recorded.matches(&format!("jumpseat record: {text}")).count(), 1, "{recorded}");
    }
    assert_eq!(run(&["top", "-a", &cut, "--once", metric]), named("top", &[&index, &end]));
    let probed = run(&["probe", "-a", &holes, "kernel.all.load"]);
    assert!(
        probed.contains(&format!("Warning: {holes}: volume 2 is missing, and is left out\n")),
        "{probed}"
    );
    assert_eq!(run(&["probe", "-v", "-O", "1", "-a", &format!("{ARCHIVE_DIR}/changeinst"), metric]), "");
    archives.compare("pminfo", [format!("-f -a {cut}")]);
    archives.compare("pmprobe", [format!("-v -a {cut}"), format!("-v -O 1 -a {cut} {metric}")]);
    archives.compare("pmval", [format!("-z -s 2 -t 1 -a {cut} {metric}")]);
    archives.finish(4);
}

/// Labels of domains and clusters are those that PCP's program shows for metrics one behind the other.
#[test]
fn labels_of_domains_and_clusters() {
    let mut archives = Archives::new();
    for archive in ["mirage-3", "omnibus-nomark_v2", "omnibus_v2", "omnibus_v3", "sample-labels"] {
        archives.compare("pminfo", ["-l", "-s", "-ld"].map(|form| format!("-a @{archive} {form}")));
    }
    archives.compare(
        "pminfo",
        ["pmcd.seqnum", "pmcd.pmie.eval.actual pmcd.seqnum", "pmcd.seqnum pmcd.pmie.eval.actual pmcd.seqnum"]
            .map(|names| format!("-l -a @20190628.04.03 {names}")),
    );
    archives.finish(18);
}

#[test]
fn derived_metrics() {
    let mut archives = Archives::new();
    let definitions = archives.pair.file(
        "derived.conf",
        "my.sum = sum(sample.bin)\n\
         my.twice = 2 * sample.bin\n\
         my.rate = rate(sample.milliseconds)\n\
         my.delta = delta(sample.milliseconds)\n\
         my.difference = sample.milliseconds - sample.milliseconds\n\
         my.average = avg(disk.dev.read)\n\
         my.constant = mkconst(42, type=u32)\n\
         my.some = matchinst(/bin-[13]00/, sample.bin)\n\
         my.count = count(sample.bin)\n\
         my.seconds = rescale(sample.milliseconds, \"sec\")\n\
         my.minus_infinity = -1.0 / (0 * count(sample.bin))\n\
         my.minus_zero = -2.5 * (0 * count(sample.bin))\n\
         my.wrong = sample.milliseconds + 1\n\
         sample.mine = 2 * sample.bin\n\
         disk.dev.mine = disk.dev.read\n\
         sample.other.mine = 1 + sample.bin\n",
    );
    let names = [
        "sum",
        "twice",
        "rate",
        "delta",
        "difference",
        "average",
        "constant",
        "some",
        "count",
        "seconds",
        "minus_infinity",
        "minus_zero",
        "wrong",
    ];
    archives.pair.env_set("PCP_DERIVED_CONFIG", &definitions);
    for archive in ["gap", "changeinst", "dyninsts", "omnibus_v3"] {
        archives.compare("pmval", names.map(|name| format!("-a @{archive} -t 2 -s 6 my.{name}")));
        archives.compare("pminfo", names.map(|name| format!("-dfm -a @{archive} my.{name}")));
        archives
            .compare("pmprobe", ["my", "-v my", "-v -O 3 my"].map(|line| format!("-a @{archive} {line}")));
        archives.compare("pmval", [format!("-U @{archive} -s 12 my.twice")]);
        // Names of definitions stand where their nodes are.
        archives
            .compare("pminfo", ["", "sample", "disk", "my"].map(|below| format!("-a @{archive} {below}")));
        archives.compare("pmprobe", [format!("-a @{archive}")]);
    }
    archives.pair.env_unset();
    // What nobody has values of, by another name. (pmprobe prints what was in memory.)
    let missed = archives.pair.file("missed.conf", "my.missed = event.missed\n");
    let forms = ["", "-r", "-r -t 2"].map(|form| format!("-a @gap {form} -s 3 --derived={missed} my.missed"));
    archives.compare("pmval", forms);
    archives.compare(
        "pminfo",
        [format!("-c {definitions} -f -a @gap my.twice my.sum"), format!("-c {definitions} -a @gap")],
    );
    archives.compare("pmval", [format!("--derived={definitions} -a @gap -s 3 my.count")]);
    archives.finish(140);
}
