//! The CPUs that must schedule, in the order in which they were asked to.

use std::collections::VecDeque;

use crate::ids::CpuId;

/// First come, first served. Nearly always one CPU waits, which needs no queue.
#[derive(Debug, Default)]
pub(crate) struct Resched {
    first: Option<CpuId>,
    /// Those after it; empty if there is no first.
    others: VecDeque<CpuId>,
}

impl Resched {
    #[inline]
    pub(crate) fn push(&mut self, cpu: CpuId) {
        if self.first.is_none() {
            self.first = Some(cpu);
        } else {
            self.others.push_back(cpu);
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<CpuId> {
        let first = self.first.take();
        if !self.others.is_empty() {
            self.first = self.others.pop_front();
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_schedule_in_the_order_of_asking() {
        let mut resched = Resched::default();
        assert_eq!(resched.pop(), None);
        for cpu in [3, 1, 2] {
            resched.push(CpuId(cpu));
        }
        assert_eq!(resched.pop(), Some(CpuId(3)));
        resched.push(CpuId(0));
        assert_eq!([(); 4].map(|()| resched.pop()), [Some(CpuId(1)), Some(CpuId(2)), Some(CpuId(0)), None]);
    }
}
