# Nested groups with clamps, cgroup v2: top/ui (min 40, max 80), top/render inside top (max 60), back (max 20), burst changes half-way.
cp /w/in/ucl /bin/ucl; chmod +x /bin/ucl; mkdir -p /cg; mount -t cgroup2 none /cg; echo +cpu > /cg/cgroup.subtree_control
mkdir -p /cg/top /cg/back; echo +cpu > /cg/top/cgroup.subtree_control; mkdir -p /cg/top/ui /cg/top/render /cg/top/rt
echo 50 > /cg/top/cpu.uclamp.min; echo 60 > /cg/top/cpu.uclamp.max
echo 40 > /cg/top/ui/cpu.uclamp.min; echo 80 > /cg/top/ui/cpu.uclamp.max
echo 30.5 > /cg/top/render/cpu.uclamp.max
echo 20 > /cg/back/cpu.uclamp.max
snap() { for f in /cg/*/cpu.uclamp.* /cg/*/*/cpu.uclamp.*; do read v < $f; echo "$f: $v"; done > $1; }
app() { cat > /tmp/$1.json <<XEOF
{"global": {"duration": 2, "calibration": 190, "default_policy": "SCHED_OTHER", "logdir": "/tmp", "log_basename": "$1", "lock_pages": false, "gnuplot": false},
 "tasks": {$2}}
XEOF
( echo 0 > /cg/$3/cgroup.procs; exec $4 rt-app /tmp/$1.json > /tmp/$1.out 2>&1 ) & }
snap /out/cgroup_start.txt
app ui '"ui": {"loop": -1, "run": 2000, "timer": {"ref": "u", "period": 16000}}' top/ui
app render '"render": {"loop": -1, "run": 9000, "timer": {"ref": "r", "period": 33000}}' top/render 'ucl 200 900'
app back '"back": {"instance": 2, "loop": -1, "run": 20000, "timer": {"ref": "b", "period": 50000}}' back
app own '"own": {"loop": -1, "run": 1500, "timer": {"ref": "o", "period": 40000}}' top/ui 'ucl 700 1024'
app cap '"cap": {"loop": -1, "run": 12000, "timer": {"ref": "c", "period": 60000}}' . 'ucl 0 300'
app rt '"rt": {"loop": -1, "run": 700, "timer": {"ref": "q", "period": 70000}}' top/rt 'chrt -f 5'
who() { for p in $(pidof rt-app); do for t in /proc/$p/task/*; do echo "== ${t##*/} $(grep clamp $t/sched | tr -s ' ' | tr '\n' ';') $(tail -1 $t/cgroup)"; done; done > $1; }
sleep 1.2
echo 70 > /cg/back/cpu.uclamp.max; echo 0 > /cg/top/cpu.uclamp.min; echo 45 > /cg/top/cpu.uclamp.max
snap /out/cgroup_mid.txt
wait
snap /out/cgroup_end.txt; cp /tmp/*.out /out/
