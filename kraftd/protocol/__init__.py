"""The wire: messages generated from `proto/rpc/`, their msgpack codec, and framing without I/O.

`messages` are the values, `codec` turns them into frames and back, `framing` cuts a byte stream into frames,
`apis` lists the APIs and their versions, `limits` bounds what a peer may cost us. Nothing here reads a
socket.
"""
