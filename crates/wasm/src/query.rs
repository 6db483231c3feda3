//! A page's parameters: which there are, and what a link sets of them.

use opplab_model::error::{nearest, shorten};
use opplab_model::node_table;
use opplab_model::tree::Node;

/// One parameter of a page.
#[derive(Debug, Clone)]
pub struct Control {
    /// Its name in the link, with its unit last.
    pub name: &'static str,
    /// What it is called beside the slider.
    pub label: &'static str,
    /// The unit of its number.
    pub unit: &'static str,
    /// What it may be.
    pub kind: Kind,
}

/// What a parameter may be.
#[derive(Debug, Clone)]
pub enum Kind {
    /// A whole number.
    Range {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
        /// How far a key moves the slider.
        step: u64,
        /// What it is if the link is silent.
        default: u64,
    },
    /// One of these words.
    Choice {
        /// All of them.
        of: Vec<&'static str>,
        /// What it is if the link is silent.
        default: &'static str,
    },
    /// Any text up to this length.
    Text {
        /// The most bytes.
        max: usize,
        /// What it is if the link is silent.
        default: &'static str,
    },
}

impl Control {
    /// A slider.
    pub fn range(name: &'static str, label: &'static str, unit: &'static str, of: [u64; 4]) -> Self {
        let [min, max, step, default] = of;
        Self { name, label, unit, kind: Kind::Range { min, max, step, default } }
    }

    /// A list to choose from.
    pub fn choice(name: &'static str, label: &'static str, of: Vec<&'static str>, default: &'static str) -> Self {
        Self { name, label, unit: "", kind: Kind::Choice { of, default } }
    }

    /// A line of text.
    pub fn text(
        name: &'static str,
        label: &'static str,
        unit: &'static str,
        max: usize,
        default: &'static str,
    ) -> Self {
        Self { name, label, unit, kind: Kind::Text { max, default } }
    }

    fn default(&self) -> String {
        match &self.kind {
            Kind::Range { default, .. } => default.to_string(),
            Kind::Choice { default, .. } | Kind::Text { default, .. } => (*default).to_owned(),
        }
    }

    fn check(&self, value: &str) -> Result<(), String> {
        let refuse = |what: String| Err(format!("{}={}: {what}", self.name, plain(value)));
        match &self.kind {
            &Kind::Range { min, max, .. } => match value.parse::<u64>() {
                Ok(number) if (min..=max).contains(&number) => Ok(()),
                _ => refuse(format!("must be a whole number of {min} to {max} {}", self.unit).trim_end().to_owned()),
            },
            Kind::Choice { of, .. } => match of.contains(&value) {
                true => Ok(()),
                false => refuse(format!("not known{}", hint(nearest(value, of.iter().copied())))),
            },
            Kind::Text { max, .. } if value.len() > *max => refuse(format!("longer than {max} bytes")),
            Kind::Text { .. } if value.chars().any(|c| c.is_control() && c != '\n') => {
                refuse("holds a control character".to_owned())
            }
            Kind::Text { .. } => Ok(()),
        }
    }

    /// What the script needs to know of it.
    pub fn describe(&self) -> Node {
        let Self { name, label, unit, kind } = self;
        match kind {
            Kind::Range { min, max, step, default } => {
                node_table! { name, label, unit, kind: "range", min, max, step, default: default.to_string() }
            }
            Kind::Choice { of, default } => node_table! { name, label, unit, kind: "choice", of, default },
            Kind::Text { max, default } => node_table! { name, label, unit, kind: "text", max, default },
        }
    }
}

/// What is suggested in place of a wrong name.
pub fn hint(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

/// A text of others in a message: short, and without control characters.
pub fn plain(text: &str) -> String {
    shorten(&text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect::<String>())
}

/// The values of all parameters of a page.
#[derive(Debug, Clone)]
pub struct Values<'a> {
    controls: &'a [Control],
    values: Vec<String>,
}

