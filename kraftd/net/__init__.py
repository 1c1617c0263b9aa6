"""TCP: frames in, frames out, between nodes a handshake before anything else. Asks `protocol` for every byte.

Entered through `server.Server` and `peer_connections.PeerConnections`. A module imports from its own line and
from those below it:

    server  peer_connections        who may connect to us; one connection kept open to each other node
    outbound  budgeted              one connection each way: handshake, requests, responses, budget
    kafka_session                   an inbound connection that speaks Kafka's wire
    slots  addresses                who gets a connection when there are too many; where a peer's host is
    connection  budgets  handshake  frames and buffers; how much is served of whom; who is at the other end
    tally  rate_limited_logger      what is counted and logged of connections that end
"""
