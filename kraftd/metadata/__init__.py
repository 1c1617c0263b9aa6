"""What the metadata log adds up to: an immutable image, how records change it, and Kafka's config names.

Entered through `image` (`MetadataImage`, `to_records`), `image_builder` (`apply`, `ImageBuilder`),
`image_diff` (`diff`) and `config_schema` (names, types, validation). The daemon, the command line and the
Spark job apply records with the same code. A new kind of entity is a module in `parts` and a line in its
list. A module imports from its own line and from those below it:

    image_builder  image_diff           records change an image; what differs between two
    snapshot                            the bytes of an image's records, as a snapshot holds them
    secrets  record_versions            records without passwords; which records a cluster may write
    image                               the state of the cluster at one offset
    registry                            record class to handler, read off the parts at import
    parts/                              a module for each kind of entity, with all that is known of it
    part                                what a part is
    indexed_acls                        access control entries, by what they are about
    configs_image                       the dynamic configs, and how records change them
    entities  views                     parts whose entities are few; how a part is shown
    replica_states                      what a replica is, and every legal move
    partition_conditions                what operators look for in partitions, and call their replicas
    partition_states                    Kafka's four states of a partition, and the moves between them
    election_log                        the elections of a log, and why they were held
    broker_moments                      what became of brokers, and so why leaders changed, by a log
    election_reasons                    why leaders are elected, and by which rules: the words for it
    redaction  kafka_names              what must not be shown; the numbers in records by Kafka's names
    config_runs                         config records in bulk, undecoded but for the last of each config
    config_schema  config_table         which configs there are, and their values; Kafka's list of them
    java_numbers                        numbers in texts, as Java reads them
    acl_kinds                           what access control entries are about, in Kafka's numbers
    feature_levels  new_cluster         the features and their levels; those of a new cluster
    entity_hash  sorted_keys            of which the image's hash is the sum; a set kept in order
    impossible                          a record that cannot follow what came before
"""
