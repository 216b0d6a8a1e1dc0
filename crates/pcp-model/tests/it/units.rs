//! Replays what a real PCP said about units: parsing, printing and scale conversion.

use crate::units_support::{rows, word};
use pcp_model::{Conversion, PmError, Units, UnitsVocabulary, Value};
use serde_json::Value as Json;

fn check_parse(input: &str, words: UnitsVocabulary, expected: &Json) {
    let found = Units::parse(input, words);
    if expected.get("signame").is_some() {
        assert!(found.is_err(), "{input:?}");
    } else if expected["sts"] == 0 {
        let (units, multiplier) = found.unwrap_or_else(|error| panic!("{input:?}: {error}"));
        assert_eq!(units.to_word(), word(&expected["raw"]), "{input:?}");
        match expected.get("mult_bits") {
            Some(bits) => {
                let bits = u64::from_str_radix(bits.as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
                let expected = f64::from_bits(bits);
                let same = multiplier.to_bits() == bits || multiplier.is_nan() && expected.is_nan();
                assert!(same, "{input:?}: {multiplier} {expected}");
            }
            None => assert_eq!(
                multiplier,
                expected["mult"].as_str().unwrap().parse::<f64>().unwrap(),
                "{input:?}"
            ),
        }
        let text =
            if words == UnitsVocabulary::Extra { units.with_extra().to_string() } else { units.to_string() };
        assert_eq!(text, expected["str"].as_str().unwrap(), "{input:?}");
    } else {
        assert_eq!(found.unwrap_err().to_string(), expected["err"].as_str().unwrap(), "{input:?}");
    }
}

#[test]
fn parsing() {
    for row in rows("units-parse.ndjson") {
        check_parse(row["in"].as_str().unwrap(), UnitsVocabulary::Classic, &row);
    }
    for row in rows("units-versions.ndjson").iter().filter(|row| row["table"] == "units-parse") {
        let input = row["key"]["in"].as_str().unwrap();
        check_parse(input, UnitsVocabulary::Classic, &row["v638"]);
        check_parse(input, UnitsVocabulary::Extra, &row["v721"]);
    }
}

#[test]
fn printing() {
    let table = rows("units-str.ndjson");
    assert_eq!(table.len(), 379);
    for row in &table {
        let units = Units::from_word(word(&row["raw"]));
        assert_eq!(units.to_string(), row["str"].as_str().unwrap(), "{row}");
    }
    for row in rows("units-versions.ndjson").iter().filter(|row| row["table"] == "units-str") {
        let units = Units::from_word(word(&row["key"]["raw"]));
        assert_eq!(units.to_string(), row["v638"]["str"].as_str().unwrap(), "{row}");
        assert_eq!(units.with_extra().to_string(), row["v721"]["str"].as_str().unwrap(), "{row}");
    }
}

fn value(kind: &str, text: &str) -> Option<Value> {
    Some(match kind {
        "32" => Value::I32(text.parse().unwrap()),
        "U32" => Value::U32(text.parse().unwrap()),
        "64" => Value::I64(text.parse().unwrap()),
        "U64" => Value::U64(text.parse().unwrap()),
        "FLOAT" => Value::Float(text.parse().unwrap()),
        "DOUBLE" => Value::Double(text.parse().unwrap()),
        _ => return None,
    })
}

fn check_conversion(key: &Json, words: UnitsVocabulary, expected: &Json) {
    let (from, to) = (Units::from_word(word(&key["iunit"])), Units::from_word(word(&key["ounit"])));
    let kind = key["type_s"].as_str().unwrap();
    let input = value(kind, key["in"].as_str().unwrap_or("0"));
    let conversion = Conversion::new(from, to, words);
    let found = conversion.and_then(|conversion| match &input {
        Some(input) => conversion.value(input),
        None => Err(PmError::CONV),
    });
    if expected.get("signame").is_some() {
        assert_eq!(found, Err(PmError::CONV), "{key}");
    } else if expected["sts"] == 0 {
        let text = expected["out"].as_str().unwrap();
        let expected = value(kind, text).unwrap();
        match (found.unwrap_or_else(|error| panic!("{key}: {error}")), expected) {
            (Value::Double(a), Value::Double(b)) if a.is_nan() && b.is_nan() => {}
            (Value::Float(a), Value::Float(b)) if a.is_nan() && b.is_nan() => {}
            (found, expected) => assert_eq!(found, expected, "{key}"),
        }
    } else {
        assert_eq!(found, Err(PmError(expected["sts"].as_i64().unwrap() as i32)), "{key}");
    }
}

#[test]
fn conversion() {
    for row in rows("convscale.ndjson") {
        check_conversion(&row, UnitsVocabulary::Classic, &row);
    }
    for row in rows("units-versions.ndjson").iter().filter(|row| row["table"] == "convscale") {
        check_conversion(&row["key"], UnitsVocabulary::Classic, &row["v638"]);
        check_conversion(&row["key"], UnitsVocabulary::Extra, &row["v721"]);
    }
}
