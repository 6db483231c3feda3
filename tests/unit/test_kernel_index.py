"""docs/kernel-index.md says what the crates' comments say."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_is_up_to_date() -> None:
    words = [sys.executable, ROOT / "tools/kernel_index.py", "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stranger_finds_a_function_by_one_search() -> None:
    """Functions that somebody new asked for: each has one row, with its place or why it has none."""
    rows = [line.split(" | ") for line in (ROOT / "docs/kernel-index.md").read_text().splitlines() if line[:3] == "| `"]
    found = {row[0].split("`")[1]: row[1] for row in rows}
    for ported in (
        "sugov_iowait_apply",
        "update_tg_load_avg",
        "select_idle_capacity",
        "intel_pstate_update_util_hwp",
        "sched_balance_find_src_group",
        "dbs_update",
        "em_create_perf_table",
        "teo_select",
        "task_tick_fair",
        "sugov_should_update_freq",
    ):
        place = found[ported].split("](../")[1].split(")")[0]
        assert ported in (ROOT / place).read_text()
    for absent in ("cppc_get_perf_caps", "arch_scale_freq_tick"):
        assert found[absent].startswith("not ported: ")


def test_rows_lead_to_the_pages_that_compute_with_the_function() -> None:
    rows = (ROOT / "docs/kernel-index.md").read_text().splitlines()
    for function, page in (("get_next_freq", "schedutil"), ("find_energy_efficient_cpu", "placement")):
        row = next(row for row in rows if row.startswith(f"| `{function}` "))
        assert f'<a href="../lab/{page}.html">' in row
