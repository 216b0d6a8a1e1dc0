//! Name spaces from files (`-n`, `-N`): the tools against PCP's own, with the same files.

use crate::tools_support::Pair;
use support::{AgentSpec, PrivatePmcd};

/// Comments, macros, conditionals, an include, several names of a metric, metrics that no agent has, a dynamic subtree.
const NAMES: &str = "\
/* a comment
   over lines */
#define S 29
#ifdef NOT_DEFINED
root { bad }
#else
root {
	zz
	mid	S:0:11
	aa
	dup	29:0:10
	text	S : 0 :	32
}
#endif
zz { x 29:0:10  /* in between */ b 29:0:6 }
#include \"more.pmns\"
";

const MORE: &str = "\
aa { one 29:0:10 gone 29:0:999 none 77:0:1 dyn 29:*:* sub none2 }
aa.sub { q 2:0:3 w 29:0:14 }
aa.none2 { }
";

fn pair() -> Pair {
    let pair = Pair::new(PrivatePmcd::with([AgentSpec::sample()]).start());
    pair.file("more.pmns", MORE);
    pair.file("names.pmns", NAMES);
    pair
}

#[test]
fn metrics_under_other_names() {
    let mut pair = pair();
    let file = pair.file("names.pmns", NAMES);
    let once = pair.file("once.pmns", "root { mid 29:0:11 zz dyn 29:*:* }\nzz { b 29:0:6 }\n");
    for args in [
        "",
        "-d",
        "-f",
        "-mM",
        "-tT",
        "-dfmtT mid zz",
        "-b 1 -d",
        "-I zz.b",
        "-v",
        "aa.one",
        "aa.gone",
        "aa.dyn",
        "aa.dyn.x",
        "aa.sub zz",
        "aa.none2",
        "aa.",
        "zz.x.y",
        "sample.long.ten",
        "event",
        "29.0.10",
        "29.0.11 29.0.12",
        "511.29.0",
        "29.2",
        "nope mid",
    ] {
        pair.compare("pminfo", &format!("-n {file} {args}"));
    }
    for args in ["", "-f", "-m dyn", "29.0.11"] {
        pair.compare("pminfo", &format!("-N {once} {args}"));
    }
    for args in ["", "-v mid zz", "-I zz.b", "aa.dyn", "aa.gone nope aa.none2", "zz.x"] {
        pair.compare("pmprobe", &format!("-n {file} {args}"));
    }
    for metric in ["mid", "aa", "aa.dyn", "aa.dyn.x", "aa.gone", "sample.long.ten", "zz.b[bin-300]"] {
        pair.compare("pmval", &format!("-n {file} -s 1 {metric}"));
    }
    for metric in ["aa.sub.w", "-F aa.sub.w", "aa", "aa.dyn", "aa.gone", "sample.long.ten"] {
        pair.after("pmstore sample.long.write_me 13", |pair| {
            pair.compare("pmstore", &format!("-n {file} {metric} 5"));
        });
    }
    pair.compare("pmevent", &format!("-n {file} -s 1 nope"));
    pair.compare("pmevent", &format!("-n {file} -s 1 mid"));
    assert!(pair.finish() >= 40);
}

/// Of names that an archive has no metrics for `pminfo` knows nothing; the others do.
#[test]
fn names_for_recorded_metrics() {
    let mut pair = Pair::new(PrivatePmcd::with([]).start());
    let archive = "/var/lib/pcp/testsuite/archives/ok-foo";
    let text = "root { mid 29:0:6 zz 29:0:11 dyn 29:*:* p n }\np { q 29:0:11 } n { q 29:0:6 w 29:0:11 }\n";
    let file = pair.file("names.pmns", text);
    for args in
        ["", "-d", "-f mid", "-m n", "zz", "-f p", "dyn", "29.0.11", "29.0.6", "p.q", "dyn.x", "sample.bin"]
    {
        pair.compare("pminfo", &format!("-n {file} -a {archive} {args}"));
    }
    for args in ["-v mid", "zz n", "sample.bin"] {
        pair.compare("pmprobe", &format!("-n {file} -a {archive} {args}"));
    }
    for args in ["-s 2 mid", "zz", "sample.bin"] {
        pair.compare("pmval", &format!("-n {file} -a {archive} {args}"));
    }
    pair.finish();
}

