# What the guests' scripts have in common: each step prints `ok STEP ...` or `not ok STEP ...`. Ends with `finish`.
CPU=/sys/devices/system/cpu
failed=0
govern_options=""
ok() { echo "ok $*"; }
not_ok() { echo "not ok $*"; failed=1; }
finish() { exit $failed; }

settings() {
    for policy in $CPU/cpufreq/policy*; do
        for file in scaling_governor scaling_min_freq scaling_max_freq energy_performance_preference; do
            [ -e "$policy/$file" ] && echo "$policy/$file $(cat "$policy/$file")"
        done
    done
}

cheap() { # the cost in the last line of file $1 is below $2 percent
    tail -1 "$1" | sed 's/.* = \([0-9.]*\) %.*/\1/' | awk -v most="$2" '{ exit !($1 < most) }'
}

agents_end() { # until no agent runs; an emulated second is long
    n=0
    while pidof opplab-agent >/dev/null; do
        n=$((n + 1))
        [ $n -gt 400 ] && return 1
        usleep 20000
    done
}

step_show() { # the report has each of the given words
    opplab-agent show --json >/out/show.json && opplab-agent show >/out/show.txt || not_ok show exit $?
    missing=""
    for words in "$@"; do grep -q "$words" /out/show.txt || missing="$missing, $words"; done
    [ -z "$missing" ] && ok show || not_ok show "lacks${missing#,}"
}

step_observe() { # observing costs less than $1 percent of a CPU and gives more than $2 lines
    opplab-agent observe -n 20 --interval 100ms --csv >/out/observe.csv 2>/out/observe.err
    lines=$(wc -l </out/observe.csv)
    [ "$lines" -gt "$2" ] && cheap /out/observe.err "$1" && ok observe "$(tail -1 /out/observe.err)" ||
        not_ok observe "$lines lines, $(tail -1 /out/observe.err)"
}

step_govern() { # each governor under load with $govern_options: settings come back, decisions can be computed anew
    settings >/tmp/before
    for governor in schedutil ondemand conservative; do
        (cd /tmp && rt-app /test/load.json >/out/rtapp.txt 2>&1) &
        opplab-agent govern --governor $governor --util auto --interval 20ms --for 2s --log /out/$governor.jsonl \
            $govern_options 2>/out/$governor.err || not_ok govern $governor "$(cat /out/$governor.err)"
        killall rt-app 2>/dev/null
        wait
        words=$(opplab-agent govern --verify /out/$governor.jsonl) && ok govern $governor "$words" ||
            not_ok govern $governor "$words"
        settings | cmp -s - /tmp/before && ok restored $governor || not_ok restored $governor
    done
}

step_affinity() { # schedutil's kthreads (where the driver switches slowly), and a kthread that may be moved
    if opplab-agent affinity >/out/affinity.txt 2>&1; then
        grep -q "may not be moved: kernel .* binds it" /out/affinity.txt && ok affinity why not ||
            not_ok affinity why not
        opplab-agent affinity set --cpus 0 >/out/affinity-set.txt 2>&1
        grep -q "refused: EINVAL" /out/affinity-set.txt && ok affinity refused || not_ok affinity refused
    else
        grep -q "with fast switching there is no kthread" /out/affinity.txt && ok affinity "$(cat /out/affinity.txt)" ||
            not_ok affinity "$(cat /out/affinity.txt)"
    fi
    movable=khungtaskd
    before=$(grep Cpus_allowed_list "/proc/$(pidof $movable)/status")
    opplab-agent affinity set --threads $movable --cpus 1 >>/out/affinity-set.txt 2>&1 || not_ok affinity set
    grep -q "Cpus_allowed_list:	1$" "/proc/$(pidof $movable)/status" && ok affinity moved || not_ok affinity moved
    opplab-agent affinity restore >>/out/affinity-set.txt 2>&1 || not_ok affinity restore
    [ "$before" = "$(grep Cpus_allowed_list "/proc/$(pidof $movable)/status")" ] && ok affinity restored ||
        not_ok affinity restored
    [ ! -e /run/opplab-affinity.json ] && ok affinity state || not_ok affinity state
}

allowed() { # where each of schedutil's kthreads may run and where it ran last
    for pid in $(pidof_sugov); do
        echo "$(cat /proc/$pid/comm) $(sed -n 's/^Cpus_allowed_list:\t//p' /proc/$pid/status)"
    done
}

