//! Host specifications, `pcp://host:port@proxy?attributes` (`PCPIntro(1)`; `docs/pcp/fetchgroup.md` 20).
//!
//! ```text
//! spec     = [ "pcp:" | "pcps:" ] hostlist [ "?" attrs | "/" ignored ]
//!          | ( "local:" | "unix:" ) [ path ] [ "?" attrs ]
//! hostlist = host [ "@" proxy ]
//! host     = name [ ":" port { "," port } ]         name may stand in [ ], as IPv6 addresses must
//! attrs    = key [ "=" value ] { "&" key [ "=" value ] }          %XX and + in values are decoded
//! ```

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use pcp_model::PmError;

/// Where a collector is and how to connect to it, as a user writes it after `-h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSpec {
    /// Where it is.
    pub place: Place,
    /// What was said about encryption: by `pcps:` and `secure=`.
    pub security: Security,
    /// Everything else behind the `?`.
    pub attributes: HostAttributes,
}

/// Where a collector is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// On a host of the network, possibly behind a pmproxy.
    Inet {
        /// The collector's host.
        host: HostPorts,
        /// The proxy's host. Of its ports only the first is used.
        proxy: Option<HostPorts>,
    },
    /// On this machine.
    Socket {
        /// The socket; `None`: the one of the options.
        path: Option<PathBuf>,
        /// Whether `localhost` is tried when the socket does not work (`local:`).
        or_localhost: bool,
    },
}

/// A host and the ports to try on it, in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPorts {
    /// Name or address, without the brackets of an IPv6 address.
    pub host: String,
    /// The ports; empty: those of the options.
    pub ports: Vec<u16>,
}

/// Whether a connection is to be encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Security {
    /// No.
    #[default]
    Plain,
    /// If the collector can.
    Relaxed,
    /// Else there is no connection.
    Enforced,
}

impl Security {
    /// The level a text stands for: empty, `1` or `enforce`; `relaxed`.
    pub fn from_text(text: &str) -> Option<Security> {
        match text {
            "" | "1" | "enforce" => Some(Security::Enforced),
            "relaxed" => Some(Security::Relaxed),
            _ => None,
        }
    }
}

/// Attributes of a connection. A key without a value stands here with an empty one.
#[derive(Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct HostAttributes {
    /// Compression is asked for; no collector has it.
    pub compress: bool,
    /// The container whose metrics are wanted: letters, digits and `.-_`.
    pub container: Option<String>,
    /// For authentication: who to act as.
    pub userauth: Option<String>,
    /// For authentication.
    pub username: Option<String>,
    /// For authentication.
    pub password: Option<String>,
    /// For authentication.
    pub realm: Option<String>,
    /// The SASL mechanism.
    pub method: Option<String>,
}

impl HostAttributes {
    /// Whether any of them asks for authentication.
    pub(super) fn wants_authentication(&self) -> bool {
        let credentials = [&self.userauth, &self.username, &self.password, &self.realm, &self.method];
        credentials.iter().any(|credential| credential.is_some())
    }
}

impl fmt::Debug for HostAttributes {
    /// All of them, but of a password only that there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostAttributes { compress, container, userauth, username, password, realm, method } = self;
        f.debug_struct("HostAttributes")
            .field("compress", compress)
            .field("container", container)
            .field("userauth", userauth)
            .field("username", username)
            .field("password", &password.as_ref().map(|_| HIDDEN))
            .field("realm", realm)
            .field("method", method)
            .finish()
    }
}

/// What stands for a password where a specification is shown.
const HIDDEN: &str = "...";

/// A host specification as it may be shown to people: with `...` for a password. Any text does, as a message may be about one
/// that is no specification.
///
/// ```
/// assert_eq!(pcp_client::without_password("pcps://host?user=ada&pass=x/y"), "pcps://host?user=ada&pass=...");
/// ```
pub fn without_password(spec: &str) -> Cow<'_, str> {
    let Some((hosts, attributes)) = spec.split_once('?') else { return spec.into() };
    // Where a password begins. Who has misspelt the key has meant it all the same, and in a list of hosts the key of one stands
    // behind the value of the one before.
    let begin = |attribute: &str| {
        let key = attribute.to_ascii_lowercase().find("pass")?;
        Some(key + attribute[key..].find('=')? + 1)
    };
    if attributes.split('&').all(|attribute| begin(attribute).is_none()) {
        return spec.into();
    }
    let shown = attributes.split('&').map(|attribute| match begin(attribute) {
        Some(begin) => format!("{}{HIDDEN}", &attribute[..begin]),
        None => attribute.to_owned(),
    });
    format!("{hosts}?{}", shown.collect::<Vec<_>>().join("&")).into()
}

