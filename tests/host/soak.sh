# Runs in the guest: `govern` and `observe` for `soak=` seconds, while CPUs go and come, others change governors and limits,
# the clock is set back, the machine sleeps and a light load runs. Nothing may be lost, memory stays flat, settings come back.
. ./steps.sh
seconds=$(tr ' ' '\n' </proc/cmdline | sed -n 's/^soak=//p' | tail -1)
seconds=${seconds:-600}
last=$(($(nproc) - 1))
uptime_s() { cut -d. -f1 </proc/uptime; }
resident() { # of all agents, kB, and what of it is not a file's
    for pid in $(pidof opplab-agent); do sed -n 's/^RssAnon:[^0-9]*\([0-9]*\) kB/\1/p' /proc/$pid/status; done |
        awk '{ sum += $1 } END { print sum + 0 }'
}

settings >/tmp/before
opplab-agent govern --governor schedutil --util stat --interval 200ms --for ${seconds}s --log /out/soak.jsonl \
    2>/out/soak-govern.err &
governing=$!
opplab-agent observe --interval 1s --for ${seconds}s --csv >/out/soak.csv 2>/out/soak-observe.err &
observing=$!
(while :; do # a hundredth of a CPU: an emulated second of work takes several of ours
    n=0
    while [ $n -lt 1600 ]; do n=$((n + 1)); done
    usleep 400000
done) &
load=$!

round=0
n_off=0
n_taken=0
n_slept=0
: >/out/soak-memory.txt
# By rounds, of some 11 s: the time since the start counts sleep, too.
while [ $round -lt $(((seconds - 25) / 11)) ]; do
    sleep 10
    policy=$CPU/cpufreq/policy$((round % 2 * last))
    case $((round % 6)) in
    0) echo 0 >$CPU/cpu$last/online && n_off=$((n_off + 1)) ;;
    1) echo 1 >$CPU/cpu$last/online ;;
    2 | 3) # somebody else's governor
        governor=ondemand
        [ $((round % 12)) -ge 6 ] && governor=performance
        echo $governor >$policy/scaling_governor && n_taken=$((n_taken + 1))
        ;;
    4) # somebody else's limits, and back
        echo 2000000 >$policy/scaling_max_freq
        usleep 500000
        echo 2250000 >$policy/scaling_max_freq
        ;;
    5) # the time of day goes back an hour; and every four minutes the machine sleeps
        date -s @$(($(date +%s) - 3600)) >/dev/null
        if [ $((round % 24)) = 23 ] && grep -q mem /sys/power/state; then
            echo 0 >/sys/class/rtc/rtc0/wakealarm
            echo +4 >/sys/class/rtc/rtc0/wakealarm
            echo mem >/sys/power/state && n_slept=$((n_slept + 1))
        fi
        ;;
    esac
    round=$((round + 1))
    echo "$(uptime_s) $(resident)" >>/out/soak-memory.txt
done
echo 1 >$CPU/cpu$last/online 2>/dev/null
wait $governing && ok soak govern "$(tail -1 /out/soak-govern.err)" || not_ok soak govern "$(tail -2 /out/soak-govern.err)"
wait $observing && ok soak observe "$(tail -1 /out/soak-observe.err)" ||
    not_ok soak observe "$(tail -1 /out/soak-observe.err)"
kill $load
[ $n_off -gt 0 ] && [ $n_taken -gt 0 ] && ok soak "$n_off times a CPU offline, $n_taken governors of others, $n_slept sleeps" ||
    not_ok soak "$n_off times a CPU offline, $n_taken governors of others, $n_slept sleeps"
settings | cmp -s - /tmp/before && ok soak restored || not_ok soak restored "$(settings | diff - /tmp/before | tr '\n' ' ')"
[ -e /run/opplab-govern.json ] && not_ok soak state || ok soak state

# What the agents hold of memory: the last quarter against the second.
awk '{ m[NR] = $2 } END {
    for (i = int(NR / 4); i < int(NR / 2); i++) if (m[i] > early) early = m[i]
    for (i = int(NR * 3 / 4); i <= NR; i++) if (m[i] > late) late = m[i]
    print early + 0, late + 0; exit !(NR >= 8 && early > 0 && late <= early + 64) }' /out/soak-memory.txt >/tmp/flat &&
    ok soak memory "kB, early and late: $(cat /tmp/flat)" || not_ok soak memory "kB, early and late: $(cat /tmp/flat)"

# Intervals of observe: one a second but for those of sleeps, times that only grow, a row of the first CPU in each.
awk -F, -v seconds=$seconds -v slept=$n_slept 'NR > 1 && $4 == "-" { n++; if ($1 <= t) back++; t = $1 }
    NR > 1 && $4 == 0 { first++ }
    END { print n " intervals, " first " of CPU 0, " back + 0 " back"; exit !(n >= seconds * 0.98 - 2 * slept && first == n && !back) }' \
    /out/soak.csv >/tmp/rows && ok soak rows "$(cat /tmp/rows)" || not_ok soak rows "$(cat /tmp/rows)"

# Decisions: all computed anew, no longer silence than a sleep's own time or a CPU's way out and in, none of a governor lost.
words=$(opplab-agent govern --verify /out/soak.jsonl) && ok soak decisions "$words" || not_ok soak decisions "$words"
taken=$(grep -c "is taken back" /out/soak.jsonl)
[ "$taken" -ge $((n_taken * 9 / 10)) ] && ok soak "taken back $taken of $n_taken" || not_ok soak "taken back $taken of $n_taken"
slept=$(grep -c "the machine slept" /out/soak.jsonl)
noted=$(grep -c "the machine slept" /out/soak-observe.err)
[ "$slept" = $n_slept ] && [ "$noted" = $n_slept ] && ok soak "sleeps told: $slept, $noted of $n_slept" ||
    not_ok soak "sleeps told: $slept, $noted of $n_slept"
grep '"policy":0,' /out/soak.jsonl | sed -n 's/.*"time_ns":\([0-9]*\).*/\1/p' | awk -v seconds=$seconds '{ if (NR > 1 && $1 - t > most) most = $1 - t; if ($1 < t) back++; t = $1 }
    END { printf "%d of policy 0, longest silence %.2f s, %d back\n", NR, most / 1e9, back; exit !(NR >= seconds * 4 && most < 2e9 && !back) }' >/tmp/gaps &&
    ok soak log "$(cat /tmp/gaps)" || not_ok soak log "$(cat /tmp/gaps)"
rm -f /out/soak.jsonl
finish
