"""Learning on the device: from one run to all methods that go in lock-step."""
