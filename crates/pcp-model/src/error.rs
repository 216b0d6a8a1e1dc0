//! The PM_ERR codes (spec `wire.md` 20, `units.md` 13).

use std::fmt;

use super::Level;

/// A PCP error code: negative; a `PM_ERR_*` constant, or an errno negated.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PmError(pub i32);

macro_rules! codes {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        impl PmError {
            $(#[doc = concat!("`PM_ERR_", stringify!($name), "`: ", $text, ".")]
            pub const $name: PmError = PmError($code);)*

            /// The constant's name, `PM_ERR_...`, if the code has one.
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(concat!("PM_ERR_", stringify!($name))),)*
                    _ => None,
                }
            }

            const fn text(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    GENERIC = -12345, "Generic error, already reported above";
    PMNS = -12346, "Problems parsing PMNS definitions";
    NOPMNS = -12347, "PMNS not accessible";
    DUPPMNS = -12348, "Attempt to reload the PMNS";
    TEXT = -12349, "One-line or help text is not available";
    APPVERSION = -12350, "Metric not supported by this version of monitored application";
    VALUE = -12351, "Missing metric value(s)";
    TIMEOUT = -12353, "Timeout waiting for a response from PMCD";
    NODATA = -12354, "Empty archive file";
    RESET = -12355, "PMCD reset or configuration change";
    NAME = -12357, "Unknown metric name";
    PMID = -12358, "Unknown or illegal metric identifier";
    INDOM = -12359, "Unknown or illegal instance domain identifier";
    INST = -12360, "Unknown or illegal instance identifier";
    UNIT = -12361, "Illegal pmUnits specification";
    CONV = -12362, "Impossible value or scale conversion";
    TRUNC = -12363, "Truncation in value conversion";
    SIGN = -12364, "Negative value in conversion to unsigned";
    PROFILE = -12365, "Explicit instance identifier(s) required";
    IPC = -12366, "IPC protocol failure";
    EOF = -12368, "IPC channel closed";
    NOTHOST = -12369, "Operation requires context with host source of metrics";
    EOL = -12370, "End of PCP archive";
    MODE = -12371, "Illegal mode specification";
    LABEL = -12372, "Illegal label record at start of a PCP archive file";
    LOGREC = -12373, "Corrupted record in a PCP archive";
    NOTARCHIVE = -12374, "Operation requires context with archive source of metrics";
    LOGFILE = -12375, "Missing PCP archive file";
    NOCONTEXT = -12376, "Attempt to use an illegal context";
    PROFILESPEC = -12377, "NULL pmInDom with non-NULL instlist";
    PMID_LOG = -12378, "Metric not defined in the PCP archive";
    INDOM_LOG = -12379, "Instance domain identifier not defined in the PCP archive";
    INST_LOG = -12380, "Instance identifier not defined in the PCP archive";
    NOPROFILE = -12381, "Missing profile - protocol botch";
    NOAGENT = -12386, "No PMCD agent for domain of request";
    PERMISSION = -12387, "No permission to perform requested operation";
    CONNLIMIT = -12388, "PMCD connection limit for this host exceeded";
    AGAIN = -12389, "Try again. Information not currently available";
    ISCONN = -12390, "Already Connected";
    NOTCONN = -12391, "Not Connected";
    NEEDPORT = -12392, "A non-null port name is required";
    NONLEAF = -12394, "Metric name is not a leaf in PMNS";
    TYPE = -12397, "Unknown or illegal metric type";
    THREAD = -12398, "Operation not supported for multi-threaded applications";
    NOCONTAINER = -12399, "Container not found";
    BADSTORE = -12400, "Bad input to pmstore";
    LOGOVERLAP = -12401, "Archives overlap in time";
    LOGHOST = -12402, "Archives differ by host";
    LOGCHANGETYPE = -12404, "The type of a metric has changed in an archive";
    LOGCHANGESEM = -12405, "The semantics of a metric has changed in an archive";
    LOGCHANGEINDOM = -12406, "The instance domain of a metric has changed in an archive";
    LOGCHANGEUNITS = -12407, "The units of a metric have changed in an archive";
    NEEDCLIENTCERT = -12408, "PMCD requires a client certificate";
    BADDERIVE = -12409, "Derived metric definition failed";
    NOLABELS = -12410, "No support for metric label metadata";
    PMDAFENCED = -12411, "PMDA is currently fenced and unable to respond to requests";
    RECTYPE = -12412, "Incorrect record type in an archive";
    FEATURE = -12413, "Archive feature not supported";
    TLS = -12414, "TLS protocol failure";
    ARG = -12415, "Bad value for function argument";
    BOTCH = -12442, "Internal inconsistency detected or assertion failed";
    TOOSMALL = -12443, "Insufficient elements in list";
    TOOBIG = -12444, "Result size exceeded";
    FAULT = -12445, "QA fault injected";
    PMDAREADY = -13393, "PMDA is now responsive to requests";
    PMDANOTREADY = -13394, "PMDA is not yet ready to respond to requests";
    NYI = -21344, "Functionality not yet implemented";
}

