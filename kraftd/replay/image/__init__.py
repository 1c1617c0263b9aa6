"""Rows to the state of the cluster at a point: `fold_plan` (from which log, up to where), `fold` and `shards`
(side by side, by topic), and `entity_history` (what happened to partitions and brokers on the way).
"""
