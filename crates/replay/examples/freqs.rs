//! Prints the frequency changes of the run of a recording's workload file.

use std::path::Path;

use opplab_model::event::{Event, Sink};

struct Print;
impl Sink for Print {
    fn event(&mut self, now_ns: u64, event: &Event) {
        let all = std::env::args().nth(2).is_some();
        match event {
            Event::CpuFrequency { .. } | Event::FreqRequest { .. } => println!("{:>12} {event:?}", now_ns / 1000),
            Event::PeltCfs { .. } | Event::CpuIdle { .. } => {}
            _ if all => println!("{:>12} {event:?}", now_ns / 1000),
            _ => {}
        }
    }
}

fn main() {
    let dir = std::env::args().nth(1).expect("a folder");
    let (case, start_khz) = opplab_replay::agree::case_of(Path::new(&dir)).expect("a case").expect("a workload");
    opplab_sim::run_from(&case, &start_khz, &mut Print).expect("a run");
}
