"""What happened in a metadata log, when, by whom, and is the log whole? Answers without a running quorum.

Pure questions over directories of files, ours and Apache Kafka's: `files.find_logs` finds them, `state` folds
an image of a point, `words` says what differs between two, `history` follows one entity, `verify` judges, and
`tree` shows an image as folders and files. Nothing here prints, locks or writes; a running node's directory
can be asked. Answers are values; `kraftd.cli` turns them into text.

Not here: what is committed, which no single log can tell (`kraftd.replay` judges it over all nodes' logs).
"""
