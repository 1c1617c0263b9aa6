"""The active controller: decides admin requests, and is the state machine behind the log.

Entered through `quorum_controller.QuorumController`. An admin API is one module with one `operations`
value, listed in `admin_apis`: `configuration_control`, `describe_configs`, `list_configs`, `topics_listing`.
`activation` is what a new active controller writes first, `uncommitted_writes` keeps what is appended and not
committed yet, `decisions` are the values that come back, `statistics` how long events wait and take. Nothing
here reads a clock, waits or does I/O.
"""
