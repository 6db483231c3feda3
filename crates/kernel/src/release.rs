//! What people call their kernels, as a mainline release and the point release whose backports it has.
//!
//! `6.6` is the mainline release. `6.6.88`, with whatever a distribution adds (`6.6.88-1-lts`), is a point release of it.
//! Debian's `6.1.0-56-amd64` counts its own builds: its changelog names the point release of each. Names that state less
//! than that (`android15-6.6`, Ubuntu's `6.8.0-45-generic`) are taken as the mainline release, and a note states it.

use crate::profile::{GATES, KernelProfile, Version};

/// Every mainline release that has a profile, oldest first.
pub const MAINLINE: &[(u16, core::ops::RangeInclusive<u16>)] = &[(4, 14..=20), (5, 0..=19), (6, 0..=19), (7, 0..=3)];

/// Stable series whose lists of changes were read whole, up to this point release: Debian's changelogs repeat them.
pub const READ: &[(Version, u16)] = &[((5, 10), 262), ((6, 1), 192), ((6, 12), 117)];

/// Builds that Debian numbered by itself: the first point release of each ABI number, from its changelog.
const DEBIAN: &[(Version, &[(u16, u16)])] = &[
    (
        (5, 10),
        &[
            (1, 4),
            (2, 9),
            (3, 12),
            (4, 19),
            (5, 24),
            (6, 28),
            (7, 38),
            (8, 46),
            (9, 70),
            (10, 84),
            (11, 92),
            (12, 103),
            (13, 106),
            (14, 113),
            (15, 120),
            (16, 127),
            (17, 136),
            (18, 140),
            (19, 148),
            (20, 158),
            (21, 162),
            (22, 178),
            (23, 179),
            (24, 179),
            (25, 191),
            (26, 197),
            (27, 205),
            (28, 209),
            (29, 216),
            (30, 218),
            (31, 221),
            (32, 223),
            (33, 226),
            (34, 234),
            (35, 237),
            (36, 244),
            (37, 247),
            (38, 249),
            (39, 251),
            (43, 251),
            (44, 257),
            (45, 259),
            (46, 262),
        ],
    ),
    (
        (6, 1),
        &[
            (1, 4),
            (2, 7),
            (3, 8),
            (4, 11),
            (5, 12),
            (6, 15),
            (7, 20),
            (8, 25),
            (9, 27),
            (10, 37),
            (11, 38),
            (12, 52),
            (13, 55),
            (14, 64),
            (15, 66),
            (16, 67),
            (17, 69),
            (18, 76),
            (19, 82),
            (20, 85),
            (21, 90),
            (22, 94),
            (23, 98),
            (24, 106),
            (25, 106),
            (26, 112),
            (27, 115),
            (28, 119),
            (29, 123),
            (30, 124),
            (31, 128),
            (32, 129),
            (33, 133),
            (34, 135),
            (35, 137),
            (36, 139),
            (37, 140),
            (38, 147),
            (39, 148),
            (40, 153),
            (41, 158),
            (42, 159),
            (43, 162),
            (44, 164),
            (45, 170),
            (47, 170),
            (48, 172),
            (49, 174),
            (50, 176),
            (51, 177),
            (52, 180),
            (53, 187),
            (54, 190),
            (55, 192),
            (56, 192),
        ],
    ),
];

/// A kernel by name: the profile, and what was assumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release<'a> {
    /// The mainline release.
    pub version: Version,
    /// The point release, as far as its changes are known; 0: the mainline release.
    pub point: u16,
    /// The point release that the name states or stands for.
    pub named: Option<u16>,
    /// What follows the numbers.
    pub flavour: &'a str,
    /// Of an Android branch or build.
    pub android: bool,
    /// Debian's number of the build.
    pub debian: Option<u16>,
}

/// Whether the mainline release has a profile.
pub fn is_mainline((major, minor): Version) -> bool {
    MAINLINE.iter().any(|(of, minors)| *of == major && minors.contains(&minor))
}

/// The last point release whose changes are known, where all of them are.
pub fn read_to(version: Version) -> Option<u16> {
    READ.iter().find(|(of, _)| *of == version).map(|&(_, point)| point)
}

/// The kernel that `name` stands for; `None` where it is no version or of no release with a profile.
pub fn parse(name: &str) -> Option<Release<'_>> {
    let bare = name.strip_prefix('v').unwrap_or(name);
    let branch = bare.strip_prefix("android").and_then(|rest| rest.split_once('-')).map(|(_, numbers)| numbers);
    let numbers = branch.unwrap_or(bare);
    let end = numbers.find(|char: char| !char.is_ascii_digit() && char != '.').unwrap_or(numbers.len());
    let (numbers, flavour) = numbers.split_at(end);
    let mut parts = numbers.split('.').map(|part| part.parse::<u16>().ok());
    let version = (parts.next()??, parts.next()??);
    let third = parts.next().map_or(Some(None), |part| part.map(Some))?;
    let separated = flavour.is_empty() || flavour.starts_with(['-', '+', '~', '_']);
    if !separated || parts.next().is_some() || !is_mainline(version) {
        return None;
    }
    let debian = (third == Some(0)).then(|| debian_point(version, flavour)).flatten();
    let named = debian.map(|(_, point)| point).or(third.filter(|&point| point > 0));
    let last = read_to(version).unwrap_or(u16::MAX);
    let android = branch.is_some() || flavour.contains("android");
    let point = named.unwrap_or(0).min(last);
    Some(Release { version, point, named, flavour, android, debian: debian.map(|(abi, _)| abi) })
}

