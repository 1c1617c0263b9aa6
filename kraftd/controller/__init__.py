"""The active controller: what becomes of an admin request, and the state machine behind the log.

Entered through `controller.QuorumController`. `config_control` decides about configs, `activation` what a new
leader writes first, `speculation` keeps what is appended and not yet committed, `statistics` how long events
wait and take. Nothing here reads a clock, waits or does I/O: time comes in, decisions come out.
"""
