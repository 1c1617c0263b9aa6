"""Single values to bytes and back: what the generated codecs of messages and records are made of.

`binary` is Kafka's own encoding, `tagged` its tagged fields, `varint` its integers of variable length,
`msgpack_types` the bounded types of kraftd's msgpack, `generated` what generated modules share, `metered`
bytes of which only so many elements are made. Not here: what a message or a record consists of
(`kraftd.protocol`, `kraftd.records`).
"""
