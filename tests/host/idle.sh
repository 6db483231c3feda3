#!/bin/sh
# A service of the guest's systemd: waits until nothing starts any more, records the scheduler with nobody at work, hands
# the recording over on the second disk, powers off.
sleep "$SETTLE_S"
cd /sys/kernel/tracing || exit 1
echo 32768 >buffer_size_kb
echo 1 >events/sched/sched_switch/enable
echo 1 >events/sched/sched_waking/enable
sleep "$RECORD_S"
echo 0 >tracing_on
cat trace >/dev/vdb
sync
poweroff -f
