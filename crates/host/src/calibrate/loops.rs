//! Loops of known work on chosen CPUs: three classes, handing a cache line over, waking from a timer, flushing a file.
//!
//! Everything here runs on the live machine. What the numbers mean is not known here.

use std::fs::File;
use std::hint::black_box;
use std::io::Write as _;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::clock::{monotonic_ns, thread_cpu_ns};
use crate::error::HostError;

/// What a loop hangs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A chain of integer operations: the clock.
    Integer,
    /// Products and sums of floats, side by side: the widest units.
    Vector,
    /// A walk through more memory than caches hold.
    Memory,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Integer, Self::Vector, Self::Memory];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Vector => "vector",
            Self::Memory => "memory",
        }
    }
}

/// Dependent operations of one cycle in an iteration of [`Class::Integer`]: three shifts and three exclusive ors.
pub const CYCLES: f64 = 6.0;

/// Iterations between two looks at the clock.
const BATCH: u64 = 2_000;
/// Steps from one place to the next, in words: further than prefetchers look, and odd, so that all places are met.
const STRIDE: usize = 517_619;

/// Keeps this thread on a CPU.
///
/// # Errors
/// If the system refuses.
fn pin(cpu: u32) -> Result<(), HostError> {
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    sched_setaffinity(None, &set).map_err(|error| HostError::io(format!("running on CPU {cpu}"), error))
}

/// The memory that is walked through: each word has the place of the next.
#[derive(Debug, Clone, Default)]
pub struct Walk(Arc<Vec<u32>>);

impl Walk {
    /// One of at least so many bytes.
    pub fn new(bytes: u64) -> Self {
        let words = (bytes.div_ceil(4).clamp(1 << 10, 1 << 30) as usize).next_power_of_two();
        Self(Arc::new((0..words).map(|place| ((place + STRIDE) % words) as u32).collect()))
    }
}

/// State of a loop.
struct Loop {
    class: Class,
    word: u64,
    floats: [f32; 16],
    walk: Walk,
    place: usize,
}

impl Loop {
    /// The walks of several loops begin far from each other.
    fn new(class: Class, walk: Walk, number: usize) -> Self {
        let place = (number * 7_919 * STRIDE) % walk.0.len().max(1);
        Self { class, word: 0x9e37_79b9_7f4a_7c15, floats: [1.0; 16], walk, place }
    }

    fn turn(&mut self, iterations: u64) {
        match self.class {
            Class::Integer => {
                let mut x = self.word;
                for _ in 0..iterations {
                    x ^= x << 13;
                    x ^= x >> 7;
                    x ^= x << 17;
                }
                self.word = black_box(x);
            }
            Class::Vector => {
                let mut lanes = self.floats;
                for _ in 0..iterations {
                    for lane in &mut lanes {
                        *lane = *lane * 0.999_9 + 0.000_1;
                    }
                }
                self.floats = black_box(lanes);
            }
            Class::Memory => {
                let mut place = self.place;
                for _ in 0..iterations {
                    place = self.walk.0.get(place).map_or(0, |&next| next as usize);
                }
                self.place = black_box(place);
            }
        }
    }
}

/// Runs a class on each of the CPUs for a time; gives the iterations of each in a second of CPU time, once all run, so
/// that what others take of a CPU does not count.
///
/// # Errors
/// If a CPU cannot be had.
pub fn spin(class: Class, cpus: &[u32], walk: &Walk, ns: u64, poll: &mut dyn FnMut()) -> Result<Vec<f64>, HostError> {
    let (stop, ready) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(cpus.len() + 1)));
    let worker = |number: usize, cpu: u32| {
        let (stop, ready, walk) = (Arc::clone(&stop), Arc::clone(&ready), walk.clone());
        move || -> Result<f64, HostError> {
            let pinned = pin(cpu);
            let mut work = Loop::new(class, walk, number);
            work.turn(BATCH);
            ready.wait();
            pinned?;
            let (begin_ns, mut n_done) = (thread_cpu_ns(), 0);
            while !stop.load(Ordering::Relaxed) {
                work.turn(BATCH);
                n_done += BATCH;
            }
            Ok(n_done as f64 * 1e9 / (thread_cpu_ns() - begin_ns).max(1) as f64)
        }
    };
    let workers: Vec<_> = cpus.iter().enumerate().map(|(at, &cpu)| thread::spawn(worker(at, cpu))).collect();
    ready.wait();
    let until_ns = monotonic_ns() + ns;
    while monotonic_ns() < until_ns {
        thread::sleep(Duration::from_nanos((until_ns - monotonic_ns().min(until_ns)).min(200_000_000)));
        poll();
    }
    stop.store(true, Ordering::Relaxed);
    workers
        .into_iter()
        .map(|one| one.join().unwrap_or_else(|_| Err(HostError::Lacking("a loop ended".into()))))
        .collect()
}

