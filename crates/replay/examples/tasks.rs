//! Prints the tasks of the case of a recording: work, ops.

use std::path::Path;

use opplab_model::workload::Op;

fn main() {
    let dir = std::env::args().nth(1).expect("a folder");
    let (case, _) = opplab_replay::agree::case_of(Path::new(&dir)).expect("a case").expect("a workload");
    for task in &case.workload.tasks {
        let work: u64 = task.ops.iter().map(|op| if let Op::Run { work_ns, .. } = op { *work_ns } else { 0 }).sum();
        println!(
            "{:24} initial {} delay {:>9} us ops {:>5} work {:>8} us cpus {:?} spawn {:?} {:?}",
            task.name,
            task.initial,
            task.delay_ns / 1000,
            task.ops.len(),
            work / 1000,
            task.cpus,
            task.spawn_cpu,
            task.ops.iter().take(6).collect::<Vec<_>>()
        );
    }
}