pidof_sugov() {
    for comm in /proc/[0-9]*/comm; do
        case "$(cat $comm 2>/dev/null)" in sugov:*) pid=${comm%/comm} && echo "${pid#/proc/}" ;; esac
    done
}

step_affinity_moves() { # schedutil's kthreads, which the kernel lets go: all to the last CPU, and back
    last=$(($(nproc) - 1))
    allowed >/tmp/allowed
    opplab-agent affinity >/out/affinity.txt 2>&1 || not_ok affinity exit $?
    [ "$(grep -c "may be moved" /out/affinity.txt)" = "$(wc -l </tmp/allowed)" ] && ok affinity $(cat /tmp/allowed) ||
        not_ok affinity "$(cat /out/affinity.txt)"
    opplab-agent affinity set --cpus $last >/out/affinity-set.txt 2>&1 || not_ok affinity set "$(cat /out/affinity-set.txt)"
    before=$(cat $CPU/cpufreq/policy*/stats/total_trans)
    (cd /tmp && rt-app /test/load.json >/out/rtapp.txt 2>&1)
    after=$(cat $CPU/cpufreq/policy*/stats/total_trans)
    opplab-agent affinity >/out/affinity-moved.txt
    [ -z "$(allowed | sed "/ $last\$/d")" ] && ok affinity moved $(allowed) || not_ok affinity moved $(allowed)
    [ "$before" != "$after" ] && ok affinity switches $before to $after || not_ok affinity switches $before
    # Field 39, counted behind the name: the CPU of the last run.
    for pid in $(pidof_sugov); do
        ran=$(sed 's/.*) //' /proc/$pid/stat | cut -d' ' -f37)
        [ "$ran" = $last ] && ok affinity "$(cat /proc/$pid/comm) ran on CPU $ran" || not_ok affinity ran on CPU $ran
    done
    opplab-agent affinity restore >>/out/affinity-set.txt 2>&1 || not_ok affinity restore
    allowed | cmp -s - /tmp/allowed && ok affinity restored || not_ok affinity restored $(allowed)
    [ ! -e /run/opplab-affinity.json ] && ok affinity state || not_ok affinity state
}

step_record() { # with these further options; the archive is checked outside
    opplab-agent record -o /out/recording.tar.zst --for 1500ms "$@" -- rt-app /test/load.json \
        >/out/record.txt 2>&1 && ok record "$(tail -1 /out/record.txt)" || not_ok record "$(cat /out/record.txt)"
    [ -z "$(ls /sys/kernel/tracing/instances)" ] && [ -z "$(cat /sys/kernel/tracing/dynamic_events)" ] &&
        ok record cleaned || not_ok record cleaned
}

step_kill() { # worker or supervisor of a run with $govern_options, at random moments, `kills=` times
    settings >/tmp/before
    rounds=$(tr ' ' '\n' </proc/cmdline | sed -n 's/^kills=//p' | tail -1)
    i=0
    bad=0
    struck=0
    while [ $i -lt "${rounds:-50}" ]; do
        via=setspeed
        [ $((i % 4)) -ge 2 ] || ! grep -q userspace $CPU/cpufreq/policy0/scaling_available_governors && via=limits
        opplab-agent govern --governor schedutil --interval 5ms --via $via $govern_options 2>/tmp/err &
        supervisor=$!
        usleep $((RANDOM * 6))
        settings | cmp -s - /tmp/before || struck=$((struck + 1))
        worker=$(sed -n 's/^governing .*worker //p' /tmp/err)
        if [ $((i % 2)) = 0 ] && [ -n "$worker" ]; then kill -9 "$worker"; else kill -9 $supervisor; fi
        wait $supervisor 2>/dev/null
        agents_end || echo "round $i: an agent does not end"
        if ! settings | cmp -s - /tmp/before || [ -e /run/opplab-govern.json -a -n "$worker" ]; then
            bad=$((bad + 1))
            echo "round $i ($via, worker $worker): $(settings | diff - /tmp/before | tr '\n' ' ') $(cat /tmp/err)"
            opplab-agent govern --restore
        fi
        rm -f /run/opplab-govern.json
        i=$((i + 1))
    done
    [ $bad = 0 ] && [ $struck -gt 0 ] && ok kill "$i rounds, $struck of them while settings were changed" || not_ok kill "$bad of $i rounds, $struck of them while settings were changed"
}
