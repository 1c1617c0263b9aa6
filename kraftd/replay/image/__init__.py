"""Rows to the state of the cluster at a point: `fold_plan` (from which log, up to where), `fold` and `shards`
(side by side, by topic), `entity_history` (what happened to partitions and brokers on the way) and
`state_history` (which states partitions and replicas went through, and why leaders were elected).
"""