/// Why a text is no host specification. A password in it is not part of the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostSpecError {
    /// PCP's text for it: the specification, and below it a caret with the reason. Ends in a newline.
    #[error("{spec}\n{}^ -- {message}\n", " ".repeat(*column))]
    Syntax {
        /// The specification.
        spec: String,
        /// The place of the error, in bytes.
        column: usize,
        /// What is wrong there.
        message: &'static str,
    },
    /// There is no host in it.
    #[error("no host in specification '{spec}'")]
    NoHost {
        /// The specification.
        spec: String,
    },
    /// The value of an attribute cannot be used.
    #[error("bad host specification '{spec}': {key} {message}")]
    Attribute {
        /// The specification.
        spec: String,
        /// The attribute.
        key: &'static str,
        /// What is wrong with its value.
        message: &'static str,
    },
}

impl HostSpecError {
    /// What `pmNewContext(3)` returns.
    pub const fn code(&self) -> PmError {
        match self {
            HostSpecError::Syntax { .. } => PmError::GENERIC,
            HostSpecError::NoHost { .. } => PmError::NOTHOST,
            HostSpecError::Attribute { .. } => PmError::from_errno(nix::libc::EINVAL),
        }
    }
}

impl FromStr for HostSpec {
    type Err = HostSpecError;

    fn from_str(text: &str) -> Result<HostSpec, HostSpecError> {
        Parser { text, at: 0 }.spec()
    }
}

/// Whether a container may have this name.
pub(super) fn is_container_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
}

const UNEXPECTED: &str = "unexpected terminal character";
const MISSING_PORT: &str = "missing port";
const NON_NUMERIC: &str = "non-numeric port";

struct Parser<'a> {
    text: &'a str,
    /// A character boundary.
    at: usize,
}

impl<'a> Parser<'a> {
    fn spec(mut self) -> Result<HostSpec, HostSpecError> {
        let (place, secured) = if self.take("local:") {
            (self.socket(true)?, false)
        } else if self.take("unix:") {
            (self.socket(false)?, false)
        } else {
            let secured = self.take("pcps:");
            if secured || self.take("pcp:") {
                self.take_while(|c| c == '/');
            }
            (self.hosts()?, secured)
        };
        let security = if secured { Security::Enforced } else { Security::Plain };
        let mut spec = HostSpec { place, security, attributes: HostAttributes::default() };
        if self.take("?") {
            self.attributes(&mut spec)?;
        }
        Ok(spec)
    }

    /// The path of a socket; its leading slashes, however many, are one.
    fn socket(&mut self, or_localhost: bool) -> Result<Place, HostSpecError> {
        self.take_while(|c| c == '/');
        let path = self.take_while(|c| !matches!(c, ':' | '?'));
        if self.peek() == Some(':') {
            return Err(self.error(self.at, UNEXPECTED));
        }
        // `local:run/x` means /run/x, as in libpcp: there is no other directory it could be relative to.
        let path = (!path.is_empty()).then(|| PathBuf::from(format!("/{path}")));
        Ok(Place::Socket { path, or_localhost })
    }

    fn hosts(&mut self) -> Result<Place, HostSpecError> {
        if matches!(self.peek(), None | Some('/' | '?')) {
            return Err(HostSpecError::NoHost { spec: self.shown() });
        }
        let host = self.host()?;
        let mut proxy = None;
        while self.take("@") {
            // PCP takes any number of hosts and uses two
            let next = self.host()?;
            proxy.get_or_insert(next);
        }
        Ok(Place::Inet { host, proxy })
    }

