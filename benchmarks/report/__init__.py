"""Turns recorded samples into ratios, tables and drawings. Measures nothing."""
