# A load of fixed steps for two seconds; prints how much it did, in seconds of the highest clock.
rt-app /test/periodic.json >/dev/null 2>&1 || exit 1
awk '/^ *[0-9]/ { done++ } END { printf "work_done %.3f s\n", 0.008 * done }' /tmp/rt-app-bursts-0.log
