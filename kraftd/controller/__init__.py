"""The active controller: decides admin requests, and is the state machine behind the log.

Entered through `quorum_controller.QuorumController`. An API is one module that declares an operation, listed
in `admin_apis`. Those about one kind of thing are in a folder: `topics` are made and removed, `configs` set
and told, `partitions` get leaders and ISRs, `brokers` register and are fenced. A decision sees a `context`,
refuses by `refused`, and comes back as one of `decisions`.

`activation` is what a new active controller writes first, `uncommitted_writes` keeps what is appended and not
committed yet, `statistics` how long events wait and take. Nothing here reads a clock, waits or does I/O.
"""
