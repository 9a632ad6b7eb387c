"""Turns findings and reports into text and JSON. Nothing here judges, reads or measures."""
