//! `compare` over two kernels on a made machine that loses its power again and again: nothing is lost, nothing is left.
//!
//! The machine is GRUB's: a one-shot entry is taken and forgotten at each start; without one its own kernel starts, with
//! its own settings.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use opplab_host::HostError;
use opplab_host::clock::Moment;
use opplab_host::compare::bench::{Bench as _, Ran};
use opplab_host::compare::log::{Head, Kind, Log};
use opplab_host::compare::reboot::{Asked, UNIT, WANTED, clean, prepare, running};
use opplab_host::compare::run::{Ended, Plan, experiment};
use opplab_host::compare::settings::Settings;
use opplab_host::compare::variants::{Level, Variant, variants};
use opplab_host::root::{Made, Root};

use crate::bench;

const GOVERNOR: &str = "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor";
const RELEASE: &str = "/proc/sys/kernel/osrelease";
const GRUBENV: &str = "/boot/grub/grubenv";
const OWN: &str = "6.1";

struct Grub {
    /// Share of runs in which the power goes.
    loss: f64,
    n_starts: u32,
    n_losses: u32,
}

type Machine = bench::Machine<Grub>;

impl Machine {
    fn new(loss: f64) -> Self {
        let made = Made::default();
        let entry = |release: &str| {
            format!("menuentry 'L' $menuentry_id_option 'id-{release}' {{\n\tlinux /boot/vmlinuz-{release} ro\n}}\n")
        };
        let takes = "if [ \"${next_entry}\" ] ; then set default=\"${next_entry}\"; fi\n";
        made.put("/boot/grub/grub.cfg", takes.to_owned() + &entry("6.1") + &entry("6.12"));
        made.put(GRUBENV, format!("{:#<1024}", "# GRUB Environment Block\nsaved_entry=0\n"));
        made.put("/sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors", "performance schedutil");
        made.put("/sys/devices/system/cpu/online", "0");
        let mut machine = Self::of(Grub { loss, n_starts: 0, n_losses: 0 }, made, 11);
        machine.start();
        machine
    }

    fn start(&mut self) {
        let env = self.root.raw(GRUBENV).expect("there");
        let next = env.lines().find_map(|line| line.strip_prefix("next_entry=id-")).map(str::to_owned);
        let kept: Vec<&str> =
            env.lines().filter(|line| !line.starts_with("next_entry=") && !line.starts_with("##")).collect();
        self.made().put(GRUBENV, format!("{:#<1024}", kept.join("\n") + "\n"));
        self.made().put(RELEASE, next.unwrap_or_else(|| OWN.to_owned()));
        self.made().put(GOVERNOR, "schedutil");
        self.made().put("/proc/sys/kernel/random/boot_id", self.kind.n_starts.to_string());
        self.kind.n_starts += 1;
        self.has_power = true;
    }
}

impl bench::Kind for Grub {
    fn run(machine: &mut Machine, poll: &mut dyn FnMut(&Root, Moment)) -> Result<Option<Ran>, HostError> {
        let is_new = running(&machine.root) == "6.12";
        let is_fast = machine.root.text(GOVERNOR).is_ok_and(|now| now == "performance");
        if machine.unit() < machine.kind.loss {
            machine.kind.n_losses += 1;
            machine.has_power = false;
            return Ok(None);
        }
        let wall_s =
            60.0 * if is_new { 0.9 } else { 1.0 } * if is_fast { 0.8 } else { 1.0 } * (1.0 + 0.01 * machine.unit());
        machine.now_ns += (wall_s * 1e9) as u64;
        poll(&machine.root, machine.now());
        Ok(Some(Ran { wall_s, ..Ran::default() }))
    }
}

fn plan(variants: Vec<Variant>, blocks: u32) -> Plan {
    Plan {
        variants,
        warm_up: 1,
        same: 2,
        blocks_max: blocks,
        for_ns: None,
        rest_ns: 0,
        cool: false,
        others_cpus: 1e9,
        repeats_max: 0,
        figures: Vec::new(),
        meter: None,
    }
}

fn head(variants: &[Variant], blocks: u32) -> Head {
    Head {
        seed: 3,
        variants: variants.iter().map(|one| one.name.clone()).collect(),
        command: "make".to_owned(),
        benchmark: "make".to_owned(),
        machine: "made".to_owned(),
        kernel: "6.1, 6.12".to_owned(),
        metric: "wall".to_owned(),
        pilot: blocks,
        within_ppm: 10_000,
    }
}

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("opplab-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("writable");
    folder
}

