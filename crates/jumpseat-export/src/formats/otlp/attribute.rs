//! Attributes: labels and fields of PCP as `KeyValue`s.

use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use pcp_model::{Label, Value};

/// The attribute of a name and a value.
pub(super) fn attribute(key: &str, value: Any) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// The attribute of a name and a text.
pub(super) fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Any::StringValue(value.to_owned()))
}

/// A value as an attribute has it. Numbers that 64 bits with a sign cannot hold become text, so that no digit is lost.
pub(super) fn any(value: &Value) -> Option<Any> {
    Some(match value {
        Value::I32(number) => Any::IntValue((*number).into()),
        Value::U32(number) => Any::IntValue((*number).into()),
        Value::I64(number) => Any::IntValue(*number),
        Value::U64(number) => match i64::try_from(*number) {
            Ok(number) => Any::IntValue(number),
            Err(_) => Any::StringValue(number.to_string()),
        },
        Value::Float(number) => Any::DoubleValue((*number).into()),
        Value::Double(number) => Any::DoubleValue(*number),
        Value::String(text) => Any::StringValue(String::from_utf8_lossy(text).into_owned()),
        Value::Aggregate(bytes) => Any::BytesValue(bytes.to_vec()),
        _ => return None,
    })
}

/// A label, whose value is JSON.
pub(super) fn label(label: &Label) -> KeyValue {
    let value = serde_json::from_str(&label.value).map(|value| json(&value));
    attribute(&label.name, value.unwrap_or_else(|_| Any::StringValue(label.value.clone())))
}

/// A value that is JSON. What is no text, boolean or number is JSON as text.
pub(super) fn json(value: &serde_json::Value) -> Any {
    match value {
        serde_json::Value::String(text) => Any::StringValue(text.clone()),
        serde_json::Value::Bool(bit) => Any::BoolValue(*bit),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Any::IntValue(number),
            (None, Some(number)) => Any::DoubleValue(number),
            (None, None) => Any::StringValue(number.to_string()),
        },
        other => Any::StringValue(other.to_string()),
    }
}

/// Takes in labels of a level further inside: of two of one name the inner one counts.
pub(super) fn overlay(attributes: &mut Vec<KeyValue>, inner: impl IntoIterator<Item = KeyValue>) {
    for attribute in inner {
        match attributes.iter_mut().find(|known| known.key == attribute.key) {
            Some(known) => *known = attribute,
            None => attributes.push(attribute),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_keep_their_types_and_inner_ones_count() {
        let of = |name: &str, value: &str| {
            let flags = pcp_model::LabelFlags::default();
            label(&Label { name: name.to_owned(), value: value.to_owned(), flags })
        };
        let mut all = vec![of("a", "\"x\""), of("b", "true")];
        overlay(&mut all, [of("a", "7"), of("c", "1.5"), of("d", "{\"k\":1}")]);
        let values = all.into_iter().map(|pair| (pair.key, pair.value.and_then(|value| value.value)));
        let expected = [
            ("a", Any::IntValue(7)),
            ("b", Any::BoolValue(true)),
            ("c", Any::DoubleValue(1.5)),
            ("d", Any::StringValue("{\"k\":1}".to_owned())),
        ];
        assert_eq!(values.collect::<Vec<_>>(), expected.map(|(key, value)| (key.to_owned(), Some(value))));
    }
}
