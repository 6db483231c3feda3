# Runs in the guest: what goes wrong on a live host while it is governed and observed. After each step settings are as before.
. ./steps.sh
policy1=$CPU/cpufreq/policy1
settings >/tmp/before
restored() { settings | cmp -s - /tmp/before && [ ! -e /run/opplab-govern.json ]; }
busy() { (while :; do :; done) & }
govern() { opplab-agent govern --governor schedutil --util stat --interval 20ms "$@"; }
khz_of() { # the last decision about policy $1 in log $2: the frequency wanted
    grep "\"type\":\"decision\",\"policy\":$1," "$2" | tail -1 | sed 's/.*"next_khz":\([0-9]*\).*/\1/'
}

# An unprivileged user may observe, and may not govern.
mkdir -p /etc
echo "nobody:x:65534:65534::/:/bin/sh" >/etc/passwd
echo "nogroup:x:65534:" >/etc/group
chmod 1777 /tmp
asks() { start-stop-daemon -S -c 65534:65534 -x /bin/opplab-agent -- "$@"; }
asks govern --governor schedutil --for 1s 2>/out/nobody.txt
code=$?
[ $code = 3 ] && grep -q "Permission denied (try as root)" /out/nobody.txt && restored && ok nobody may not govern ||
    not_ok nobody govern exits $code: "$(cat /out/nobody.txt)"
asks govern --governor schedutil --state /tmp/own.json --for 1s 2>/out/nobody-state.txt
code=$?
[ $code = 3 ] && grep -q "Permission denied (try as root)" /out/nobody-state.txt && restored && [ ! -e /tmp/own.json ] &&
    ok nobody with a state of its own || not_ok nobody with a state of its own exits $code: "$(cat /out/nobody-state.txt)"
asks observe -n 3 --interval 100ms --csv >/tmp/nobody.csv 2>/out/nobody-observe.txt
code=$?
[ $code = 0 ] && [ "$(grep -c ",0,0,0," /tmp/nobody.csv)" = 3 ] && ok nobody observes || not_ok nobody observes $code
asks affinity set --threads khungtaskd --cpus 1 --state /tmp/own.json >/out/nobody-affinity.txt 2>&1
code=$?
[ $code = 3 ] && ok nobody moves no thread || not_ok nobody moves no thread $code: "$(cat /out/nobody-affinity.txt)"

# A file that may be read but not written, in the middle of what a decision writes.
cat $policy1/scaling_min_freq >/tmp/min
mount --bind /tmp/min $policy1/scaling_min_freq && mount -o remount,ro,bind /tmp/min $policy1/scaling_min_freq
busy
load=$!
govern --via limits --for 2s 2>/out/one-read-only.txt
code=$?
kill $load
umount $policy1/scaling_min_freq
[ $code = 3 ] && grep -q "scaling_min_freq: Read-only file system" /out/one-read-only.txt && restored && ok one file read-only ||
    not_ok one file read-only $code: "$(cat /out/one-read-only.txt)" "$(settings | diff - /tmp/before)"
# All of /sys, as in a container.
mount -o remount,ro /sys
govern --for 1s 2>/out/read-only.txt
code=$?
mount -o remount,rw /sys
[ $code = 3 ] && grep -q "is /sys mounted read-only" /out/read-only.txt && restored && ok all files read-only ||
    not_ok all files read-only $code: "$(cat /out/read-only.txt)"

# A CPU goes offline while it is governed, and comes back: its policy is governed again, and put back at the end.
for via in setspeed limits; do
    govern --via $via --for 3s --log /tmp/log 2>/out/hotplug-$via.txt &
    governing=$!
    usleep 700000
    echo 0 >$CPU/cpu1/online
    usleep 700000
    during=$(grep -c '"policy":1,' /tmp/log)
    echo 1 >$CPU/cpu1/online
    usleep 300000
    taskset 2 sh -c "while :; do :; done" &
    load=$!
    usleep 700000
    wanted=$(khz_of 1 /tmp/log)
    wait $governing
    code=$?
    kill $load
    after=$(grep -c '"policy":1,' /tmp/log)
    [ $code = 0 ] && [ "$after" -gt "$during" ] && [ "$wanted" = 2250000 ] && restored && ok offline and back by $via ||
        not_ok offline and back by $via: $code, $during, $after, $wanted: "$(cat /out/hotplug-$via.txt)" "$(settings | diff - /tmp/before)"
