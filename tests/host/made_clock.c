// SPDX-License-Identifier: GPL-2.0-only
/*
 * A cpufreq driver whose clock matters where there is none, such as in an emulated machine: while a CPU is to run at a
 * part of the highest clock, an interrupt takes the other part of each period away from what runs. To the scheduler the
 * CPU is as slow as it would be: the time counts as the task's. A powercap zone counts what the CPUs draw.
 */
#include <linux/cpufreq.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/powercap.h>
#include <linux/sched.h>
#include <linux/smp.h>

#define PERIOD_NS 500000ULL
#define HIGHEST_KHZ 2000000U
/* As a RAPL counter of 32 bits of 61 uJ: it wraps. */
#define RANGE_UJ 262143328850ULL
#define IDLE_MW 500U

/* driver_data: what a busy CPU draws, mW. */
static struct cpufreq_frequency_table points[] = {
	{ .frequency = 1000000, .driver_data = 2000 },
	{ .frequency = 1500000, .driver_data = 4500 },
	{ .frequency = HIGHEST_KHZ, .driver_data = 9000 },
	{ .frequency = CPUFREQ_TABLE_END },
};

struct made_cpu {
	struct hrtimer timer;
	unsigned int point;
	u64 last_ns;
	u64 picojoules;
};
static DEFINE_PER_CPU(struct made_cpu, made_cpus);
static struct powercap_control_type *control;
static struct powercap_zone zone;

static enum hrtimer_restart take(struct hrtimer *timer)
{
	struct made_cpu *cpu = container_of(timer, struct made_cpu, timer);
	const struct cpufreq_frequency_table *point = &points[READ_ONCE(cpu->point)];
	bool is_busy = !is_idle_task(current);
	u64 now_ns = ktime_get_ns();

	/* mW by ns are pJ; what ran now ran since the last period, as the kernel's tick counts it. */
	cpu->picojoules += (now_ns - cpu->last_ns) * (is_busy ? point->driver_data : IDLE_MW);
	cpu->last_ns = now_ns;
	if (is_busy) {
		u64 until_ns = now_ns + PERIOD_NS * (HIGHEST_KHZ - point->frequency) / HIGHEST_KHZ;

		while (ktime_get_ns() < until_ns)
			cpu_relax();
	}
	hrtimer_forward(timer, ns_to_ktime(now_ns), ns_to_ktime(PERIOD_NS));
	return HRTIMER_RESTART;
}

static int set_point(struct cpufreq_policy *policy, unsigned int index)
{
	WRITE_ONCE(per_cpu(made_cpus, policy->cpu).point, index);
	return 0;
}

static unsigned int set_fast(struct cpufreq_policy *policy, unsigned int khz)
{
	unsigned int index = 0;

	while (points[index].frequency < khz && points[index + 1].frequency != CPUFREQ_TABLE_END)
		index++;
	set_point(policy, index);
	return points[index].frequency;
}

static unsigned int get_khz(unsigned int cpu)
{
	return points[READ_ONCE(per_cpu(made_cpus, cpu).point)].frequency;
}

static int begin(struct cpufreq_policy *policy)
{
	policy->freq_table = points;
	policy->cpuinfo.transition_latency = 10000;
	policy->fast_switch_possible = true;
	policy->cur = get_khz(policy->cpu);
	return 0;
}

static struct cpufreq_driver driver = {
	.name = "made-clock",
	.flags = CPUFREQ_NEED_INITIAL_FREQ_CHECK,
	.init = begin,
	.verify = cpufreq_generic_frequency_table_verify,
	.target_index = set_point,
	.fast_switch = set_fast,
	.get = get_khz,
	.attr = cpufreq_generic_attr,
};

static int energy_uj(struct powercap_zone *of, u64 *uj)
{
	u64 picojoules = 0;
	unsigned int cpu;

	for_each_online_cpu(cpu)
		picojoules += READ_ONCE(per_cpu(made_cpus, cpu).picojoules);
	*uj = picojoules / 1000000 % RANGE_UJ;
	return 0;
}

static int range_uj(struct powercap_zone *of, u64 *uj)
{
	*uj = RANGE_UJ;
	return 0;
}

static int release_zone(struct powercap_zone *of)
{
	return 0;
}

static const struct powercap_zone_ops ops = {
	.get_energy_uj = energy_uj,
	.get_max_energy_range_uj = range_uj,
	.release = release_zone,
};

static int get_nothing(struct powercap_zone *of, int id, u64 *value)
{
	return -EOPNOTSUPP;
}

static int set_nothing(struct powercap_zone *of, int id, u64 value)
{
	return -EOPNOTSUPP;
}

/* There is no limit; a zone is not registered without them. */
static const struct powercap_zone_constraint_ops no_limits = {
	.set_power_limit_uw = set_nothing,
	.get_power_limit_uw = get_nothing,
	.set_time_window_us = set_nothing,
	.get_time_window_us = get_nothing,
};

static void start(void *unused)
{
	struct made_cpu *cpu = this_cpu_ptr(&made_cpus);

	cpu->last_ns = ktime_get_ns();
	hrtimer_init(&cpu->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	cpu->timer.function = take;
	hrtimer_start(&cpu->timer, ns_to_ktime(PERIOD_NS), HRTIMER_MODE_REL_PINNED_HARD);
}

static void stop(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		if (per_cpu(made_cpus, cpu).timer.function)
			hrtimer_cancel(&per_cpu(made_cpus, cpu).timer);
}

static int __init made_clock_init(void)
{
	int error;

	on_each_cpu(start, NULL, 1);
	error = cpufreq_register_driver(&driver);
	if (error) {
		stop();
		return error;
	}
	control = powercap_register_control_type(NULL, "made", NULL);
	if (!IS_ERR(control))
		powercap_register_zone(&zone, control, "package-0", NULL, &ops, 0, &no_limits);
	return 0;
}
module_init(made_clock_init);

MODULE_DESCRIPTION("A clock for CPUs that have none");
MODULE_LICENSE("GPL");
