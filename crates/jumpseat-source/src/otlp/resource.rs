//! Resources: who sends, and so which source the records belong to.

use std::sync::Arc;

use hashbrown::HashMap;

use super::value::{AttributeLimits, Attributes, find_text};
use super::wire::{Fields, Place};
use crate::event::{Event, Refusal, Value};
use crate::lanes::{LaneId, Lanes};
use crate::origin::Origin;
use crate::registry::{MAX_SOURCE_NAME, SourceRefused, sanitize};

/// Most resources that are remembered, and the longest; others are looked at anew each time.
const MAX_KNOWN: usize = 1024;
const MAX_KNOWN_LEN: usize = 4096;
/// Most attributes of a resource that are looked at.
const MAX_ATTRIBUTES: usize = 256;
/// Most labels of a source, and the longest value of one, in bytes.
const MAX_LABELS: usize = 32;
const MAX_LABEL: usize = 256;
/// The label with the resource as it was sent, for who passes records on: a JSON text of `{"attributes":[[name,value],...]}`. The
/// longest one; a resource that is longer has none.
const RESOURCE: &str = "otel_resource";
const MAX_RESOURCE: usize = 8192;

/// Resources and the lanes of their sources.
pub(super) struct Resources {
    /// The source of senders that give no service name, and of what cannot be attributed.
    pub default: LaneId,
    /// The same for who sends now.
    pub own: LaneId,
    /// Whether the instance id of a service is part of its source's name.
    by_instance: bool,
    /// Where this listens, for labels.
    address: String,
    known: HashMap<Box<[u8]>, Sender>,
    /// When they were looked at; in another one sources may have given their places to others.
    epoch: u32,
}

/// Where records of a resource belong.
#[derive(Clone)]
pub(super) struct Sender {
    pub lane: LaneId,
    /// The instance of the service, where that is not part of the source's name.
    pub instance: Option<Arc<[u8]>>,
}

impl Resources {
    /// For a listener at `address`.
    ///
    /// # Errors
    /// The default source cannot be.
    pub(super) fn new(
        lanes: &mut Lanes,
        default: &str,
        by_instance: bool,
        address: &str,
    ) -> Result<Resources, SourceRefused> {
        let lane = lanes.source(default.as_bytes())?;
        lanes.origin(lane, Origin { kind: "otlp", address: address.to_owned(), service: None });
        Ok(Resources {
            default: lane,
            own: lane,
            by_instance,
            address: address.to_owned(),
            known: HashMap::default(),
            epoch: lanes.epoch(),
        })
    }

    /// Where records of the resource at this place belong.
    ///
    /// # Errors
    /// The resource is malformed.
    pub(super) fn lane(
        &mut self,
        lanes: &mut Lanes,
        body: &[u8],
        place: Place,
        event: &mut Event,
    ) -> Result<Sender, Refusal> {
        let bytes = body.get(place.clone()).unwrap_or_default();
        if self.epoch != lanes.epoch() {
            self.epoch = lanes.epoch();
            self.known.clear();
        }
        // A resource is the same bytes in each request of a program: no need to look into it, but where it depends on who sends.
        if let Some(sender) = self.known.get(bytes).filter(|_| !lanes.has_pass()) {
            return Ok(sender.clone());
        }
        let mut attributes = Vec::new();
        let mut fields = Fields::of(body, place);
        loop {
            let at = fields.at();
            match fields.next()? {
                Some((1, wire)) if attributes.len() < MAX_ATTRIBUTES => attributes.push(wire.place(at)?),
                Some(_) => {}
                None => break,
            }
        }
        let service = find_text(body, &attributes, b"service.name").filter(|name| !name.is_empty());
        let instance = find_text(body, &attributes, b"service.instance.id").filter(|id| !id.is_empty());
        let lane = self.source(lanes, service, instance.filter(|_| self.by_instance));
        let instance = instance.filter(|_| !self.by_instance).map(cut);
        // The default source has many senders, and so no service of its own.
        if lane != self.default && lane != self.own {
            let origin = Origin {
                kind: "otlp",
                address: self.address.clone(),
                service: service.map(|name| name.chars().take(MAX_LABEL).collect()),
            };
            lanes.origin(lane, origin);
            let mut labels = labels(body, &attributes, event)?;
            labels.extend(sent(body, &attributes, event)?.map(|json| (RESOURCE.to_owned(), json)));
            lanes.labels(lane, labels);
        }
        if self.known.len() >= MAX_KNOWN {
            // Starting anew is simpler than ageing, and costs one look at each resource.
            self.known.clear();
        }
        // Whether somebody may send in the name of a source is asked for each request.
        let is_anybodys =
            !lanes.has_pass() && lanes.is_anybodys(lane) && (lane != self.default || service.is_none());
        if bytes.len() <= MAX_KNOWN_LEN && is_anybodys {
            self.known.insert(bytes.into(), Sender { lane, instance: instance.clone() });
        }
        Ok(Sender { lane, instance })
    }