/// Two kernels by two governors; as the command does it, a start at a time, until it has ended.
fn all(machine: &mut Machine, path: &Path, blocks: u32) -> Log {
    let levels = |list: [&str; 2], level: fn(String) -> Level| list.map(|word| level(word.to_owned())).to_vec();
    let dimensions = [levels(["6.1", "6.12"], Level::Kernel), levels(["schedutil", "performance"], Level::Governor)];
    let words: Vec<OsString> = ["/usr/bin/opplab-agent", "compare"].map(OsString::from).to_vec();
    let mut asked = Asked::default();
    for _ in 0..2_000 {
        let found = variants(&dimensions, &machine.root).expect("fine");
        let (plan, head) = (plan(found.clone(), blocks), head(&found, blocks));
        asked.began(&running(&machine.root));
        let mut log = Log::open(path, head).expect("readable after any loss");
        let mut settings = Settings::of(&machine.root, &found, 1).expect("fine");
        let ended = experiment(&plan, machine, &mut settings, &mut log, &mut Vec::new()).expect("fine");
        if !machine.has_power {
            // Nobody put anything back; what was being written is half there.
            let mut bytes = std::fs::read(path).expect("there");
            bytes.extend(b"{\"kind\":\"block\",\"blo");
            std::fs::write(path, bytes).expect("writable");
            machine.start();
            continue;
        }
        settings.saved.restore(&machine.root);
        match ended {
            Ended::Reboot(variant) => {
                let release = found[variant].kernel.clone().expect("several kernels");
                asked.next(&release, &running(&machine.root), 10_000).expect("it comes");
                prepare(&machine.root, &release, &words, "/root").expect("fine");
                assert!(
                    machine.root.text(UNIT).is_ok_and(|unit| unit.contains("\"/usr/bin/opplab-agent\" \"compare\""))
                );
                // The power may go here as well: the one-shot entry is on the disk, or it is not.
                if machine.unit() < 0.1 {
                    machine.kind.n_losses += 1;
                    if machine.unit() < 0.5 {
                        machine.made().put(GRUBENV, format!("{:#<1024}", "# GRUB Environment Block\nsaved_entry=0\n"));
                    }
                }
                machine.start();
            }
            _ => {
                clean(&machine.root).expect("fine");
                return log;
            }
        }
    }
    panic!("it never ended");
}

fn check(machine: &Machine, log: &Log, blocks: u32) {
    for block in 0..blocks {
        for variant in 0..4 {
            let of = |run: &&opplab_host::compare::log::Run| {
                (run.kind, run.block, run.variant) == (Kind::Block, block, variant)
            };
            assert_eq!(log.runs.iter().filter(of).count(), 1, "block {block}, variant {variant}: once");
        }
    }
    // Each run was on its kernel and under its governor: by their times, which nothing else makes.
    for run in log.runs.iter().filter(|run| run.kind == Kind::Block) {
        let truth = 60.0 * [1.0, 0.8, 0.9, 0.72][run.variant];
        let wall = run.value("wall").expect("measured");
        assert!((wall / truth - 1.005).abs() < 0.006, "variant {}: {wall} for {truth}", run.variant);
    }
    assert_eq!(machine.root.text(GOVERNOR).as_deref(), Ok("schedutil"));
    assert!(!machine.root.has(UNIT) && !machine.root.has(WANTED), "the unit is gone");
    let env = machine.root.raw(GRUBENV).expect("there");
    assert!(!env.contains("next_entry") && env.contains("saved_entry=0") && env.len() == 1024, "{env}");
}

#[test]
fn a_block_has_one_start_of_each_kernel() {
    let place = folder("reboot-plain");
    let mut machine = Machine::new(0.0);
    let log = all(&mut machine, &place.join("runs.jsonl"), 8);
    check(&machine, &log, 8);
    // The first start was there; of each block at most two more.
    assert!(machine.kind.n_starts <= 1 + 2 * 8, "{}", machine.kind.n_starts);
    std::fs::remove_dir_all(&place).expect("writable");
}

/// `make kill-test` prints their count.
#[test]
fn fifty_power_losses_lose_nothing() {
    let place = folder("reboot-loss");
    let mut machine = Machine::new(0.3);
    let blocks = 40;
    let log = all(&mut machine, &place.join("runs.jsonl"), blocks);
    assert!(machine.kind.n_losses >= 50, "{}", machine.kind.n_losses);
    check(&machine, &log, blocks);
    println!(
        "{} power losses, {} starts, {} runs, nothing lost",
        machine.kind.n_losses,
        machine.kind.n_starts,
        log.runs.len()
    );
    std::fs::remove_dir_all(&place).expect("writable");
}

/// Goal: GRUB on a disk that it cannot write keeps the entry; the end does not.
#[test]
fn an_entry_that_was_not_taken_is_removed() {
    let machine = Machine::new(0.0);
    prepare(&machine.root, "6.12", &["a".into()], "/").expect("fine");
    assert!(machine.root.raw(GRUBENV).is_ok_and(|env| env.contains("next_entry=id-6.12") && env.len() == 1024));
    clean(&machine.root).expect("fine");
    assert!(machine.root.raw(GRUBENV).is_ok_and(|env| !env.contains("next_entry") && env.len() == 1024));
    machine
        .made()
        .put("/boot/grub/grub.cfg", machine.root.raw("/boot/grub/grub.cfg").expect("there").replace("next_", ""));
    let error = prepare(&machine.root, "6.12", &["a".into()], "/").expect_err("no").to_string();
    assert!(error.contains("takes no one-shot entry"), "{error}");
    assert!(!machine.root.has(UNIT));
}

#[test]
fn a_kernel_that_never_comes_ends_it() {
    let mut asked = Asked::default();
    for _ in 0..3 {
        asked.next("6.12", "6.1", 100).expect("a power loss may have come between");
        asked = Asked::parse(&asked.text());
    }
    let error = asked.next("6.12", "6.1", 100).expect_err("never").to_string();
    assert!(error.contains("6.12 was asked for 3 times, and 6.1 came each time"), "{error}");
    asked.began("6.12");
    asked.next("6.12", "6.1", 100).expect("it came meanwhile");
    assert!(asked.next("6.1", "6.12", asked.count).is_err(), "too many starts");
}
