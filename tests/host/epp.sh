# Runs in the guest: a stock kernel with amd-pstate in its active mode, where the hardware chooses clocks and EPP tells it how.
. ./steps.sh
for policy in $CPU/cpufreq/policy*; do
    echo powersave >$policy/scaling_governor
    echo balance_performance >$policy/energy_performance_preference
done
step_show "amd-pstate-epp" "energy_performance_preference .* balance_performance"
govern_options="--epp power"
step_govern
step_kill
# This driver takes names only; a run that it refuses leaves everything as it was.
opplab-agent govern --governor schedutil --epp 200 --for 1s 2>/out/refused.txt && not_ok refused
grep -q "writing .200. to .*/energy_performance_preference: Invalid argument" /out/refused.txt &&
    settings | cmp -s - /tmp/before && ok refused || not_ok refused "$(cat /out/refused.txt)"
# The hardware's register, as MSR 0x406 of CPU 1 says.
dd if=/dev/cpu/1/msr bs=8 count=1 skip=$((0x406)) iflag=skip_bytes 2>/dev/null | od -An -tu1 | grep -q "^ 128 " &&
    ok register || not_ok register
finish