/// How late timers of `sleep_ns` wake a thread of a CPU, in ns.
///
/// # Errors
/// If the CPU cannot be had.
pub fn wake(cpu: u32, sleep_ns: u64, count: u32) -> Result<Vec<u64>, HostError> {
    let one = move || {
        pin(cpu)?;
        // Otherwise timers are up to 50 us late on purpose.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let late = (0..count).map(|_| {
            let until_ns = monotonic_ns() + sleep_ns;
            thread::sleep(Duration::from_nanos(sleep_ns));
            monotonic_ns().saturating_sub(until_ns)
        });
        Ok(late.collect())
    };
    thread::spawn(one).join().unwrap_or_else(|_| Err(HostError::Lacking("a sleeper ended".into())))
}

/// Hands a cache line over between two CPUs; gives the ns of a hand-over, a mean a sample.
///
/// # Errors
/// If a CPU cannot be had.
pub fn exchange(a: u32, b: u32, samples: u32) -> Result<Vec<f64>, HostError> {
    const TURNS: u64 = 2_000;
    let line = Arc::new(AtomicU64::new(0));
    let all = 2 * TURNS * u64::from(samples);
    let side = |cpu: u32, parity: u64| {
        let line = Arc::clone(&line);
        move || -> Result<Vec<f64>, HostError> {
            let pinned = pin(cpu);
            let (mut found, mut begin_ns, mut looks) = (Vec::new(), monotonic_ns(), 0u64);
            loop {
                let now = line.load(Ordering::Acquire);
                if now >= all {
                    pinned?;
                    return Ok(found);
                }
                if now % 2 == parity {
                    if parity == 0 && now > 0 && now.is_multiple_of(2 * TURNS) {
                        let end_ns = monotonic_ns();
                        found.push((end_ns - begin_ns) as f64 / (2 * TURNS) as f64);
                        begin_ns = end_ns;
                    }
                    line.store(now + 1, Ordering::Release);
                    looks = 0;
                } else {
                    looks += 1;
                    // The other one may not be running.
                    if looks.is_multiple_of(1 << 20) {
                        thread::yield_now();
                    }
                    std::hint::spin_loop();
                }
            }
        }
    };
    let (one, other) = (thread::spawn(side(a, 0)), thread::spawn(side(b, 1)));
    let lost = || HostError::Lacking("a thread ended".to_owned());
    other.join().map_err(|_| lost())??;
    one.join().map_err(|_| lost())?
}

/// Speed of a CPU in windows of some microseconds from a moment on, which `act` begins: (ns since then, iterations a
/// second) each.
///
/// # Errors
/// If the CPU cannot be had, or `act` fails.
pub fn watch(cpu: u32, ns: u64, act: impl FnOnce() -> Result<(), HostError>) -> Result<Vec<(u64, f64)>, HostError> {
    const WINDOW: u64 = 2_000;
    let (stop, ready) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(2)));
    let watcher = {
        let (stop, ready) = (Arc::clone(&stop), Arc::clone(&ready));
        thread::spawn(move || -> Result<Vec<(u64, f64)>, HostError> {
            let pinned = pin(cpu);
            let mut work = Loop::new(Class::Integer, Walk::default(), 0);
            work.turn(100 * WINDOW);
            ready.wait();
            pinned?;
            let mut found = Vec::new();
            let mut last_ns = monotonic_ns();
            while !stop.load(Ordering::Relaxed) {
                work.turn(WINDOW);
                let now_ns = monotonic_ns();
                found.push((now_ns, WINDOW as f64 * 1e9 / (now_ns - last_ns).max(1) as f64));
                last_ns = now_ns;
            }
            Ok(found)
        })
    };
    ready.wait();
    thread::sleep(Duration::from_millis(5));
    let begin_ns = monotonic_ns();
    let acted = act();
    thread::sleep(Duration::from_nanos(ns));
    stop.store(true, Ordering::Relaxed);
    let found = watcher.join().unwrap_or_else(|_| Err(HostError::Lacking("a loop ended".into())))?;
    acted?;
    Ok(found.into_iter().filter(|(at_ns, _)| *at_ns >= begin_ns).map(|(at, speed)| (at - begin_ns, speed)).collect())
}

/// How long 4 KiB take until they are on the disk of a folder, in ns.
///
/// # Errors
/// If the folder cannot be written.
pub fn flush(folder: &Path, count: u32) -> Result<Vec<u64>, HostError> {
    let path = folder.join("flush.tmp");
    let io = |error| HostError::io(path.display().to_string(), error);
    let mut file = File::create(&path).map_err(io)?;
    let mut found = Vec::new();
    for _ in 0..count {
        file.write_all(&[0x5a; 4096]).map_err(io)?;
        let begin_ns = monotonic_ns();
        file.sync_data().map_err(io)?;
        found.push(monotonic_ns() - begin_ns);
    }
    drop(file);
    std::fs::remove_file(&path).map_err(io)?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each place of the memory is met before one comes again, so that no cache holds the walk.
    #[test]
    fn the_walk_meets_every_place() {
        for bytes in [5_000, 64 << 20] {
            let walk = Walk::new(bytes);
            let (mut place, mut steps) = (0, 0);
            loop {
                place = walk.0[place] as usize;
                steps += 1;
                if place == 0 {
                    break;
                }
            }
            assert_eq!(steps, walk.0.len());
            assert!(4 * steps as u64 >= bytes);
        }
    }
}
