"""Turns the schemas of `proto/` into the message classes and codecs of `kraftd`.

`schema` reads and checks the JSON, `classes` writes the public classes, `binary` and `packed` write their
codecs in Kafka's encoding and in msgpack, `layouts` finds versions with the same layout, `output` says
which file holds what. Entered through `proto/generate.py`.
"""
