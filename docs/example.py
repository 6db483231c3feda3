# A worked example, cell by cell: open it in a notebook (jupytext, VS Code, Spyder: `# %%` begins a cell), or run it:
#   python docs/example.py
# Everything that a cell ends with shows itself as HTML in a notebook.
# ruff: noqa: B018, D100, E402

# %% [markdown]
# # How much energy does energy-aware scheduling save on a Juno?

# %% Simulate: a built-in experiment, shortened
import polars as pl

import opplab

experiment = opplab.Experiment.load("juno-eas", iterations=8, seconds=0.2, until_ci=2.0)
results = experiment.run("out/example")  # resumes if it is called again; executor=client.get_executor() uses a cluster
results

# %% Results are a polars DataFrame, one row a value
energy = results.filter(pl.col("metric") == "energy")
energy.group_by("benchmark", "param", "policy", maintain_order=True).agg(
    pl.len().alias("iterations"), pl.col("value").mean().alias("energy_j")
)

# %% Compare: every policy of one driver with the one that has energy-aware scheduling off
tables = opplab.compare(results, runs=["no-EAS", "EAS"], metric="energy")
tables

# %% ... which is a DataFrame, too: the savings that are more than noise
cells = tables.to_frame()
clear = cells.filter(pl.col("significant") & (pl.col("run") == "EAS"))
savings = clear.select("benchmark", "operation", "change_pct", "p_holm")
savings

# %% Where is the energy? One case again, with everything that happened in it
machine = opplab.Machine.load("juno-r2")
work = opplab.Workload.periodic(3, run_us=800, period_us=16000)
run = opplab.simulate(machine, work, opplab.Policy(kernel="5.18"), seconds=0.5)
clocks = run.events("cpu_frequency")
clocks.head()

# %% A report to put in front of somebody: plots, every test, methods; one file
from opplab.summary.compared import report

page = report(results, runs=["no-EAS", "EAS"], metric="energy")
page.write("out/example.html")
page
