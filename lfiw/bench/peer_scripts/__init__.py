"""One script per library, each run in a process of its own: `python -m MODULE JOB MARKS`."""
