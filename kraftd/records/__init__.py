"""Kafka's bytes at rest: batches, records and the small files beside them, as pure codecs.

`batch` and `frame` are the log's own layers, `control` and `messages` what is in them; `quorum_state`,
`epoch_checkpoint`, `index`, `meta_properties`, `partition_metadata` and `names` are the files around the log.
Nothing here opens a file. Follows Kafka 4.3 to the byte; `tests/interop` compares with a real one.
"""