    fn host(&mut self) -> Result<HostPorts, HostSpecError> {
        let name = if self.take("[") {
            let name = self.take_while(|c| c != ']');
            if !self.take("]") {
                return Err(self.error(self.at, "missing closing ']' for host spec"));
            }
            if !matches!(self.peek(), None | Some(':' | '@' | '/' | '?')) {
                return Err(self.error(self.at, "extra characters after host spec"));
            }
            name
        } else {
            self.take_while(|c| !matches!(c, ':' | '@' | '/' | '?'))
        };
        if name.is_empty() {
            return Err(self.error(self.at, UNEXPECTED));
        }
        let mut host = HostPorts { host: name.to_owned(), ports: Vec::new() };
        if self.take(":") {
            host.ports.push(self.port()?);
            while self.take(",") {
                host.ports.push(self.port()?);
            }
            if !matches!(self.peek(), None | Some('@' | '/' | '?')) {
                return Err(self.error(self.at, NON_NUMERIC));
            }
        }
        Ok(host)
    }

    fn port(&mut self) -> Result<u16, HostSpecError> {
        let start = self.at;
        let digits = self.take_while(|c| c.is_ascii_digit());
        if digits.is_empty() {
            let missing = matches!(self.peek(), None | Some(',' | '@' | '/' | '?'));
            return Err(self.error(start, if missing { MISSING_PORT } else { NON_NUMERIC }));
        }
        digits.parse().map_err(|_| self.error(start, "port above 65535"))
    }

    fn attributes(&mut self, spec: &mut HostSpec) -> Result<(), HostSpecError> {
        // What is behind a slash is ignored, here as behind the hosts.
        let text = self.take_while(|c| c != '/');
        for attribute in text.split('&') {
            let (key, value) = attribute.split_once('=').unwrap_or((attribute, ""));
            self.attribute(key, value, spec)?;
        }
        Ok(())
    }