/// Debian's number of the build in `-56-amd64`, and the point release of that.
fn debian_point(version: Version, flavour: &str) -> Option<(u16, u16)> {
    const NOT_DEBIAN: [&str; 4] = ["generic", "lowlatency", "el", "fc"];
    let (_, builds) = DEBIAN.iter().find(|(of, _)| *of == version)?;
    let mut words = flavour.strip_prefix('-')?.split('-');
    let abi = words.next()?.trim_start_matches("0.deb11.").parse::<u16>().ok()?;
    let architecture = words.next_back()?;
    if NOT_DEBIAN.iter().any(|other| architecture.starts_with(other)) {
        return None;
    }
    builds.iter().rfind(|(first, _)| *first <= abi).map(|&(_, point)| (abi, point))
}

impl Release<'_> {
    /// Its profile.
    pub fn profile(&self) -> KernelProfile {
        KernelProfile::of(self.version, self.point)
    }

    /// What was assumed of the name; `None` where the profile is exactly the one named.
    pub fn note(&self) -> Option<String> {
        let (major, minor) = self.version;
        let mainline = format!("{major}.{minor}");
        let taken = format!("{mainline}.{}", self.point);
        let mut notes = Vec::new();
        match (self.named, self.debian) {
            (Some(named), _) if named > self.point => notes.push(format!(
                "{mainline}.{named} is taken as {taken}, the last point release whose changes are known"
            )),
            (Some(_), Some(abi)) => notes.push(format!("Debian's {mainline}.0-{abi} is {taken}")),
            (None, _) if self.flavour.starts_with("-rc") => {
                notes.push(format!("a release candidate is taken as {mainline}"));
            }
            (None, _) if self.android || !self.flavour.is_empty() => {
                notes.push(format!("the name has no point release: taken as {mainline} without backports"));
            }
            _ => {}
        }
        if self.point > 0 && read_to(self.version).is_none() {
            let known = backports_of(self.version);
            let of = if known.is_empty() { String::from("none") } else { known.join(", ") };
            notes.push(format!("of the changes of {mainline}.y only those of the gates {of} are known"));
        }
        if self.android {
            notes.push(String::from("what the Android branch adds is not modelled"));
        }
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}

/// The gates for which backports to `version` are known, with the point release of each.
fn backports_of(version: Version) -> Vec<String> {
    let known = GATES.iter().filter_map(|gate| {
        let stable = gate.values.iter().flat_map(|value| value.stable);
        let first = stable.filter(|of| of.version == version).map(|of| of.from).min()?;
        Some(format!("{} ({first})", gate.name))
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(name: &str) -> Option<(Version, u16)> {
        parse(name).map(|release| (release.version, release.point))
    }

    #[test]
    fn names_that_people_use() {
        let check = |name, version, known| assert_eq!(point(name), Some((version, known)), "{name}");
        check("6.12", (6, 12), 0);
        check("v6.12", (6, 12), 0);
        check("6.6.88", (6, 6), 88);
        check("6.12.43", (6, 12), 43);
        check("6.12.117+deb13-amd64", (6, 12), 117);
        check("6.2.7-arch1", (6, 2), 7);
        check("6.1.0-56-amd64", (6, 1), 192);
        check("6.1.0-13-cloud-amd64", (6, 1), 55);
        check("6.1.0-0.deb11.50-amd64", (6, 1), 176);
        check("5.10.0-36-arm64", (5, 10), 244);
        check("6.8.0-45-generic", (6, 8), 0);
        check("5.14.0-427.el9.x86_64", (5, 14), 0);
        check("android15-6.6", (6, 6), 0);
        check("6.6.50-android15-8-g1234", (6, 6), 50);
        check("7.0-rc3", (7, 0), 0);
        for unknown in
            ["", "mainline", "6", "6.20", "3.10", "5.188", "6.12x", "6.12.1.2", "6..1", "6.12.", "android15", "99.1"]
        {
            assert_eq!(point(unknown), None, "{unknown}");
        }
    }

    /// What a name leaves open is noted.
    #[test]
    fn notes_tell_what_was_assumed() {
        let note = |name: &str| parse(name).expect("a name").note();
        assert_eq!(note("6.12"), None);
        assert_eq!(note("6.12.43"), None);
        assert_eq!(note("6.1.0-56-amd64").as_deref(), Some("Debian's 6.1.0-56 is 6.1.192"));
        let newer = note("6.12.130").expect("newer than what was read");
        assert!(newer.contains("taken as 6.12.117"), "{newer}");
        let partly = note("6.6.88").expect("not all is known of 6.6.y");
        assert!(partly.contains("sugov_util (89)"), "{partly}");
        let android = note("android15-6.6").expect("a branch");
        assert!(android.contains("no point release") && android.contains("not modelled"), "{android}");
        assert!(note("6.8.0-45-generic").expect("Ubuntu's").contains("taken as 6.8"));
    }

    #[test]
    fn series_that_were_read_have_profiles() {
        for &(version, last) in READ {
            assert!(is_mainline(version));
            for gate in GATES {
                for stable in gate.values.iter().flat_map(|value| value.stable).filter(|of| of.version == version) {
                    assert!(stable.from <= last, "{}: {}", gate.name, stable.text());
                }
            }
        }
        for (version, builds) in DEBIAN {
            assert!(is_mainline(*version));
            assert!(builds.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1), "{version:?}");
        }
    }
}
