"""lfiw beside other libraries: each has a script, which runs in a process of its own, and
`peers.compare` gives all of them the same job. Empty, since every script imports it."""
