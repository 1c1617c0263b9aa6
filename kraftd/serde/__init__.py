"""Single values to bytes and back: what the generated codecs of messages and records are made of.

`binary` is Kafka's own encoding, `varint` its integers of variable length, `msgpack_types` the bounded types
of kraftd's msgpack. Not here: what a message or a record consists of (`kraftd.protocol`, `kraftd.records`).
"""
