//! The nouns of opplab: machines, workloads, policies, experiments, events.
