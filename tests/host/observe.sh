# Runs in the guest: what observing costs on many CPUs, and that CPUs may go and come meanwhile.
opplab-agent observe -n 20 --interval 100ms --csv >/out/observe.csv 2>/out/observe.err
lines=$(wc -l </out/observe.csv)
words=$(tail -1 /out/observe.err)
cost=$(echo "$words" | sed 's/.* = \([0-9.]*\) %.*/\1/')
failed=0
if [ "$lines" -gt 160 ] && echo "$cost" | awk '{ exit !($1 < 3) }'; then
    echo "ok observe $words"
else
    echo "not ok observe $lines lines, $words"
    failed=1
fi
opplab-agent observe --interval 100ms --for 2s --csv >/out/hotplug.csv 2>/out/hotplug.err &
usleep 500000
echo 0 >/sys/devices/system/cpu/cpu3/online
usleep 500000
echo 1 >/sys/devices/system/cpu/cpu3/online
if wait $!; then
    with=$(grep -c ",0,3,3," /out/hotplug.csv)
    without=$(grep -c ",0,4,4," /out/hotplug.csv)
    [ "$with" -lt "$without" ] && [ "$with" -gt 5 ] && echo "ok hotplug $with of $without rows" ||
        { echo "not ok hotplug $with of $without rows"; failed=1; }
else
    echo "not ok hotplug $(cat /out/hotplug.err)"
    failed=1
fi
exit $failed
