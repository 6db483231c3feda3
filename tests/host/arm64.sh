# Runs in the guest: a stock arm64 kernel with cppc_cpufreq, two kinds of CPUs, an artificial energy model and EAS.
. ./steps.sh
step_show "cppc_cpufreq" "highest_perf .* 383 " "highest_perf .* 1024 " "cpu_capacity .* 383 " "cpu0/flags .* 0x4 " \
    "frequency invariance: yes" "energy-aware scheduling: yes"
# Without the kernel's own governor there is no energy-aware scheduling; the report says which condition is missing.
policy=$CPU/cpufreq/policy0
echo performance >$policy/scaling_governor
opplab-agent show >/out/show-performance.txt
grep -q "energy-aware scheduling: no" /out/show-performance.txt && grep -q -- "- a policy runs performance, not" \
    /out/show-performance.txt && ok show why not || not_ok show why not
echo schedutil >$policy/scaling_governor
step_observe 3 80
step_govern
step_affinity
step_record
step_kill
finish