done
# It stays away: what cannot be put back is remembered, said, and put back when it is there again.
govern --for 2s 2>/out/away.txt &
governing=$!
usleep 500000
echo 0 >$CPU/cpu1/online
wait $governing
code=$?
[ $code = 3 ] && grep -q "remembers it for" /out/away.txt && ok away told || not_ok away told $code: "$(cat /out/away.txt)"
# Meanwhile the other one may be governed: what is left of the first is tried again, and refused by name.
govern --for 500ms 2>/out/away-again.txt && not_ok away again "$(cat /out/away-again.txt)"
grep -q "policy1" /out/away-again.txt && ok away again || not_ok away again "$(cat /out/away-again.txt)"
echo 1 >$CPU/cpu1/online
opplab-agent govern --restore 2>&1 >/out/away-restore.txt && restored && ok away restored || not_ok away restored "$(settings | diff - /tmp/before)"
# It was never there.
echo 0 >$CPU/cpu1/online
govern --for 500ms 2>/out/never.txt
code=$?
echo 1 >$CPU/cpu1/online
usleep 200000
[ $code = 0 ] && grep -q "policy1 has no CPU online and is not governed" /out/never.txt && restored && ok never there ||
    not_ok never there $code: "$(cat /out/never.txt)" "$(settings | diff - /tmp/before)"

# Somebody else gives the policy to another governor: it is taken back and said.
govern --for 2s --log /tmp/log 2>/out/taken.txt &
governing=$!
usleep 500000
for governor in ondemand performance schedutil; do
    echo $governor >$policy1/scaling_governor
    usleep 300000
    [ "$(cat $policy1/scaling_governor)" = userspace ] || not_ok taken: $governor stays
done
wait $governing
code=$?
[ $code = 0 ] && grep -q "policy1 was taken back 3 times" /out/taken.txt && restored && opplab-agent govern --verify /tmp/log >/out/taken-verify.txt &&
    ok taken back || not_ok taken back $code: "$(cat /out/taken.txt)"

# The time of day jumps back and forth: rows count on, intervals are as long as ever.
opplab-agent observe -n 12 --interval 200ms --csv >/tmp/jump.csv 2>/out/jump.txt &
observing=$!
govern --for 2s --log /tmp/log 2>>/out/jump.txt &
governing=$!
for step in -86400 +172800 -86400; do
    usleep 500000
    date -s @$(($(date +%s) + step)) >/dev/null
done
wait $observing && wait $governing
code=$?
awk -F, 'NR > 1 && $4 == "-" { if (n && ($1 - t < 0.15 || $1 - t > 1)) bad++; t = $1; n++ } NR > 1 && ($6 < 0 || $6 > 100) { bad++ }
    END { print n, bad + 0; exit !(n == 12 && !bad) }' /tmp/jump.csv >/tmp/rows && [ $code = 0 ] && restored && ok clock set "$(cat /tmp/rows)" ||
    not_ok clock set $code "$(cat /tmp/rows)" "$(cat /out/jump.txt)"

# The machine sleeps: first as far as the kernel's test of it goes, then to memory, until the clock wakes it.
sleeps() { # way, seconds that it takes at least
    opplab-agent observe --for 8s --interval 200ms --csv >/tmp/sleep.csv 2>/out/sleep-$1.txt &
    observing=$!
    govern --for 8s --log /tmp/log 2>>/out/sleep-$1.txt &
    governing=$!
    sleep 1
    if [ $1 = test ]; then
        echo core >/sys/power/pm_test && echo mem >/sys/power/state
    else
        echo none >/sys/power/pm_test
        echo 0 >/sys/class/rtc/rtc0/wakealarm
        echo +5 >/sys/class/rtc/rtc0/wakealarm
        echo mem >/sys/power/state
    fi
    slept=$?
    wait $observing && wait $governing
    code=$?
    told=$(grep -c "note: the machine slept" /out/sleep-$1.txt)
    noted=$(grep -c "the machine slept" /tmp/log)
    wild=$(awk -F, 'NR > 1 && ($6 < 0 || $6 > 100 || $7 > 2300) { n++ } END { print n + 0 }' /tmp/sleep.csv)
    words="$(grep "the machine slept" /out/sleep-$1.txt)"
    [ $slept = 0 ] && [ $code = 0 ] && [ $told = $2 ] && [ $noted = $2 ] && [ $wild = 0 ] && restored &&
        opplab-agent govern --verify /tmp/log >/out/sleep-verify.txt && ok sleep $1 "$words" ||
        not_ok sleep $1 $slept $code, told $told, in the log $noted, wild rows $wild: "$(cat /out/sleep-$1.txt)" "$(settings | diff - /tmp/before)"
}
if grep -q mem /sys/power/state; then
    [ -e /sys/power/pm_test ] && sleeps test 1
    sleeps memory 1
else
    not_ok sleep: "$(cat /sys/power/state)"
fi

# The machine is started anew (as the remembered boot says): what was remembered is of no use, and touches nothing.
sed 's/^[0-9a-f]*/00000000/' /proc/sys/kernel/random/boot_id >/tmp/boot
echo "{\"pid\":1,\"boot\":\"$(cat /tmp/boot)\",\"policies\":[{\"policy\":0,\"settings\":{\"scaling_governor\":\"performance\"}}]}" >/run/opplab-govern.json
opplab-agent govern --restore >/out/boot.txt 2>&1
code=$?
[ $code = 0 ] && grep -q "started anew" /out/boot.txt && restored && ok earlier boot || not_ok earlier boot $code "$(cat /out/boot.txt)"
finish
