"""Device facts, the memory planner, the profile, the KV pool and the ledger."""
