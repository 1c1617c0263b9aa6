"""Checks of a quorum from outside: its invariants, and the trace of its events and effects."""
