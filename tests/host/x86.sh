# Runs in the guest: a stock kernel with acpi-cpufreq, no invariance.
. ./steps.sh
step_show "acpi-cpufreq" "frequency invariance: no"
step_observe 1 40
step_govern
step_affinity
step_record --probes /test/probes.events
step_kill
finish
