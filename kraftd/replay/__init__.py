"""Replay of metadata logs with Spark: what controllers wrote, as tables, an image and a report.

Read in this order: `discover` (which directories), `headers` and `survey` (what the logs hold, from headers
alone), `matching` and `commit` (do the nodes agree, what is committed), `decode` and `source` (records as
rows: `spark.read.format("kraft")`), `points` and `fold` (the image at a point), `job` (the whole run),
`report` and `summary` (what it says). `session` starts Spark, `submit` is for `spark-submit`.

Needs the replay extra and Java. It reads files and no daemon is involved; the fold is `kraftd.metadata`, the
daemon's own, so that both come to the same hash.
"""
