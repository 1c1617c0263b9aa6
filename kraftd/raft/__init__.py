"""The quorum: events in, effects out. See `kraftd.raft.member`."""
