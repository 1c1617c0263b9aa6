"""Checks of a quorum from outside: its invariants, and the trace of its events and effects.

Entered through `invariants.Auditor` by the drivers of nodes, `trace.trace` by what shows their events, and
`linearizability.check` with what clients saw. Nothing here reads a file or decides for a node.
"""
