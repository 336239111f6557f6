"""The commands of `lfiw`, by what they are for. Each imports its modules when it runs."""
