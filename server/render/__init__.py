"""Turns findings and reports into text, JSON, JUnit and HTML. Judges and measures nothing."""