impl PmError {
    /// The code for an operating system error number.
    pub const fn from_errno(errno: i32) -> PmError {
        PmError(-errno)
    }
}

/// The text of an error as a release of PCP has it: see [`PmError::at`].
#[derive(Clone, Copy, Debug)]
pub struct ErrorAt {
    error: PmError,
    level: Level,
}

impl PmError {
    /// The text of `pmErrStr(3)` as a release has it: that of the `Display` of the error itself, but for those of archives,
    /// which up to 6.0 are called logs as well.
    pub const fn at(self, level: Level) -> ErrorAt {
        ErrorAt { error: self, level }
    }
}

impl fmt::Display for ErrorAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.error {
            _ if self.level > Level::V603 => return self.error.fmt(f),
            PmError::NODATA => "Empty archive log file",
            PmError::EOL => "End of PCP archive log",
            PmError::LABEL => "Illegal label record at start of a PCP archive log file",
            PmError::LOGREC => "Corrupted record in a PCP archive log",
            PmError::LOGFILE => "Missing PCP archive log file",
            PmError::PMID_LOG => "Metric not defined in the PCP archive log",
            PmError::INDOM_LOG => "Instance domain identifier not defined in the PCP archive log",
            PmError::INST_LOG => "Instance identifier not defined in the PCP archive log",
            error => return error.fmt(f),
        };
        f.write_str(text)
    }
}

impl From<&std::io::Error> for PmError {
    fn from(error: &std::io::Error) -> PmError {
        error.raw_os_error().map_or(PmError::GENERIC, PmError::from_errno)
    }
}

impl fmt::Display for PmError {
    /// The text of `pmErrStr(3)` as PCP has it since 6.3.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = self.text() {
            return f.write_str(text);
        }
        match self.0 {
            0 => f.write_str("No error"),
            code @ ..-21344 => match code + 21344 {
                sasl @ -1000.. => {
                    let text = SASL.get(usize::try_from(-1 - sasl).unwrap_or(usize::MAX));
                    write!(f, "Authentication - {}", text.copied().unwrap_or("undefined error!"))
                }
                other => write!(f, "Unknown secure sockets error {code} ({other})"),
            },
            -12344..=-1 => {
                // std appends " (os error N)"; PCP prints the system's text alone.
                let text = std::io::Error::from_raw_os_error(-self.0).to_string();
                f.write_str(text.split(" (os error").next().unwrap_or(&text))
            }
            code => write!(f, "No such PMAPI error code ({code})"),
        }
    }
}

/// The texts of the SASL library's errors, from -1 downwards.
const SASL: [&str; 32] = [
    "generic failure",
    "no memory available",
    "overflowed buffer",
    "no mechanism available",
    "bad protocol / cancel",
    "can't request information until later in exchange",
    "invalid parameter supplied",
    "transient failure (e.g., weak key)",
    "integrity check failed",
    "server failed mutual authentication step",
    "mechanism doesn't support requested feature",
    "SASL library is not initialized",
    "authentication failure",
    "authorization failure",
    "mechanism too weak for this user",
    "encryption needed to use mechanism",
    "One time use of a plaintext password will enable requested mechanism for user",
    "passphrase expired, has to be reset",
    "account disabled",
    "user not found",
    "passphrase locked",
    "requested change was not needed",
    "version mismatch with plug-in",
    "remote authentication server unavailable",
    "undefined error!",
    "user exists, but no verifier for user",
    "passphrase is too weak for security policy",
    "user supplied passwords are not permitted",
    "sasl_setpass needs old password in order to perform password change",
    "sasl_setpass can't store a property because of a constraint violation",
    "undefined error!",
    "channel binding failure",
];

/// Its name, its code and its text: what a `main` that returns it, or an `unwrap`, shows is for people, too.
impl fmt::Debug for PmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name}({}): {self}", self.0),
            None => write!(f, "PmError({}): {self}", self.0),
        }
    }
}

impl std::error::Error for PmError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_the_library() {
        assert_eq!(PmError(-12357).to_string(), "Unknown metric name");
        assert_eq!(PmError(0).to_string(), "No error");
        assert_eq!(PmError(-2).to_string(), "No such file or directory");
        assert_eq!(PmError(-12352).to_string(), "No such PMAPI error code (-12352)");
        assert_eq!(PmError(-21357).to_string(), "Authentication - authentication failure");
        assert_eq!(PmError(-21344 - 40).to_string(), "Authentication - undefined error!");
        assert_eq!(PmError(-22345).to_string(), "Unknown secure sockets error -22345 (-1001)");
        assert_eq!(PmError(3).to_string(), "No such PMAPI error code (3)");
        assert_eq!(format!("{:?}", PmError::NAME), "PM_ERR_NAME(-12357): Unknown metric name");
        assert_eq!(format!("{:?}", PmError(-2)), "PmError(-2): No such file or directory");
    }
}