    /// Takes one attribute. PCP knows some more that a client cannot usefully give, and ignores unknown ones.
    fn attribute(&self, key: &str, value: &str, spec: &mut HostSpec) -> Result<(), HostSpecError> {
        let bad = |key, message| HostSpecError::Attribute { spec: self.shown(), key, message };
        let decoded = |key| match url_decode(value) {
            Some(value) => Ok(value),
            None => Err(bad(key, "has a bad % escape")),
        };
        let attributes = &mut spec.attributes;
        match key {
            "compress" => attributes.compress = true,
            "secure" => {
                let level = Security::from_text(&decoded("secure")?);
                spec.security = level.ok_or_else(|| bad("secure", "is neither 'enforce' nor 'relaxed'"))?;
            }
            "container" => {
                let name = decoded("container")?;
                if !is_container_name(&name) {
                    return Err(bad("container", "is not of letters, digits, '.', '-' and '_'"));
                }
                attributes.container = Some(name);
            }
            "userauth" | "authorise" | "authorize" => attributes.userauth = Some(decoded("userauth")?),
            "user" | "username" => attributes.username = Some(decoded("username")?),
            "pass" | "password" => attributes.password = Some(decoded("password")?),
            "realm" => attributes.realm = Some(decoded("realm")?),
            "authmeth" | "method" => attributes.method = Some(decoded("method")?),
            _ => {}
        }
        Ok(())
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, prefix: &str) -> bool {
        let found = self.rest().starts_with(prefix);
        self.at += if found { prefix.len() } else { 0 };
        found
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !wanted(c)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    fn error(&self, column: usize, message: &'static str) -> HostSpecError {
        HostSpecError::Syntax { spec: self.shown(), column, message }
    }

    /// The text for errors. What stands before a `?`, where syntax errors are, keeps its place.
    fn shown(&self) -> String {
        without_password(self.text).into_owned()
    }
}

/// `%XX` is a byte, `+` a blank; `None` for a bad escape or what is not UTF-8 then.
fn url_decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        for (spec, expected) in [
            ("host:1@proxy", "host:1@proxy"),
            ("host?user=a", "host?user=a"),
            ("host?pass=secret", "host?pass=..."),
            (
                "pcps://host?method=plain&password=a=b/c&user=u",
                "pcps://host?method=plain&password=...&user=u",
            ),
            ("local:?PASS=%zz&pass=b", "local:?PASS=...&pass=..."),
            ("a?b?pass=secret", "a?b?pass=..."),
            ("a?pass", "a?pass"),
            ("a?user=passer", "a?user=passer"),
            ("a,b?container=c,d?pass=secret&user=u", "a,b?container=c,d?pass=...&user=u"),
        ] {
            assert_eq!(without_password(spec), expected);
        }
        for bad in ["?pass=secret", "a:b?pass=secret", "h?secure=x&pass=secret", "h?pass=secret%z"] {
            let error = bad.parse::<HostSpec>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
        }
        let spec = format!("{:?}", parse("host?user=u&pass=secret"));
        assert!(spec.contains("Some(\"u\")") && spec.contains("Some(\"...\")"), "{spec}");
        assert!(!spec.contains("secret"), "{spec}");
    }

    fn inet(host: &str, ports: &[u16]) -> HostPorts {
        HostPorts { host: host.to_owned(), ports: ports.to_vec() }
    }

    /// A specification with a host and nothing else.
    fn plain(host: HostPorts) -> HostSpec {
        let place = Place::Inet { host, proxy: None };
        HostSpec { place, security: Security::Plain, attributes: HostAttributes::default() }
    }

    fn parse(text: &str) -> HostSpec {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn error(text: &str) -> String {
        text.parse::<HostSpec>().expect_err(text).to_string()
    }

    /// Accepted by PCP 6.0.3 with the same hosts and ports.
    #[test]
    fn hosts_and_ports() {
        for (text, host, ports) in [
            ("host", "host", &[][..]),
            ("host:44321,4321", "host", &[44321, 4321]),
            ("pcp://host:1", "host", &[1]),
            ("pcp:host", "host", &[]),
            ("pcp:////host", "host", &[]),
            ("[::1]:44321", "::1", &[44321]),
            ("[fe80::1%eth0]:1", "fe80::1%eth0", &[1]),
            ("host/x", "host", &[]),
            ("host:1/x", "host", &[1]),
            ("host?", "host", &[]),
            ("a b", "a b", &[]),
            ("a]b", "a]b", &[]),
            ("h[1]", "h[1]", &[]),
            ("host?unknown=%zz&u%zz=1", "host", &[]),
            ("host?&&", "host", &[]),
        ] {
            assert_eq!(parse(text), plain(inet(host, ports)), "{text}");
        }
        for (text, first, second) in [
            ("a:1,2@b:3", inet("a", &[1, 2]), inet("b", &[3])),
            ("[::1]@[::2]:4", inet("::1", &[]), inet("::2", &[4])),
            ("a@b@c:5", inet("a", &[]), inet("b", &[])),
        ] {
            assert_eq!(parse(text).place, Place::Inet { host: first, proxy: Some(second) }, "{text}");
        }
    }

    #[test]
    fn sockets() {
        for (text, path, or_localhost) in [
            ("local:", None, true),
            ("unix:", None, false),
            ("unix:////", None, false),
            ("unix:?", None, false),
            ("local:run/x", Some("/run/x"), true),
            ("local://run/x", Some("/run/x"), true),
            ("unix:///run/s?user=x", Some("/run/s"), false),
            ("unix://a/b//c/", Some("/a/b//c/"), false),
            ("unix:run@h", Some("/run@h"), false),
        ] {
            let place = Place::Socket { path: path.map(PathBuf::from), or_localhost };
            assert_eq!(parse(text).place, place, "{text}");
        }
    }

    #[test]
    fn attributes() {
        let spec = parse("host?user=a%20b&pass=p%26q+r&compress&container=foo.1_x-y&realm");
        let some = |text: &str| Some(text.to_owned());
        let expected = HostAttributes {
            compress: true,
            container: some("foo.1_x-y"),
            username: some("a b"),
            password: some("p&q r"),
            realm: some(""),
            ..HostAttributes::default()
        };
        assert_eq!(spec.attributes, expected);
        assert!(spec.attributes.wants_authentication());
        let spec = parse("host?container=foo&user=x/y&realm=r");
        assert_eq!((spec.attributes.username, spec.attributes.realm), (some("x"), None));
        assert!(!parse("host?container=foo").attributes.wants_authentication());
        assert_eq!(parse("h?pass=YWI=").attributes.password, some("YWI="));
        for key in ["userauth", "authorise", "authorize", "username", "method", "authmeth", "password"] {
            assert!(parse(&format!("h?{key}=x")).attributes.wants_authentication(), "{key}");
        }
    }

    #[test]
    fn encryption() {
        for (text, security) in [
            ("pcps://h", Security::Enforced),
            ("pcps://h?secure=relaxed", Security::Relaxed),
            ("pcps://h?secure", Security::Enforced),
            ("pcps://h?secure=1", Security::Enforced),
            ("pcps:///h?secure=enforce", Security::Enforced),
            ("h?user=x", Security::Plain),
        ] {
            assert_eq!(parse(text).security, security, "{text}");
        }
    }

    /// Texts and columns captured from PCP 6.0.3.
    #[test]
    fn errors_are_those_of_pcp() {
        for (text, column, message) in [
            ("host:", 5, "missing port"),
            ("host:a", 5, "non-numeric port"),
            ("host:1,", 7, "missing port"),
            ("host:1,,2", 7, "missing port"),
            ("host:1a", 6, "non-numeric port"),
            ("h:1:2", 3, "non-numeric port"),
            ("h:-1", 2, "non-numeric port"),
            ("h: 1", 2, "non-numeric port"),
            ("h:1 ", 3, "non-numeric port"),
            ("h::1", 2, "non-numeric port"),
            ("host:@b", 5, "missing port"),
            ("host:?x", 5, "missing port"),
            ("http://h:1", 5, "missing port"),
            ("PCP://h", 4, "missing port"),
            ("pcp:local:x", 10, "non-numeric port"),
            ("[::1", 4, "missing closing ']' for host spec"),
            ("a@[b", 4, "missing closing ']' for host spec"),
            ("[::1]x", 5, "extra characters after host spec"),
            ("::1", 0, "unexpected terminal character"),
            ("@b", 0, "unexpected terminal character"),
            (":1", 0, "unexpected terminal character"),
            ("local://path:?user=x", 12, "unexpected terminal character"),
            ("unix:/run/s/x:1", 13, "unexpected terminal character"),
            ("local::1", 6, "unexpected terminal character"),
        ] {
            let blanks = " ".repeat(column);
            assert_eq!(error(text), format!("{text}\n{blanks}^ -- {message}\n"));
            assert_eq!(text.parse::<HostSpec>().unwrap_err().code(), PmError::GENERIC);
        }
        for text in ["", "pcp:", "pcp://", "/host", "?user=x", "pcps://?user=x"] {
            assert_eq!(text.parse::<HostSpec>().unwrap_err().code(), PmError::NOTHOST, "{text}");
        }
    }

    /// What PCP reads past the end for, dies of, or takes for something else.
    #[test]
    fn errors_of_our_own() {
        for text in ["a@", "a@@b", "a@/x", "a@?u=1", "[]", "h:1@:2"] {
            assert!(error(text).ends_with("^ -- unexpected terminal character\n"), "{text}");
        }
        for text in ["h:65536", "h:99999999999", "h:1,70000"] {
            assert!(error(text).ends_with("^ -- port above 65535\n"), "{text}");
        }
        for text in ["h?user=%", "h?user=%2", "h?user=%zz", "h?user=%+1", "h?user=%ff"] {
            assert_eq!(error(text), format!("bad host specification '{text}': username has a bad % escape"));
        }
        for text in ["h?container", "h?container=", "h?container=a%20b", "h?secure=no", "h?container=a:b"] {
            assert_eq!(text.parse::<HostSpec>().unwrap_err().code(), PmError(-22), "{text}");
        }
    }

    #[test]
    fn no_text_panics() {
        use proptest::prelude::*;
        let pieces = prop::sample::select(vec![
            "pcp:",
            "pcps:",
            "unix:",
            "local:",
            "/",
            "@",
            ":",
            ",",
            "?",
            "&",
            "=",
            "%",
            "+",
            "[",
            "]",
            "1",
            "é",
            "user",
            "%4",
            "container",
            " ",
        ]);
        let texts = prop::collection::vec(pieces, 0..12).prop_map(|pieces| pieces.concat());
        proptest!(|(text in texts)| { let _ = text.parse::<HostSpec>().map_err(|error| error.to_string()); });
    }
}