impl<'a> Values<'a> {
    /// Reads a link's `name=value&name=value`; names that the page does not have, or has twice, are refused.
    ///
    /// # Errors
    /// What is wrong, and the nearest valid name.
    pub fn parse(controls: &'a [Control], query: &str) -> Result<Self, String> {
        let mut values: Vec<Option<String>> = vec![None; controls.len()];
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| format!("`{}` is not name=value", plain(pair)))?;
            let (name, value) = (unescape(name)?, unescape(value)?);
            let Some(at) = controls.iter().position(|known| known.name == name) else {
                let near = nearest(&name, controls.iter().map(|known| known.name));
                return Err(format!("there is no parameter `{}`{}", plain(&name), hint(near)));
            };
            controls[at].check(&value)?;
            if values[at].replace(value).is_some() {
                return Err(format!("parameter `{name}` is given twice"));
            }
        }
        let values = values.into_iter().zip(controls).map(|(value, known)| value.unwrap_or_else(|| known.default()));
        Ok(Self { controls, values: values.collect() })
    }

    /// The text of a parameter.
    ///
    /// # Panics
    /// If the page has no such parameter.
    pub fn text(&self, name: &str) -> &str {
        let at = self.controls.iter().position(|known| known.name == name).expect("a parameter of this page");
        &self.values[at]
    }

    /// The number of a parameter.
    ///
    /// # Panics
    /// If the page has no such parameter, or it is no number.
    pub fn number(&self, name: &str) -> u64 {
        self.text(name).parse().expect("checked when it was read")
    }

    /// Gives a parameter another value.
    ///
    /// # Errors
    /// If the parameter cannot be that.
    ///
    /// # Panics
    /// If the page has no such parameter.
    pub fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        let at = self.controls.iter().position(|known| known.name == name).expect("a parameter of this page");
        self.controls[at].check(&value)?;
        self.values[at] = value;
        Ok(())
    }

    /// The link to this: what differs from the defaults, in the order of the page.
    pub fn link(&self) -> String {
        let differs = self.controls.iter().zip(&self.values).filter(|(known, value)| known.default() != **value);
        differs.map(|(known, value)| format!("{}={}", known.name, escape(value))).collect::<Vec<_>>().join("&")
    }

    /// Each parameter's name and value.
    pub fn all(&self) -> Node {
        Node::table(self.controls.iter().zip(&self.values).map(|(known, value)| (known.name, Some(Node::str(value)))))
    }
}

/// Leaves what reads well in a link as it is.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b',' | b':' | b';' | b'/' | b'@' => {
                out.push(char::from(byte));
            }
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

fn unescape(text: &str) -> Result<String, String> {
    let wrong = || format!("`{}` is not well escaped", plain(text));
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16)).ok_or_else(wrong);
                (digit()? * 16 + digit()?) as u8
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controls() -> Vec<Control> {
        vec![
            Control::range("run_us", "Work", "us", [100, 9000, 100, 4000]),
            Control::choice("kernel", "Kernel", vec!["6.6", "6.12"], "6.12"),
            Control::text("table", "Table", "MHz", 20, "1,2"),
        ]
    }

    /// Goal: a link is read, gives itself back, and what is wrong is refused with the nearest name.
    #[test]
    fn links_are_read_and_given_back() {
        let controls = controls();
        let check = |query: &str, expected: Result<&str, &str>| {
            let found = Values::parse(&controls, query).map(|values| values.link());
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{query}");
        };
        check("", Ok(""));
        check("run_us=4000", Ok(""));
        check("kernel=6.6&run_us=300", Ok("run_us=300&kernel=6.6"));
        check("table=1%2C5+7", Ok("table=1,5%207"));
        check("run_us=99", Err("run_us=99: must be a whole number of 100 to 9000 us"));
        check("run_us=-5", Err("run_us=-5: must be a whole number of 100 to 9000 us"));
        check("run_ms=4", Err("there is no parameter `run_ms`; did you mean `run_us`?"));
        check("kernel=6.21", Err("kernel=6.21: not known; did you mean `6.12`?"));
        check("run_us=300&run_us=300", Err("parameter `run_us` is given twice"));
        check("run_us", Err("`run_us` is not name=value"));
        check("table=%f", Err("`%f` is not well escaped"));
        check("table=%FF", Err("`%FF` is not well escaped"));
        check("table=123456789012345678901", Err("table=123456789012345678901: longer than 20 bytes"));
        check("table=%00", Err("table= : holds a control character"));
    }
}
