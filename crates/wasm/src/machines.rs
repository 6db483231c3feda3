//! The machines that come with the pages; any other file may be dropped.

macro_rules! machines {
    ($($name:literal),* $(,)?) => {
        /// Name and file of each.
        pub(crate) const MACHINES: &[(&str, &str)] = &[
            $(($name, include_str!(concat!("../../../python/opplab/data/machines/", $name, ".toml")))),*
        ];
    };
}

machines![
    "juno-r2",
    "pixel4",
    "pixel6",
    "sdm845",
    "kaby-lake-i7-7500u",
    "raptor-lake-i7-13700k",
    "skylake-8x-uma",
    "haswell-48x-numa",
    "epyc-7742-2s",
];

/// The file of a machine that comes with the pages; empty for any other name.
pub(crate) fn machine_text(name: &str) -> &'static str {
    MACHINES.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text)
}
