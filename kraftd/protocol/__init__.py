"""The wire: messages generated from `proto/rpc/`, their codecs, and framing without I/O.

`messages` are the values, the superset of all versions; a `codec` turns them into frames and back:
`msgpack_codec` on kraftd's own wire, `kafka_codec` on Kafka's, each over generated modules of its own
(`msgpack/`, `kafka/`). `opening` tells from the first bytes what a connection speaks; `framing` cuts a byte
stream into frames; `principal` is who a forwarded request is from; `apis` says what an API is; `limits`
bounds what a peer may cost us. Nothing here reads a socket.
"""
