"""Control groups as files: read from a cgroup tree or a pod spec, written as a workload or an experiment."""
