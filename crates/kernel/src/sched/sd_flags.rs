//! What a scheduling domain is for, as bits (include/linux/sched/sd_flags.h, v6.12).

/// `SD_BALANCE_NEWIDLE`: balance when a CPU is about to become idle.
pub const SD_BALANCE_NEWIDLE: u32 = 0x1;
/// `SD_BALANCE_EXEC`: balance on exec.
pub const SD_BALANCE_EXEC: u32 = 0x2;
/// `SD_BALANCE_FORK`: balance on fork.
pub const SD_BALANCE_FORK: u32 = 0x4;
/// `SD_BALANCE_WAKE`: balance on wake-up, set nowhere by default.
pub const SD_BALANCE_WAKE: u32 = 0x8;
/// `SD_WAKE_AFFINE`: a woken task may be pulled to the waking CPU.
pub const SD_WAKE_AFFINE: u32 = 0x10;
/// `SD_ASYM_CPUCAPACITY`: CPUs of different capacity.
pub const SD_ASYM_CPUCAPACITY: u32 = 0x20;
/// `SD_ASYM_CPUCAPACITY_FULL`: every capacity of the machine is in the domain.
pub const SD_ASYM_CPUCAPACITY_FULL: u32 = 0x40;
/// `SD_SHARE_CPUCAPACITY`: hardware threads of one core.
pub const SD_SHARE_CPUCAPACITY: u32 = 0x80;
/// `SD_CLUSTER`: CPUs that share an L2 cache or a bus segment.
pub const SD_CLUSTER: u32 = 0x100;
/// `SD_SHARE_LLC`: CPUs that share the last-level cache.
pub const SD_SHARE_LLC: u32 = 0x200;
/// `SD_SERIALIZE`: one balance at a time.
pub const SD_SERIALIZE: u32 = 0x400;
/// `SD_ASYM_PACKING`: pack tasks on the CPUs of higher priority.
pub const SD_ASYM_PACKING: u32 = 0x800;
/// `SD_PREFER_SIBLING`: spread tasks over sibling domains.
pub const SD_PREFER_SIBLING: u32 = 0x1000;
/// `SD_OVERLAP`: groups overlap.
pub const SD_OVERLAP: u32 = 0x2000;
/// `SD_NUMA`: spans NUMA nodes.
pub const SD_NUMA: u32 = 0x4000;
