"""What goes wrong on real machines, each as a whole process: `python -m tests.faults`."""
