//! How far a machine's energies may be off by the ranges of its file.

use opplab_model::machine::{Cluster, IdleState, Machine};
use opplab_model::power::PointPower;
use opplab_sim::Outcome;

/// The least and the most energy of a run's clusters, in fJ; `None` if the file has no range of a power.
///
/// It is what each cluster did, at the powers of [`Machine::power_ends`].
pub(crate) fn energy_ends(machine: &Machine, outcome: &Outcome) -> Option<(f64, f64)> {
    let ends = machine.power_ends()?;
    let of = |index: usize| {
        let did = Did { own: machine, outcome, index };
        ends.bounds(|at| did.busy_fj(at) + did.idle_fj(at) + did.shared_fj(at))
    };
    let clusters = (0..machine.clusters.len()).map(of);
    Some(clusters.fold((0.0, 0.0), |sum, ends| (sum.0 + ends.0, sum.1 + ends.1)))
}

/// What a cluster did in a run.
struct Did<'r> {
    own: &'r Machine,
    outcome: &'r Outcome,
    index: usize,
}

impl Did<'_> {
    /// What its busy CPUs would have drawn.
    fn busy_fj(&self, at: &Machine) -> f64 {
        let alone_fj = |of: &Machine| {
            let powers = self.powers(of);
            powers.iter().enumerate().map(|(point, power)| self.busy_ns(point) * power.busy_uw as f64).sum::<f64>()
        };
        let outcome = self.outcome;
        let drawn_fj = (outcome.cluster_energy_fj[self.index] - outcome.shared_energy_fj[self.index]) as f64;
        let own_fj = alone_fj(self.own);
        if own_fj == 0.0 {
            return 0.0;
        }
        // Threads that share a core draw less; programs may draw more.
        let less = 1.0 - (drawn_fj - self.idle_fj(self.own)) / own_fj;
        let alone = |of: &Machine| f64::from(1024_u32.saturating_sub(of.smt_power));
        let pairs = if less > 0.0 && alone(self.own) > 0.0 { alone(at) / alone(self.own) } else { 1.0 };
        alone_fj(at) * (1.0 - less * pairs)
    }

    /// What its idle CPUs would have drawn. Idle outside of any state is as in the shallowest.
    fn idle_fj(&self, at: &Machine) -> f64 {
        let has_sibling = self.cluster().cpus.first().is_some_and(|&cpu| self.own.has_sibling(cpu));
        let in_state = |(index, state): (usize, &IdleState)| {
            self.mean_uw(at, |power| {
                let told_uw = power.idle_uw.filter(|_| index == 0).unwrap_or(state.power_uw);
                told_uw.min(at.idle_most_uw(power, has_sibling))
            })
        };
        let mut powers: Vec<f64> = at.clusters[self.index].idle.iter().enumerate().map(in_state).collect();
        powers.extend(powers.first().copied());
        let of = |&cpu: &u32| self.outcome.idle_ns_by_state[cpu as usize].iter().zip(&powers);
        self.cluster().cpus.iter().flat_map(of).map(|(&ns, uw)| ns as f64 * uw).sum()
    }

    /// What its shared logic would have drawn.
    fn shared_fj(&self, at: &Machine) -> f64 {
        let asleep = &self.outcome.asleep_ns[self.index];
        let asleep_fj = |of: &Machine| {
            let states = of.clusters[self.index].cluster_idle.iter().zip(asleep);
            states.map(|(state, &ns)| ns as f64 * state.power_uw as f64).sum::<f64>()
        };
        let all_idle_ns = self.outcome.all_idle_ns[self.index];
        let all_idle_fj = |of: &Machine| {
            let all = of.clusters[self.index].cluster_idle_uw;
            all_idle_ns as f64 * self.mean_uw(of, |power| power.cluster_idle_uw.or(all).unwrap_or(power.cluster_uw))
        };
        let awake_uw = |of: &Machine| self.mean_uw(of, |power| power.cluster_uw);
        let awake_fj = self.outcome.shared_energy_fj[self.index] as f64 - asleep_fj(self.own) - all_idle_fj(self.own);
        let awake_ns = self.outcome.wall_ns.saturating_sub(all_idle_ns + asleep.iter().sum::<u64>());
        let awake_fj = match awake_uw(self.own) {
            0.0 => awake_ns as f64 * awake_uw(at),
            own_uw => awake_fj * awake_uw(at) / own_uw,
        };
        awake_fj + asleep_fj(at) + all_idle_fj(at)
    }

    fn cluster(&self) -> &Cluster {
        &self.own.clusters[self.index]
    }

    /// The powers of the run's operating points on a machine.
    fn powers(&self, of: &Machine) -> Vec<PointPower> {
        self.outcome.points[self.index].iter().map(|point| of.clusters[self.index].point_at(point.khz)).collect()
    }

    fn busy_ns(&self, point: usize) -> f64 {
        self.cluster().cpus.iter().map(|&cpu| self.outcome.busy_ns_by_opp[cpu as usize][point] as f64).sum()
    }

    /// A power that depends on the clock, over the clocks at which CPUs of the cluster were busy.
    fn mean_uw(&self, of: &Machine, power_uw: impl Fn(&PointPower) -> u64) -> f64 {
        let powers = self.powers(of);
        let weighed = powers.iter().enumerate().map(|(point, power)| (self.busy_ns(point), power_uw(power) as f64));
        let (ns, fj) = weighed.fold((0.0, 0.0), |(all_ns, all_fj), (ns, uw)| (all_ns + ns, all_fj + ns * uw));
        if ns > 0.0 { fj / ns } else { powers.first().map_or(0.0, |power| power_uw(power) as f64) }
    }
}
