"""`kraftctl`: what an operator asks of a quorum, of one node, or of files on a disk.

Entered through `kraftd.cli.main.main`. One module per command group; each turns its question into plain
data first (dicts, lists, strings, numbers: the stable schema, written down in the command's module) and
lets `kraftd.cli.output` render it as table, JSON or YAML. `kraftd.cli.client` is the only one that opens
sockets, `kraftd.cli.failures` says how a command ends when it cannot do its job.

Nothing here needs a leader that can be answered without one, and no command ends in a traceback.

Follows: the labels, columns and order of Apache Kafka's `kafka-metadata-quorum`, `kafka-storage` and
`kafka-dump-log`.
Differs: exit codes tell apart what went wrong, every command has JSON and YAML, and status asks every node.
"""
