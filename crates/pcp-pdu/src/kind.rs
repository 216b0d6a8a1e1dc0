//! PDU type numbers (`docs/pcp/wire.md` 2). The same in every PCP release this crate talks to.

macro_rules! kinds {
    ($($name:ident = $code:literal, $doc:literal;)*) => {
        $(#[doc = $doc] pub const $name: u32 = $code;)*

        /// The name of a type number.
        pub const fn name(kind: u32) -> Option<&'static str> {
            match kind {
                $($code => Some(stringify!($name)),)*
                _ => None,
            }
        }
    };
}

kinds! {
    ERROR = 0x7000, "An error, an acknowledgement, a state change notice or the challenge.";
    RESULT = 0x7001, "Reply to FETCH; store request.";
    PROFILE = 0x7002, "Instance profile.";
    FETCH = 0x7003, "Request for values.";
    DESC_REQ = 0x7004, "Request for a descriptor.";
    DESC = 0x7005, "A descriptor.";
    INSTANCE_REQ = 0x7006, "Request for instances.";
    INSTANCE = 0x7007, "Instances.";
    TEXT_REQ = 0x7008, "Request for help text.";
    TEXT = 0x7009, "Help text.";
    CREDS = 0x700c, "Credentials.";
    PMNS_IDS = 0x700d, "Metric identifiers.";
    PMNS_NAMES = 0x700e, "Metric names.";
    PMNS_CHILD = 0x700f, "Request for the children of a name.";
    PMNS_TRAVERSE = 0x7010, "Request for the metrics below a name.";
    ATTR = 0x7011, "Connection attribute, authentication.";
    LABEL_REQ = 0x7012, "Request for labels.";
    LABEL = 0x7013, "Labels.";
    HIGHRES_FETCH = 0x7014, "Request for values with a nanosecond timestamp.";
    HIGHRES_RESULT = 0x7015, "Reply to HIGHRES_FETCH.";
    DESC_IDS = 0x7016, "Request for several descriptors.";
    DESCS = 0x7017, "Several descriptors.";
}
