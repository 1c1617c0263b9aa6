"""Files to rows: where the batches are, what their headers say, and their records as Arrow columns.

In this order: `headers`, `pieces` (what a task reads), `spans` and `lockstep` (where the records of many
batches are), `contents` and `decode` (what is in them), with `columns` and `filters` for what is wanted.
"""
