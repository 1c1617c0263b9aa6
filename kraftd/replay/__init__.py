"""Replay of metadata logs with Spark: what controllers wrote, as tables, an image and a report.

A run (`job`) works in three steps, each a package:

* `source`: files to rows. Headers of batches, pieces of files, records decoded in bulk.
* `image`: rows to the cluster's state at a point, in shards that are folded side by side.
* `report`: tables to results, a summary and a page of plots.

Between them: `cluster_scan` (the nodes' logs compared, and what is committed, from headers and control
records alone), `writing` (one task's share as Parquet), `schemas` and `table_parts` (the tables), and
`data_source` for `spark.read.format("kraft")`. `session` starts Spark, `submit` is for `spark-submit`.

Needs the replay extra and Java. It reads files and no daemon is involved. What a directory is, how logs are
compared and what is committed is for `kraftd.logtools` to say; the fold is `kraftd.metadata`, the daemon's
own, so that both come to the same hash.
"""