    /// The source of a service; where there cannot be one more, that of all its instances, or the default one.
    fn source(&self, lanes: &mut Lanes, service: Option<&str>, instance: Option<&str>) -> LaneId {
        let Some(service) = service else { return self.own };
        let name = source_name(service, None);
        let whole = instance.map(|instance| source_name(service, Some(instance)));
        // The registry counts what it refuses.
        whole
            .and_then(|name| lanes.source(name.as_bytes()).ok())
            .or_else(|| lanes.source(name.as_bytes()).ok())
            .unwrap_or(self.own)
    }
}

/// An instance's id as it is in records.
fn cut(id: &str) -> Arc<[u8]> {
    pcp_model::text::cut(id, MAX_LABEL).as_bytes().into()
}

/// `service` or `service@instance` with every character that a source's name cannot have replaced.
pub(super) fn source_name(service: &str, instance: Option<&str>) -> String {
    let mut name = String::new();
    let at = instance.map(|_| "@");
    for c in [Some(service), at, instance].into_iter().flatten().flat_map(str::chars) {
        let allowed = !(c.is_whitespace() || c.is_control() || c == '/' || c == '[' && name.is_empty());
        let c = if allowed { c } else { '_' };
        if name.len() + c.len_utf8() > MAX_SOURCE_NAME {
            break;
        }
        name.push(c);
    }
    name
}

/// Labels by which collectors and agents say who they are: what a sender says of itself must not take their place.
const COLLECTORS: [&str; 9] =
    ["agent", "about", "container", "domainname", "groupid", "hostname", "indom_name", "machineid", "userid"];

/// The attributes besides the service's name as labels.
fn labels(body: &[u8], attributes: &[Place], event: &mut Event) -> Result<Vec<(String, String)>, Refusal> {
    event.clear();
    let limits = AttributeLimits { max_field: MAX_LABEL, max_fields: MAX_LABELS };
    let mut taken = Attributes::new(body, event, limits);
    for place in attributes {
        taken.take(place.clone())?;
    }
    let mut labels: Vec<(String, String)> = Vec::new();
    for field in &event.fields {
        let mut name = sanitize(&String::from_utf8_lossy(event.text(body, field.name)));
        if COLLECTORS.contains(&name.as_str()) {
            name.insert_str(0, "resource_");
        }
        let value = match field.value {
            Value::Text(text) => String::from_utf8_lossy(event.text(body, text)).into_owned(),
            Value::Bool(value) => value.to_string(),
            Value::I64(value) => value.to_string(),
            Value::U64(value) => value.to_string(),
            Value::Double(value) => value.to_string(),
        };
        if name != "service_name" && !labels.iter().any(|(known, _)| *known == name) {
            labels.push((name, value));
        }
    }
    Ok(labels)
}

/// The resource as it was sent; `None` if it is too long.
fn sent(body: &[u8], attributes: &[Place], event: &mut Event) -> Result<Option<String>, Refusal> {
    event.clear();
    // Beyond the length that fits, so that what is cut is seen.
    let limits = AttributeLimits { max_field: MAX_RESOURCE, max_fields: MAX_ATTRIBUTES };
    let mut taken = Attributes::new(body, event, limits);
    for place in attributes {
        taken.take(place.clone())?;
    }
    let text = |text| String::from_utf8_lossy(event.text(body, text));
    let pairs = event.fields.iter().map(|field| {
        let value: serde_json::Value = match field.value {
            Value::Text(value) => text(value).into(),
            Value::Bool(value) => value.into(),
            Value::I64(value) => value.into(),
            Value::U64(value) => value.into(),
            // What JSON has no number for is text, as everywhere here.
            Value::Double(value) if !value.is_finite() => value.to_string().into(),
            Value::Double(value) => value.into(),
        };
        serde_json::json!([text(field.name), value])
    });
    let json = serde_json::json!({ "attributes": pairs.collect::<Vec<_>>() }).to_string();
    Ok((json.len() <= MAX_RESOURCE && !event.truncated).then_some(json))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::is_source_name;

    #[test]
    fn every_service_gets_a_name_that_a_source_may_have() {
        for (service, instance, name) in [
            ("checkout", None, "checkout"),
            ("checkout", Some("pod-7"), "checkout@pod-7"),
            ("my shop/web", Some("a b"), "my_shop_web@a_b"),
            ("[x\n", None, "_x_"),
            ("\u{0}", None, "_"),
            ("größe", None, "größe"),
        ] {
            assert_eq!(source_name(service, instance), name);
            assert!(is_source_name(name), "{name}");
        }
        let long = source_name(&"é".repeat(100), Some("x"));
        assert!(is_source_name(&long) && long.len() == MAX_SOURCE_NAME, "{long}");
    }
}
