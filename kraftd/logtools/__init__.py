"""What happened in a metadata log, when, by whom, and is the log whole? Answers without a running quorum.

Pure questions over directories of files, ours and Apache Kafka's: `files` finds them, `batch_reader` reads
their batches on behind any damage, `state` folds an image of a point, `history` follows one entity, and
`verify` judges, by `integrity` (each log alone) and `comparison` (each two). What is wrong is a `Problem`.
Nothing here prints, locks or writes; a running node's directory can be asked. Answers are values;
`kraftd.cli` turns them into text, and `kraftd.replay` asks the same of whole fleets with Spark.
"""
