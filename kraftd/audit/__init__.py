"""Checks of a quorum from outside: its invariants, and the trace of its events and effects.

Entered through `invariants.Auditor` by the harness of the nodes, `placements.PlacementAuditor` with their
committed records, `trace.trace` by what shows their events, and `linearizability.check` with what clients
saw. Only tests enter it, the daemon does not. Nothing here reads a file or decides for a node.
"""
