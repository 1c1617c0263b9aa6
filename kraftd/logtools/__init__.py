"""What happened in a metadata log, when, by whom, and is the log whole? Asked without a running quorum.

Pure questions over directories of files, ours and Apache Kafka's:

* `finding` finds them, `node_files` says what a node's small files say (`small_reading` reads one);
  `manifest` is an export's.
* `batch_reader` reads one file on behind any damage (`torn`: what was being written), `snapshot_reader` a
  snapshot, `node_log` all segments as one log, of which `continuity` says whether it goes on.
* `state` makes the image at a point (`points`), `history` follows one entity, `tree` shows it all as folders
  and files, `quorum_facts` says who led.
* `verify` judges, by `integrity` (each log) and `comparison` (each two); `commit` says what is committed.
* `own_state` knows what a node of kraftd noted of its log: what it had flushed, and its election.
* `inspection` looks at a node's own directory as its start would, for `kraftctl info`.

What is wrong is a `Problem` (`problem`); a question that cannot be answered raises one of `errors`. Nothing
here prints, locks or writes; a running node's directory can be asked. Results are values; `kraftd.cli` turns
them into text, and `kraftd.replay` asks the same of whole fleets with Spark. Only `own_state`
and `inspection` need `kraftd.storage`, so that a replay needs no daemon.
"""
