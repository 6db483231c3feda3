//! The governors, a file each.

/// Each file has a `GOVERNOR`; its name here is all that makes it one of [`GOVERNORS`].
macro_rules! governors {
    ($($name:ident)+) => {
        $(pub mod $name;)+

        /// Every governor that a policy can name.
        pub static GOVERNORS: &[&super::governor::GovernorEntry] = &[$(&$name::GOVERNOR),+];
    };
}

governors! {
    schedutil
    ondemand
    conservative
    performance
    powersave
    userspace
}
