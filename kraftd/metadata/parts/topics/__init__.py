"""Topics and their partitions: the part of the image that grows, packed so that a million partitions fit.

Entered through `TOPICS`. `part` says what of it is applied, told, listed and asked; `image` what there is;
`builder` how records change it; `changes` what differs. `partitions` has the rules of
one partition; `partition_fast_codec` and `change_fast_codec` read and write the usual records faster than the
codec of all records does, `partition_columns` reads a thousand at once; `assignments` tells which brokers a
partition is on; `partition_block` holds up to 32 neighbours in one piece of bytes; `broker_index`
knows which partitions a broker has, in a `packed_int_set` for each role; `leader_elections`
counts how often they got another leader.
"""

from kraftd.metadata.parts.topics.part import TOPICS

__all__ = ["TOPICS"]
