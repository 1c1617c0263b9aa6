"""The daemon: configuration, the event loop, the executor of effects, request handlers, logs and metrics.

Entered through `main`; a simulator enters through `controller_server.ControllerServer`. A module imports from
its own line and from those below it:

    main  daemon  admission           the console script; the process until a signal; directories refused
    http_server  http_connection      probes and Prometheus
    controller_server                 builds the parts of a node and connects them
    node_status  observability        what a node tells about itself; its log lines
    event_status                      what its controller is doing
    network                           frames to events, effects to frames
    controller_apis  log_export       what clients ask of the controller and the node; copies of its log
    kafka_apis  envelopes             what is served on Kafka's wire alone; what brokers forward
    committed_fetches                 what is committed, for those who watch it
    append_group                      what is written in one turn, appended as one
    request_gate                      requests whose sender has no right to them
    request_failures                  what becomes of a request whose handler raised
    request_router                    each request to its handler
    unregistered_brokers              brokers that fetch and never register
    registration_manager              registers this controller with the active one
    guard  applier  committed_log     is the directory still ours; committed batches to the state machine
    snapshot_transfer                 pieces of snapshots sent, and received
    snapshot_loader  snapshot_check   the state machine restored from a snapshot; the older ones proved
    store  snapshotter  log_cleaner   effects that touch the disk; snapshots, a little at a time; a small log
    log_checker                       what the start took unread is read; what becomes of damage
    driver  effect_executor           the turns of the loop; the effects of each event, in order
    config  file_limits  worker       Kafka's properties; how many connections; a thread for the disk
    config_values  policy_loader      how the values of a configuration are written; policies by their names
    raft_metrics  controller_metrics  what is measured of the quorum; of brokers and topics
    health_checks  long_blocks        is the process alive, and of use; long blocks of memory are given back
    idle_ratio  sample  log_writer    a share of time; a number of the Prometheus page; lines to stderr
    event_loop                        uvloop's, with lookups that hold nobody up
"""
