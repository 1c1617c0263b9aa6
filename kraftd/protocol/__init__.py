"""The wire: messages generated from `proto/rpc/`, their msgpack codec, and framing without I/O.

`messages` are the values; a `codec` turns them into frames and back, and a connection keeps the one that its
first byte chose (`msgpack_codec` is the only one yet); `framing` cuts a byte stream into frames; `apis` says
what an API is; `limits` bounds what a peer may cost us. Nothing here reads a socket.
"""
