"""The quorum: events in, effects out, without clock, chance, files or sockets.

Entered through `node.Member` (`start`, `handle`, `poll`, `wake_at_ms`): its methods return effects, which
the caller carries out in order. Data lies below behaviour:

    node                                   one node: takes events, calls the parts, returns effects
    elections  leader  follower            what is done as candidate, leader, follower
    replication  resignation  claims       fetches served; hand-over and shutdown; who may speak for a voter
    state_changes                          the only way from one state to another
    state                                  what all parts share
    leader_state  log_mirror               mutable: a leader's; the log's ends and tail
    voters  peers  rejoin                  who votes (one owner); who each id belongs to; whether we may vote
    accumulator  reads  request_manager    appends, linearizable reads and requests under way
    epoch_states                           the states as values, and the table of transitions
    events  effects  rpc  timing           the values that go in and out, and the configuration
    state_machine                          what applies committed records
    status                                 what a node tells about itself
"""
