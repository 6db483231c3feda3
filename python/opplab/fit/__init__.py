"""Models of hardware fitted to measurements: power of cores and packages, and how good such fits are.

The parts: `curve` (power of one core against its clock), `shapes` (what such curves look like on measured SoCs),
`freqbench` (tables of power by operating point), `score` (errors of predictions beside those of a straight line).
It reads tables and writes rows; machine files are changed by the commands that use it.
"""
