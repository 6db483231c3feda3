# Runs in the guest: hands over the firmware's table of interrupt controllers, which tells the classes of CPUs.
cat /sys/firmware/acpi/tables/APIC >/out/APIC && echo "ok tables" || echo "not ok tables"
