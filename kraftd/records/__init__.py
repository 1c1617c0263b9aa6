"""Kafka's bytes at rest: batches, records and the small files beside them, as pure codecs.

Nothing here opens a file. Follows Kafka 4.3 to the byte; `tests/interop` compares with a real one. A module
imports from its own line and from those below it:

    batch_search                        where the next batch begins, behind bytes that are none
    snapshot                            the batches of a snapshot file, written and proved
    batch  committed                    a batch: written, walked, checked; one that is committed
    data_records                        its data records, all at once or one by one
    batch_header                        the fields of its header, for all readers
    frame  control                      the frame around every record; the records of the quorum itself
    body_codecs                         the codec of a record's body, by kind and version
    bodies  messages                    generated: those codecs; the records as classes
    quorum_state  epoch_checkpoint      files around the log: the election; where epochs begin
    meta_properties                     the ids of node, cluster and directory
    partition_metadata                  the id of the topic
    small_files                         how large a file may be that is read as a whole
    index  names                        entries of a segment's index; what the files are called
"""
