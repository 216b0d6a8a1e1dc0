//! `jumpseat store` next to PCP's `pmstore`: each starts from the same values.

use crate::tools_support::Pair;
use support::{AgentSpec, PrivatePmcd};

const VALUES: [&str; 29] = [
    "0",
    "1",
    "-1",
    "+7",
    "007",
    "0x10",
    "-0x10",
    "0xfg",
    "' 5'",
    "'5 '",
    "abc",
    "''",
    "1.5",
    "-1.5e3",
    "1e400",
    "1e-40",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "inf",
    "3.5e38",
    "'two words'",
];

fn pair() -> Pair {
    Pair::new(PrivatePmcd::with([AgentSpec::sample()]).start())
}

/// Every value, stored in a metric of this type.
fn values(kind: &str) {
    let mut pair = pair();
    let metric = format!("sample.{kind}.write_me");
    pair.after(&format!("pmstore {metric} 13"), |pair| {
        for value in VALUES {
            pair.compare("pmstore", &format!("{metric} {value}"));
            pair.compare("pmstore", &format!("-F {metric} {value}"));
        }
    });
    assert!(pair.finish() > 50);
}

#[test]
fn values_for_long() {
    values("long");
}

#[test]
fn values_for_ulong() {
    values("ulong");
}

#[test]
fn values_for_longlong() {
    values("longlong");
}

#[test]
fn values_for_ulonglong() {
    values("ulonglong");
}

#[test]
fn values_for_float() {
    values("float");
}

#[test]
fn values_for_double() {
    values("double");
}

#[test]
fn values_for_string() {
    values("string");
}

#[test]
fn instances_and_every_mistake() {
    let mut pair = pair();
    pair.after("pmstore sample.colour 0", |pair| {
        for args in [
            "sample.colour 5",
            "-i red sample.colour 5",
            "-i red,green sample.colour 6",
            "-i red -i blue sample.colour 6",
            "-i red,red sample.colour 5",
            "-i , sample.colour 5",
            "-i green,,red sample.colour 5",
            "-F -i red sample.colour 9",
            "-i pink sample.colour 5",
            "-i red,pink sample.colour 5",
            "--insts=red --fetch sample.colour 4",
            "--in=red sample.colour 4",
            "-f sample.colour 3",
        ] {
            pair.compare("pmstore", args);
        }
    });
    // An agent that leaves the instance domain of its answers open.
    pair.after("pmstore -i 1,2 pmcd.control.register 7", |pair| {
        for args in
            ["-i 1 pmcd.control.register 1", "-i 1,2 pmcd.control.register 0", "-i x pmcd.control.register 0"]
        {
            pair.compare("pmstore", args);
        }
    });
    for args in [
        "-i x sample.long.one 5",
        "sample.long.one 5",
        "sample.string.null abc",
        "sample.aggregate.write_me 1",
        "sample.aggregate.hullo 1",
        "sample.event.records 1",
        "sample.event.highres_records 1",
        "sample.bad.unknown 1",
        "sample.bad.nosupport 1",
        "-f sample.bad.nosupport 1",
        "sample.bad.novalues 1",
        "sample.bad.fetch.again 1",
        "sample.bad 1",
        "sample.nosuch 1",
        "sample.needprofile 4",
        "-i colleen sample.needprofile 4",
        "sample.darkness 3",
        "event.flags 1",
        "29.0.5 4",
        "nosuch x",
        "sample.long.hundred abc",
        "pmcd.version 3",
    ] {
        pair.compare("pmstore", args);
    }
    let config = pair.file("derived.conf", "d.long = sample.long.ten\n");
    pair.with_env("PCP_DERIVED_CONFIG", &config, |pair| {
        pair.compare("pmstore", "d.long 3");
        pair.compare("pmstore", "-i x d.long 3");
    });
    assert!(pair.finish() > 30);
}

#[test]
fn values_that_are_forced_where_there_are_none() {
    // PCP's tool dies of these.
    let mut pair = pair();
    let output = pair.ours("pmstore", "-f sample.bad.novalues 1");
    assert_eq!(
        output.fails(1),
        "sample.bad.novalues: new value=\"1\" pmStore: No permission to perform requested operation\n"
    );
    let output = pair.ours("pmstore", "-f -i red sample.darkness 1");
    assert_eq!(
        output.fails(1),
        "sample.darkness: new value=\"1\" pmStore: No permission to perform requested operation\n"
    );
    // 7.2.1 takes a zero for a FLOAT.
    pair.set_level("7.2.1");
    assert_eq!(
        pair.ours("pmstore", "-F sample.float.write_me 0").ok(),
        "sample.float.write_me old value=13 new value=0\n"
    );
}
