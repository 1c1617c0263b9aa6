"""kraftd: Apache Kafka's KRaft controller quorum in Python. This page is the guided tour of the code.

A few nodes elect a leader, replicate a metadata log by *pull* and apply what is committed to an image of
the cluster. Three promises shape everything: Kafka's files, byte for byte and both ways; a core that can
be proved, because it neither reads clocks nor awaits; and nothing is acknowledged that a power cut can
take back.

Where to find what, outermost first. A package imports from the lines below it, never from above (and raft
knows nothing of controller and metadata); import-linter and `tests/test_project_rules.py` hold that.

    cli         `kraftctl`, one module a command group; works without a leader
    replay      Spark: logs of any node, ours or Kafka's, as tables; never needs a daemon
    runtime     the daemon: configuration, poll loop, the executor of effects, flush thread, HTTP
    logtools    questions to a log on a disk: state, history, what differs, is it whole; no daemon, no Spark
    net         asyncio protocols, the handshake           storage    segments, election file, recovery
    -------------------------- from here on: no clock, no random, no I/O, no await ---------------------------
    audit       for tests only: invariants of a whole quorum and of where replicas are, and the one-line trace
                of every event and effect
    raft        the quorum: events in, effects out         broker     replica manager (still empty)
    controller  requests to records, and responses; Kafka's QuorumController
    metadata    the image: `apply`, `diff`, `to_records`, a hash that every reader can compute; all that is
                known of a kind of entity is one module in `metadata/parts`
    protocol    RPC messages, msgpack and Kafka's wire     records    batches, control and metadata records
    serde       single values to bytes and back: Kafka's encoding, varints, bounded msgpack types
    interrupts  Ctrl-C while a program is imported         regular_file  opens files, and no FIFO or device
    errors      what can go wrong, by who has to act       types      ids, positions, elections

Where things happen:

    a vote is granted or refused           raft/elections.py
    a silent leader is suspected           raft/suspicion.py says when, raft/elections.py asks
    the high watermark moves               raft/replication.py; on a follower, raft/follower.py
    a log is truncated                     raft/truncation.py decides, storage/log.py does it
    BeginQuorumEpoch is sent, received     raft/leader.py, raft/announcements.py
    a leader hands over                    raft/resignation.py
    the voter set is kept                  raft/voters.py
    what becomes of a broker is decided    controller/brokers/registration.py, heartbeats.py
    a silent broker is fenced              controller/timers.py
    a partition's leader is elected        controller/partitions/election.py
    such an election is counted            metadata/parts/topics/leader_elections.py
    why it was held is told                metadata/election_reasons.py; of a log, metadata/election_log.py
    replicas are moved                     controller/partitions/reassignment.py
    a topic is created                     controller/topics/creating.py
    deleted data is followed to its end    controller/deletions/tracker.py
    a change of configs is decided         controller/configs/configuration_control.py
    a record changes the image             metadata/parts/, a module for each kind of entity
    a request fails that nobody expected   runtime/request_failures.py
    an ACL is made; a right is asked for   controller/acls/; controller/rights.py, runtime/request_gate.py
    an API is decided                      controller/admin_apis.py: a line for each, which names its module
    a torn end is cut                      storage/recovery.py; found by storage/log_scan.py
    old segments are checked               runtime/log_checker.py; storage/unread_segments.py takes them
    a snapshot is written                  runtime/snapshotter.py; raft/snapshot_points.py says where
    a snapshot is served                   raft/snapshot_serving.py; the disk: runtime/snapshot_transfer.py
    a snapshot is downloaded               raft/snapshot_fetch.py; the disk: runtime/snapshot_transfer.py
    a snapshot is loaded                   runtime/snapshot_loader.py
    the log is cut in front                raft/retention.py chooses, raft/snapshots.py agrees, storage/log.py
                                           does it
    an observer's lease ends               raft/snapshot_leases.py
    committed records are watched          runtime/committed_fetches.py; cli/log_stream.py, cli/watch.py
    a fault hurts simulated nodes          tests/sim/fault_*.py

Good first reads: `raft/events.py` and `raft/effects.py` (between decisions and I/O), `raft/__init__.py` and
`raft/node.py` (the way in), `runtime/effect_executor.py` (the way out), `runtime/controller_server.py` (what
a node is made of; a simulator builds the same), `runtime/applier.py` (what may stand behind the log), and
`storage/log_scan.py` (what a crash can leave behind).
Messages and records are generated from `proto/` by `make proto`. `docs/contributing.md` tells how to add a
kind of record, an API, a fault or a mutant.

The words: `docs/glossary.md`. Ids such as VOTE-31 or HWM-02 are behaviours of Kafka's quorum; each stands,
with what happens and when, in `tests/conformance/behaviours.toml`. Q-07 and its kin are quirks of Kafka's
code: their entries there say what kraftd does instead.

The rules; they stand here alone. Tests cite them by number (`@pytest.mark.covers("D-05")`), comments too.
D-25 to D-34 are kept for changes of the voters, and repair.

    D-01  Two clocks: deadlines read the monotonic one, record timestamps the wall; the next deadline always
          lies ahead; a stalled loop gets one more turn before it accuses the leader.
    D-02  Effects are carried out in order. One is a barrier (durable before the next begins), asynchronous
          (finishes later, as an event), or done at once. A fetch position acknowledges, so it never exceeds
          what is flushed.
    D-03  Every flush carries the log's generation; truncation begins a new one, and what finishes late
          counts nothing. The first failed write or fsync ends the process.
    D-04  Opening syncs and reads again what only the page cache may hold, before the first vote or fetch.
    D-05  A sidecar remembers the flushed offset and the election's checksum: from that offset on bad bytes
          are torn and cut, below it they are damage and stay.
    D-06  A node that is damaged, forgetful or restored from a backup says so, and fetches uncounted until it
          provably knows what it may have promised. One that has forgotten takes whoever answers at a voter's
          address for that voter, until it has heard it; if that is another disk than it remembers, it hears
          every voter anew.
    D-07  The leader and the vote of an epoch survive every change of state within it. A pre-vote writes no
          election and resets no timer.
    D-08  A closed connection to the leader starts a pre-vote within 100 ms, once an epoch; failover waits
          for no timeout. A node that has much left to apply waits 300 ms more. Pre-votes that were refused
          are not repeated before the fetch timeout; voters that could not be reached are asked anew.
    D-09  A hand-over waits for the successor's log, then names it first, and it campaigns at once, unless it
          has much left to apply; the old leader stays to vote, and one that stops until the successor's first
          commit, a fetch timeout at most.
    D-10  The high watermark is a majority's, never goes back, moves only past a record of the leader's own
          epoch, and is pushed to waiting followers, within a millisecond.
    D-11  Check-quorum counts progress since a voter's previous fetch, not mere presence.
    D-12  A linearizable read is confirmed by a round that was sent after the read arrived, and answered from
          what is applied.
    D-13  A waiter lives and dies with its epoch, and has a deadline; "not appended" and "outcome unknown" are
          different outcomes.
    D-14  What a peer sends ends nothing: it is refused, logged, backed off. A decision that raises, or any
          request that only reads or decides, costs itself: UNKNOWN_SERVER_ERROR, one line, a count.
    D-15  The tail is served from memory, the rest by a reader thread whose result is checked again.
    D-16  One turn of the loop: all frames, one drain, one write, one flush, joined replies.
    D-17  Storage is synchronous and thread-free; only runtime and net know loops and threads. An error that
          nobody expects ends the process, unless D-14 or D-35 say what it costs. They never speak of the
          quorum's own requests, nor of what raft, storage or an activation raises.
    D-18  Whole committed batches are applied, in order, and what raises there ends the process; a node leads
          only past its own first record; the image's hash is a sum kept as it changes.
    D-19  Where a snapshot is made is a function of the log: the end of the batch, outside a transaction, at
          which the bytes or the time since the last one are reached. The voters write one after the other,
          the leader last; a point that is overtaken is dropped. Files of one id are equal, byte for byte.
          But for a snapshot in the place of ones that all went bad: its node counts from there once it was
          restarted, and whoever loads it does so, too.
    D-20  A snapshot counts once it was read back and proved, synced, renamed, and its directory synced; until
          then it promises nothing. What fails of it costs the snapshot, with an alarm, never the process.
    D-21  A snapshot takes the log's place in one barrier: no flush runs, the generation rises, the recovery
          point moves before a segment goes. A crash leaves the old log or the new one. Never on a leader,
          never for less than is committed here.
    D-22  The log is cut at a snapshot's end that is applied and flushed, without a new generation; not while
          a replica downloads what is before, and a download that was interrupted goes on with the same
          snapshot while the leader has it, and can compare it in time. Names go at once, files when nobody
          reads them, in a worker.
    D-23  A start restores the newest whole snapshot and applies the log behind it. Segments wholly below it
          are checked after the start, in the background; damage there cuts them off and is no loss. Until all
          is applied, a node knows how far behind it is and lets others lead, and tells nobody an applied
          offset. One that can apply nothing hands over if it leads.
    D-24  Observers are answered after voters, in groups: one that was up to date at once, after that at most
          every few milliseconds. They are given what is committed, and the disk is read for one at a time.
          Four of them load a snapshot at once, for a voter the disk is read before it is for them, and they
          keep from being cleaned what is within a time, and no more than one retention.
    D-35  What grows with partitions is decided in slices, some ten milliseconds each, and the record that
          says "done" is the last. What raises leaves out the one partition or broker that it was about; it is
          repeated, and an alarm until it succeeds.
    D-36  The first byte behind a connection's first length chooses its codec for good: Kafka's or msgpack. On
          Kafka's, requests are answered in their order, and only what is served is advertised.
    D-37  Who speaks for a voter proves it with a nonce that was told at the voter's configured address.
          Before that nothing changes: no epoch, no count, no durable byte.
    D-38  Strangers, clients, observers and voters have budgets of work; who is over it is not read. Nothing
          between a peer's bytes and a message, or a response and its bytes, ends the process.
    D-39  A group is many requests, not one. Grouping changes no answer, no byte, no order within a connection
          and no bound of D-16; a waiter still ends with its epoch (D-13).
    D-40  Suspicion asks, it does not depose. A voter's fetch is parked for 150 ms at most, so the leader is
          heard that often, from its loop. A whole voter that heard nothing for S asks for pre-votes, and
          stays a follower; S is 450 ms or three times the longest gap lately seen, whichever is more, never
          above the fetch timeout, twice as long for ten minutes after a suspected leader was alive. Only
          who heard nothing for S grants; the leader refuses. A grant speaks of when it was given: it counts
          for 450 ms from when it was asked for. A stalled loop listens first (D-01).
    D-41  No vote, candidacy or leadership is told before the sidecar holds it and then `quorum-state`, which
          is overwritten in place, both synced. Torn, it reads as no election or as the new one, for Kafka
          too: no start of either program misses what was told. Opening takes the newer of the two and
          finishes the write; a clean stop leaves Kafka's bytes.

Where we differ from Kafka, on purpose: between our nodes RPC bodies are msgpack (Kafka's own wire is for
its brokers, clients and tools, see `net.kafka_session`; names, keys, versions and
error codes are Kafka's, but only the newest version is spoken, see `proto/README.md`); append linger is 0,
since group commit batches; a closed connection starts failover (D-08); the high watermark reaches followers
within a millisecond, with the next records if there are any, not with their next poll (KIP-1166, D-10);
leadership can be handed to a named voter (D-09); a wiped or restored voter is recognised before it can vote
a second time (D-06); `kraftctl` refuses config names that no broker knows.

Not here yet: changing voters, TLS, and so nobody is authenticated.
"""
