"""Recorded traces as tables, signals and pages."""
