//! How things look: colours unless NO_COLOR is set or the terminal is a dumb one, UTF-8 or ASCII by the locale.

use clap::ValueEnum;
use ratatui::style::{Color, Modifier, Style};

/// The looks of everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Theme {
    /// Whether there are colours.
    pub colour: bool,
    /// Whether the terminal shows more than ASCII.
    pub utf8: bool,
    /// Whether its ground is light.
    pub light: bool,
}

/// What the user says of the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Ground {
    /// As COLORFGBG and NO_COLOR say; dark if they say nothing.
    #[default]
    Auto,
    /// Bright colours.
    Dark,
    /// Dark colours.
    Light,
    /// No colours.
    Mono,
}

/// What a piece of the screen is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    /// The line on top.
    Title,
    /// The line on top when the connection is lost.
    Alarm,
    /// The line over the pane that has the keys.
    Focus,
    /// The line over another pane.
    Heading,
    /// What explains.
    Dim,
    /// A current value.
    Value,
    /// A bar of a metric, which has a colour of its own.
    Bar(usize),
    /// A frame of a flame graph.
    Block(usize),
    /// The selected line.
    Selected,
    /// What went wrong, or is missing.
    Bad,
    /// What deserves attention.
    Warning,
    /// A key, in the last line.
    Key,
}

impl Theme {
    /// No colours.
    pub(crate) const PLAIN: Theme = Theme { colour: false, utf8: true, light: false };

    /// As the user says.
    pub(crate) fn new(ground: Ground) -> Theme {
        let theme = Theme::from_env();
        match ground {
            Ground::Auto => theme,
            Ground::Dark => Theme { light: false, ..theme },
            Ground::Light => Theme { light: true, ..theme },
            Ground::Mono => Theme { colour: false, ..theme },
        }
    }

    /// As the environment says: NO_COLOR, TERM, COLORFGBG, and LC_ALL, LC_CTYPE or LANG, the first that is set.
    fn from_env() -> Theme {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
        // A modifier may follow: de_DE.UTF-8@euro.
        let charset = locale.split('@').next().unwrap_or_default().to_lowercase();
        Theme {
            colour: set("NO_COLOR").is_none() && set("TERM").as_deref() != Some("dumb"),
            utf8: charset.ends_with("utf-8") || charset.ends_with("utf8"),
            // The last number is the ground: 7 and from 9 on are light ones of the sixteen colours.
            light: set("COLORFGBG")
                .and_then(|colours| colours.rsplit(';').next()?.parse().ok())
                .is_some_and(|ground: u8| matches!(ground, 7 | 9..=15)),
        }
    }

    /// The style of a piece.
    pub(crate) fn style(self, role: Role) -> Style {
        let style = Style::reset();
        if !self.colour {
            return match role {
                Role::Plain | Role::Bar(_) => style,
                Role::Block(which) if which % 2 == 0 => style.add_modifier(Modifier::UNDERLINED),
                Role::Block(_) => style,
                Role::Selected => Style::new().add_modifier(Modifier::REVERSED),
                Role::Title | Role::Alarm => style.add_modifier(Modifier::REVERSED),
                Role::Focus | Role::Value | Role::Bad | Role::Warning | Role::Key => {
                    style.add_modifier(Modifier::BOLD)
                }
                Role::Heading | Role::Dim => style.add_modifier(Modifier::DIM),
            };
        }
        const BARS: [Color; 6] =
            [Color::Cyan, Color::Green, Color::Yellow, Color::Magenta, Color::Blue, Color::LightCyan];
        // On a light ground the bright colours cannot be read.
        let [accent, bad, warning] = match self.light {
            true => [Color::Blue, Color::Red, Color::Magenta],
            false => [Color::LightCyan, Color::LightRed, Color::Yellow],
        };
        match role {
            Role::Plain => style,
            Role::Title => style.fg(Color::White).bg(Color::Blue),
            Role::Alarm => style.fg(Color::White).bg(Color::Red).add_modifier(Modifier::BOLD),
            Role::Focus => style.fg(accent).add_modifier(Modifier::BOLD),
            Role::Heading | Role::Dim => style.fg(Color::DarkGray),
            Role::Value => style.add_modifier(Modifier::BOLD),
            Role::Bar(which) => style.fg(*BARS.get(which % BARS.len()).unwrap_or(&Color::Cyan)),
            Role::Block(which) => {
                style.fg(Color::Black).bg(*BARS.get(which % BARS.len()).unwrap_or(&Color::Cyan))
            }
            Role::Selected => Style::new().bg(if self.light { Color::Gray } else { Color::DarkGray }),
            Role::Bad => style.fg(bad).add_modifier(Modifier::BOLD),
            Role::Warning => style.fg(warning),
            Role::Key => style.fg(accent).add_modifier(Modifier::BOLD),
        }
    }

    /// One text or the other.
    pub(crate) fn pick(self, utf8: &'static str, ascii: &'static str) -> &'static str {
        if self.utf8 { utf8 } else { ascii }
    }
}
