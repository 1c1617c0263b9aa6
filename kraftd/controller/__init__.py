"""The active controller: requests to records and responses, and the state machine behind the log.

Entered through `quorum_controller.QuorumController`, whose decisions the caller carries out. Nothing here
reads a clock, waits or does I/O. An API is one module that declares an operation, and a line in `admin_apis`.
A module imports from its own line and from those below it:

    quorum_controller                      of every node: the committed image; of the leader, all that follows
    active_controller  admin_apis          one leadership: decides on the newest image; all APIs, a line each
    activation  committed_records          what a new leader writes first; records that others wrote
    timers                                 what it does by itself: fences the silent, finishes, retries
    brokers  topics  configs  partitions   what may happen to each of them, a module an API
    acls                                   the same for access control entries
    controller_registration                APIs about none of them
    producer_ids  feature_control
    client_quota_control  scram_control    what users and clients may use; what they log in with
    delegation_token_control               what they log in with for a while
    failures  plan_runner  operations      what is told of a defect; whose slice is next; what an API is
    uncommitted_writes                     what is appended and not committed yet
    uncommitted_partitions                 how many partitions are new by that
    decisions  event_queue                 what comes back to the caller; what of a turn each class has
    plans                                  what is done in slices
    context  access                        what a decision may look at; what an authorizer will be asked
    token_secret                           the secret of delegation tokens, and what it makes of their ids
    decided_elections                      why leaders were elected, as whoever decided it knows
    rights                                 what a client may do, and what it is told else
    authorizer                             who may do what, by the entries of an image
    mutation_quotas                        how many partitions a client may create and delete in a time
    uuids                                  random ids, made of a seed
    log_directories                        which ids they may have, whose they are, and which are lost
    sessions  statistics                   when brokers were heard of; how long events wait and take
    deletions                              replicas that were taken away, until their data is gone
    policy_checks  policies                an operator's own rules: when they are asked, what they are told
    refused  response_room                 why one entry fails; how much fits into a response
    listeners                              what is written of where a node listens
    java_hash_map  ip_addresses            in which order Kafka decides entries; what is an address
    cluster_summary  election_counts       numbers of brokers, topics and partitions; elections seen
"""
