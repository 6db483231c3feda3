# Runs in the guest: a stock arm64 kernel of v6.14 or later with cpufreq-dt, which switches slowly and from any CPU.
. ./steps.sh
step_show "cpufreq-dt" "frequency invariance: yes" "energy-aware scheduling: yes"
step_affinity_moves
step_govern
step_record
step_kill
finish
