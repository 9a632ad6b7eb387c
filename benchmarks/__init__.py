"""Side-by-side timings that anyone can run again."""
