//! The fair tasks of each CPU in the order in which the load balancer looks at them (`rq->cfs_tasks`).
//!
//! Doubly linked through two numbers a task, so that a queue of any length adds, removes and moves in constant time without
//! allocation. The order of running is elsewhere: [`super::timeline`].

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Links {
    towards_head: u32,
    towards_tail: u32,
}

/// The lists of all CPUs of a machine.
#[derive(Clone, Debug, Default)]
pub struct TaskLists {
    ends: Vec<Links>,
    tasks: Vec<Links>,
}

fn some(id: u32) -> Option<u32> {
    (id != NONE).then_some(id)
}

impl TaskLists {
    /// Empty lists for `n_cpus` CPUs.
    pub fn new(n_cpus: usize) -> Self {
        Self { ends: vec![Links { towards_head: NONE, towards_tail: NONE }; n_cpus], tasks: Vec::new() }
    }

    /// The first task of `cpu`'s list, the one that was queued last.
    #[inline]
    pub fn first(&self, cpu: usize) -> Option<u32> {
        some(self.ends[cpu].towards_head)
    }

    /// The last task of `cpu`'s list.
    #[inline]
    pub fn last(&self, cpu: usize) -> Option<u32> {
        some(self.ends[cpu].towards_tail)
    }

    /// The task that comes before `task`.
    #[inline]
    pub fn before(&self, task: u32) -> Option<u32> {
        some(self.tasks[task as usize].towards_head)
    }

    /// The tasks of `cpu` from the first to the last.
    pub fn iter(&self, cpu: usize) -> impl Iterator<Item = u32> {
        std::iter::successors(self.first(cpu), |&task| some(self.tasks[task as usize].towards_tail))
    }

    /// Adds `task`, which must be in no list, at the head of `cpu`'s (`list_add()`).
    #[inline]
    pub fn add(&mut self, cpu: usize, task: u32) {
        let at = task as usize;
        if at >= self.tasks.len() {
            self.grow(at);
        }
        let head = self.ends[cpu].towards_head;
        self.tasks[at] = Links { towards_head: NONE, towards_tail: head };
        self.ends[cpu].towards_head = task;
        match some(head) {
            Some(old) => self.tasks[old as usize].towards_head = task,
            None => self.ends[cpu].towards_tail = task,
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, at: usize) {
        self.tasks.resize(at + 1, Links { towards_head: NONE, towards_tail: NONE });
    }

    /// Takes `task` out of `cpu`'s list, in which it must be.
    #[inline]
    pub fn remove(&mut self, cpu: usize, task: u32) {
        let Links { towards_head, towards_tail } = self.tasks[task as usize];
        match some(towards_head) {
            Some(before) => self.tasks[before as usize].towards_tail = towards_tail,
            None => {
                assert_eq!(self.ends[cpu].towards_head, task, "the task is in the list");
                self.ends[cpu].towards_head = towards_tail;
            }
        }
        match some(towards_tail) {
            Some(after) => self.tasks[after as usize].towards_head = towards_head,
            None => self.ends[cpu].towards_tail = towards_head,
        }
        self.tasks[task as usize] = Links { towards_head: NONE, towards_tail: NONE };
    }

    /// Moves `task` to the head of `cpu`'s list, in which it is (`list_move()`).
    #[inline]
    pub fn move_to_head(&mut self, cpu: usize, task: u32) {
        let head = self.ends[cpu].towards_head;
        if head == task {
            return;
        }
        // Whoever is not the head has one before it.
        let Links { towards_head: before, towards_tail } = self.tasks[task as usize];
        self.tasks[before as usize].towards_tail = towards_tail;
        match some(towards_tail) {
            Some(after) => self.tasks[after as usize].towards_head = before,
            None => self.ends[cpu].towards_tail = before,
        }
        self.tasks[task as usize] = Links { towards_head: NONE, towards_tail: head };
        self.tasks[head as usize].towards_head = task;
        self.ends[cpu].towards_head = task;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Two lists behave as two vectors.
        #[test]
        fn behave_as_vectors(ops in proptest::collection::vec((0usize..2, 0u32..12, 0u8..3), 0..200)) {
            let mut lists = TaskLists::new(2);
            let mut model: [Vec<u32>; 2] = Default::default();
            for (cpu, task, op) in ops {
                let home = model.iter().position(|list| list.contains(&task));
                match (op, home) {
                    (0, None) => {
                        lists.add(cpu, task);
                        model[cpu].insert(0, task);
                    }
                    (1, Some(home)) => {
                        lists.remove(home, task);
                        model[home].retain(|&other| other != task);
                    }
                    (2, Some(home)) => {
                        lists.move_to_head(home, task);
                        model[home].retain(|&other| other != task);
                        model[home].insert(0, task);
                    }
                    _ => {}
                }
                for (cpu, expected) in model.iter().enumerate() {
                    prop_assert_eq!(&lists.iter(cpu).collect::<Vec<_>>(), expected);
                    prop_assert_eq!(lists.last(cpu), expected.last().copied());
                    let backwards = std::iter::successors(lists.last(cpu), |&task| lists.before(task));
                    prop_assert!(backwards.eq(expected.iter().rev().copied()));
                }
            }
        }
    }
}
