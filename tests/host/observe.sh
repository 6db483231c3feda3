# Runs in the guest: what observing costs on many CPUs, and that CPUs may go and come meanwhile.
. ./steps.sh
step_observe 3 160
opplab-agent observe --interval 100ms --for 2s --csv >/out/hotplug.csv 2>/out/hotplug.err &
usleep 500000
echo 0 >/sys/devices/system/cpu/cpu3/online
usleep 500000
echo 1 >/sys/devices/system/cpu/cpu3/online
if wait $!; then
    with=$(grep -c ",0,3,3," /out/hotplug.csv)
    without=$(grep -c ",0,4,4," /out/hotplug.csv)
    [ "$with" -lt "$without" ] && [ "$with" -gt 5 ] && ok hotplug "$with of $without rows" ||
        not_ok hotplug "$with of $without rows"
else
    not_ok hotplug "$(cat /out/hotplug.err)"
fi
finish
