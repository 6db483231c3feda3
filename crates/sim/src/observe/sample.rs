//! Reads the machine's counters for a sink that wants them (meters). Reading changes nothing that a run can see.

use opplab_kernel::pelt::HalfLife;
use opplab_model::counters::{CpuCounters, Sample};
use opplab_model::event::Sink;

use crate::ids::CpuId;
use crate::run::accounts::cycles;
use crate::run::cpu::BOOT_NS;
use crate::run::engine::Engine;

impl<S: Sink, H: HalfLife> Engine<'_, S, H> {
    /// Gives the sink all the samples that it wants up to `time_ns`.
    #[inline]
    pub(crate) fn samples_until(&mut self, time_ns: u64) {
        if !S::ENABLED {
            return;
        }
        while let Some(sample_ns) = self.journal.next_sample(time_ns - BOOT_NS) {
            self.take_sample(BOOT_NS + sample_ns);
        }
    }

    /// Gives the sink the counters as they are at `now_ns`, before anything happens at that instant.
    fn take_sample(&mut self, now_ns: u64) {
        self.now = now_ns;
        let time_ns = now_ns - BOOT_NS;
        let mut cluster_energy_fj: Vec<u128> = self
            .clusters
            .iter_mut()
            .map(|cluster| {
                cluster.meter.advance(now_ns);
                cluster.meter.energy_fj()
            })
            .collect();
        let mut cpus = Vec::with_capacity(self.cpus.len());
        for cpu in (0..self.cpus.len()).map(CpuId::of) {
            self.account_point(cpu);
            let (idle_entries, idle_ns) = self.idle_usage(cpu).into_iter().unzip();
            let state = &mut self.cpus[cpu];
            state.meter.advance(now_ns);
            let energy_fj = state.meter.energy_fj();
            cluster_energy_fj[state.cluster.index()] += energy_fj;
            let base_khz = self.topology.reference_khz[state.cluster];
            let (aperf, mperf) = state.at_points.counters();
            cpus.push(CpuCounters { aperf, mperf, tsc: cycles(base_khz, time_ns), idle_ns, idle_entries, energy_fj });
        }
        let consumer_energy_fj = self.consumers_fj();
        let floor_energy_fj = u128::from(self.case.machine.floor_uw) * u128::from(time_ns);
        self.journal.sample(Sample { time_ns, cpus, cluster_energy_fj, consumer_energy_fj, floor_energy_fj });
    }
}