/// Where the names come from: variables of the environment, and what is looked for where.
#[test]
fn files_are_found_where_pcp_finds_them() {
    let mut pair = pair();
    let file = pair.file("names.pmns", NAMES);
    let dir = pair.pmcd().dir().to_owned();
    std::fs::create_dir_all(dir.join("sub/more")).expect("the test's directory is writable");
    let sub = pair.file("sub/main.pmns", "root { a }\n#include <more/a.pmns>\n");
    pair.file("sub/more/a.pmns", "a { x 29:0:11 b }\n#include \"more/b.pmns\"\n");
    pair.file("sub/more/b.pmns", "a.b { y 29:0:10 }\n");
    pair.compare("pminfo", &format!("-n {sub} -m"));
    pair.compare("pminfo", &format!("-n {file} -n {sub}"));
    pair.compare("pminfo", &format!("-n {file} -N {sub}"));
    for (variable, value) in [
        ("PCP_NAMESPACE", file.as_str()),
        ("PCP_UNIQNAMES", &file),
        ("PCP_UNIQNAMES", &sub),
        ("PCP_NAMESPACE", "/nonexistent"),
        // Only what needs a name space of its own, as agents loaded into the tool do, reads this one.
        ("PMNS_DEFAULT", &file),
        ("PMNS_DEFAULT", "/nonexistent"),
    ] {
        pair.with_env(variable, value, |pair| {
            pair.compare("pminfo", "-m mid a aa.one");
            pair.compare("pmprobe", "-v mid a sample.long.ten");
            pair.compare("pmval", "-s 1 mid");
        });
    }
    pair.with_env("PCP_DERIVED_CONFIG", &pair.file("derived", "my.twice = 2 * mid\n"), |pair| {
        pair.compare("pminfo", &format!("-n {file} -f my mid"));
        pair.compare("pminfo", &format!("-n {file} -d my.twice"));
        pair.compare("pmprobe", &format!("-n {file} -v my.twice"));
    });
    pair.finish();
}

/// What is wrong with a file is told in the same words, with the same place.
#[test]
fn what_is_wrong_is_told_alike() {
    let mut pair = Pair::new(PrivatePmcd::with([AgentSpec::sample()]).start());
    pair.file("bad-part", "\naa { one 29:0:10\n bad- }\n");
    for (depth, text) in (1..=6).map(|depth| (depth, format!("#include \"deep{}\"\n", depth + 1))) {
        pair.file(&format!("deep{depth}"), &text);
    }
    for option in ["-n", "-N"] {
        pair.compare("pminfo", &format!("{option} /nonexistent"));
        pair.compare("pmprobe", &format!("{option} /nonexistent mid"));
    }
    for (at, text) in WRONG.iter().enumerate() {
        let file = pair.file(&format!("wrong{at}"), text);
        let option = if text.contains("29:0:10 ") { "-N" } else { "-n" };
        pair.compare("pminfo", &format!("{option} {file}"));
    }
    let file = pair.file("wrong", "root {\n a x- }\n");
    for (tool, args) in [("pmprobe", ""), ("pmval", "a"), ("pmstore", "a 1"), ("pmevent", "a")] {
        pair.compare(tool, &format!("-n {file} {args}"));
    }
    assert!(pair.finish() >= 60);
}

