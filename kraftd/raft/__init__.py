"""The quorum: events in, effects out. Begin with `kraftd.raft.node`."""
