"""Judging a quorum from outside: invariants that are watched, and the trace of events and effects."""