const WRONG: [&str; 72] = [
    "root { a }\n",
    "root { a 29:0:1 \n",
    "root { a 29:0 }\n",
    "root { a 29:0:1 a 29:0:2 }\n",
    "root { a 29:0:1 } b { c 29:0:2 }\n",
    "root { a } a { c 29:0:2 } a { d 29:0:3 }\n",
    "a { c 29:0:2 }\n",
    "",
    "root { }\n",
    "root { a 600:0:1 }\n",
    "root { a 511:0:1 }\n",
    "root { a 511:*:* }\n",
    "root { a 29:5000:1 }\n",
    "root { a 29:0:1024 }\n",
    "root { a 99999999999:0:1 }\n",
    "root { 1a 29:0:1 }\n",
    "root { a-b 29:0:1 }\n",
    "root a 29:0:1 }\n",
    "root { a { b 29:0:1 } }\n",
    "root { a 29:0:1 /* x \n",
    "#include \"nofile\"\nroot { a 29:0:1 }\n",
    "#include <nofile>\nroot { a 29:0:1 }\n",
    "#include nofile\nroot { a 29:0:1 }\n",
    "#include \"nofile\nroot { a 29:0:1 }\n",
    "#include <nofile\nroot { a 29:0:1 }\n",
    "#include \"nofile>\nroot { a 29:0:1 }\n",
    "#include <\nroot { a 29:0:1 }\n",
    "#include \"bad-part\" more\nroot { a 29:0:1 }\n",
    "root { aa }\n#include \"bad-part\"\n",
    "#include \"deep2\"\nroot { }\n",
    "#foo\nroot { a 29:0:1 }\n",
    "root {\n#fumble\n}\n",
    "#define B bb\nroot {\n a 29:0:1  \n\n  #fumble A  :  B\n}\n",
    "/* x */\n\n#foo\nroot { a 29:0:1 }\n",
    "root {\n a 29:0:1\n# 12 foo\n}\n",
    "root {\n a 29:0:1\n# 12\n}\n",
    "root {\n# 12 \"other\"\n#fumble\n}\n",
    "#ifdef A\nroot { a 29:0:1 }\n",
    "#endif\nroot { a 29:0:1 }\n",
    "#else\nroot { a 29:0:1 }\n",
    "#ifdef A\n#ifdef B\n#endif\n#endif\nroot { a 29:0:1 }\n",
    "#define 1x 5\nroot { a 29:0:1 }\n",
    "#define F(x) 5\nroot { a 29:0:1 }\n",
    "#define\nroot { a 29:0:1 }\n",
    "#undef\nroot { a 29:0:1 }\n",
    "#define A b  c \nroot { a 29:0:1 }\n",
    "#define A\n#define A 2\nroot { a 29:0:1 }\n",
    "#define X \"29\"\nroot { a X:0:11 }\n",
    "root { a 29:*:* }\n a { b 29:0:1 }\n",
    "root { a 29:*:3 }\n",
    "root{a 29:0:11}\n",
    "root { a : 0 }\n",
    "root.x { a 29:0:11 }\n",
    "root { a XX:0:11 }\n",
    "root { a b }\na { x }\n",
    "root { b a }\na { x }\nq { z }\n",
    "root { a 29:0:1 a.b 29:0:2 }\n",
    "root { root 29:0:10 }\n",
    "root { x } root.x { y 29:0:10 }\n",
    "root { a 29:0:10 } } \n",
    "root { a 29:0:10 } root { b 29:0:11 }\n",
    "root {\n\ta 29:0:1\n\tb-\t29:0:2\n}\n",
    "#define Q 29\nroot { /* comment */\n a Q:0:1 Q:x:1 \n}\n",
    "root {\n a 29:0:1\n\n a 29:0:2\n}\n",
    "root { \ta\t- }\n",
    "root {\n a 29:\n}\n",
    "root\n",
    "# 5 \"foo\"\nroot { a- }\n",
    "root { a 29:*:* b 29:*:* }\n",
    "root { a 29:0:10 b c 29:0:10 d 29:0:10 }\nb { x 29:0:10 }\n",
    "{ a }\n",
    "root { a 29:0:1 29:0:2 }\n",
];
