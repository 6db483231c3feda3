# Runs in the guest at each of its starts: two kernels by two governors, measured across restarts that GRUB leads to.
. ./steps.sh
UNIT=/etc/systemd/system/opplab-compare.service
WANTED=/etc/systemd/system/multi-user.target.d/opplab-compare.conf
OUT=/disk/measured
mkdir -p /disk && mount -t ext4 /dev/vdb1 /disk || not_ok disk
for folder in boot etc; do mkdir -p /$folder && mount --bind /disk/$folder /$folder; done
# systemd's part: it restarts the machine, and starts a unit that is wanted.
printf '#!/bin/sh\n[ "$1" = reboot ] && echo >/run/restart\n' >/bin/systemctl
chmod +x /bin/systemctl

cat /proc/version >>/disk/starts.txt
sync
settings >/tmp/before
[ -e /disk/calibrated/sysfs.txt ] || opplab-agent calibrate --for 10s --rounds 3 -o /disk/calibrated >/disk/calibrated.txt \
    2>>/disk/errors.txt || not_ok calibrate "$(cat /disk/errors.txt)"
set -- --kernel "$(cat /disk/kernels)" --governor schedutil,performance --metric 'work_done[s]=/work_done ([0-9.]+)/' \
    --blocks 6 -o $OUT -- sh /test/bursts.sh
if [ -e $UNIT ] && [ -e $WANTED ]; then
    # Words in quotes, of which % and $ are doubled.
    eval "$(sed -n 's/^ExecStart=//p' $UNIT | sed 's/%%/%/g; s/\$\$/\\$/g')" >/disk/report.txt 2>>/disk/errors.txt
    code=$?
else
    opplab-agent compare --dry-run "$@" >/disk/dry.txt 2>&1 || not_ok dry run "$(cat /disk/dry.txt)"
    opplab-agent compare "$@" >/disk/report.txt 2>>/disk/errors.txt
    code=$?
fi
# A kernel that did not come three times in a row ends the experiment. Who finds it so asks again, and it goes on.
if [ $code != 0 ] && tail -n 1 /disk/errors.txt | grep -q 'came each time'; then
    [ -e $UNIT ] && not_ok left $UNIT
    echo "ended by power losses, and asked for again" >>/disk/again.txt
    opplab-agent compare "$@" >/disk/report.txt 2>>/disk/errors.txt
    code=$?
fi
settings | cmp -s - /tmp/before || not_ok settings "$(settings | diff - /tmp/before)"
if [ -e /run/restart ] && [ $failed = 0 ]; then
    sync
    umount /boot /etc && mount -o remount,ro /disk
    reboot -f
fi
mkdir -p /out/measured && cp /disk/*.txt /out/ && cp $OUT/* /out/measured/ && cp -r /disk/calibrated /out/
[ $code = 0 ] && ok compare "$(wc -l </disk/starts.txt) starts, $(cat /disk/again.txt 2>/dev/null | wc -l) ends by losses" || not_ok compare $code "$(cat /disk/errors.txt)"
cat /disk/report.txt
twice=$(grep '"kind":"block"' $OUT/runs.jsonl | cut -d, -f1-4 | sort | uniq -d)
[ -z "$twice" ] && ok runs "$(grep -c '"kind":"block"' $OUT/runs.jsonl), each once" || not_ok runs "$twice"
for left in $UNIT $WANTED $OUT/starts /run/opplab-govern.json; do [ -e $left ] && not_ok left $left; done
grep -q next_entry=. /boot/grub/grubenv && not_ok left "$(cat /boot/grub/grubenv)"
[ "$(wc -c </boot/grub/grubenv)" = 1024 ] || not_ok grubenv "$(wc -c </boot/grub/grubenv) bytes"
[ $failed = 0 ] && ok nothing is left
finish
