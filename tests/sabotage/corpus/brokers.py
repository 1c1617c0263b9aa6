"""Bugs of what becomes of brokers: sessions, registration, controlled shutdown, plans in slices."""

from tests.sabotage.mutant import mutant

_REGISTRATION = ("tests/unit/controller/test_registration.py",)
_HEARTBEATS = ("tests/unit/controller/test_heartbeats.py",)
_SILENT = ("tests/unit/controller/test_silent_brokers.py",)
_ELECTIONS = ("tests/unit/controller/test_timed_elections.py",)
_BETWEEN_SLICES = ("tests/unit/controller/test_between_slices.py",)
_CUT_OFF = ("tests/unit/controller/test_cut_off_plans.py",)
_REFUSED_STOPS = ("tests/unit/controller/test_refused_stops.py",)
_LOST = ("tests/unit/controller/test_lost_directories.py",)
_DIRECTORIES = ("tests/unit/controller/test_directory_assignment.py",)
_PLACEMENT = ("tests/unit/controller/test_placement.py",)
_QUEUE = ("tests/unit/controller/test_event_queue.py",)
_FAILURES = ("tests/unit/runtime/test_request_failures.py",)
_PLANTED = ("tests/unit/controller/test_planted_failures.py",)
_TOKENS = ("tests/unit/controller/test_delegation_token_control.py",)
_CONTROLLER = ("tests/unit/controller/test_controller.py",)
_APIS = ("tests/unit/runtime/test_controller_apis.py",)

BROKERS = (
    # --- sessions ---
    mutant(
        "overload-no-fence",
        "KAFKA-17793",
        "A heartbeat that waits for a busy controller does not count as heard.",
        "tests",
        (
            "kraftd.runtime.controller_apis:ControllerApis._serve_noted",
            "self._controller.arrived(request.message, self._driver.now())",
            "pass",
        ),
        where=_APIS,
    ),
    mutant(
        "session-ends-with-a-refused-write",
        "D-14",
        "A broker whose unregistration the log refused has no session, and is never fenced.",
        "tests",
        (
            "kraftd.controller.active_controller:ActiveController.withdraw",
            "self._has_withdrawn = True",
            "pass",
        ),
        where=_SILENT,
    ),
    mutant(
        "mass-expiry",
        "KAFKA-13173",
        "A controller that was paused itself fences every broker before it reads their heartbeats.",
        "tests",
        (
            "kraftd.controller.timers:Timers.due",
            "self._look_at_ms = now_ms + self._look_ms",
            "self._look_at_ms = now_ms",
        ),
        where=_SILENT,
    ),
    mutant(
        "preferred-whatever-the-file-says",
        "auto.leader.rebalance.enable",
        "Leaders move back by themselves though the file says that they do not.",
        "tests",
        (
            "kraftd.controller.timers:_intervals_ms",
            "if settings.auto_leader_rebalance:",
            "if settings is not None:",
        ),
        where=_ELECTIONS,
    ),
    mutant(
        "leaderless-for-ever",
        "KAFKA-12670",
        "A partition stays without leader though its topic allows an unclean one by now.",
        "tests",
        (
            "kraftd.controller.timers:Timers.brokers_changed",
            "self._elect_at_ms = {kind: now_ms + after_ms for kind, after_ms in self._intervals_ms.items()}",
            "pass",
        ),
        where=_ELECTIONS,
    ),
    mutant(
        "elected-while-fenced",
        "slices",
        "An election gives back to a broker what the slice of its fencing has just taken, and neither ends.",
        "tests",
        (
            "kraftd.controller.partitions.partition_rules:PartitionRules.__init__",
            "self._without = context.leaving.brokers.union(without)",
            "self._without = without",
        ),
        where=_ELECTIONS,
    ),
    mutant(
        "another-process-is-believed",
        "two processes of one id",
        "A second process with a broker's id tells of its own directories, and leaders move back and forth.",
        "tests",
        (
            "kraftd.controller.log_directories:directories_of_another",
            "if broker.log_dirs:",
            "if False:",
        ),
        where=_DIRECTORIES,
    ),
    mutant(
        "another-process-that-names-its-own-last",
        "two processes of one id",
        "A second process is believed that names one of the registered one's directories first.",
        "tests",
        (
            "kraftd.controller.log_directories:directories_of_another",
            "for one in named if",
            "for one in tuple(named)[:1] if",
        ),
        where=_DIRECTORIES,
    ),
    mutant(
        "what-has-failed-is-of-another-process",
        "two processes of one id",
        "A replica in a directory that failed as its broker chose it stays in sync: its broker is not believed.",
        "tests",
        (
            "kraftd.controller.sessions:BrokerSessions.heard",
            "if failed_directories:",
            "if False:",
        ),
        where=_DIRECTORIES,
    ),
    mutant(
        "only-one-may-fail",
        "two processes of one id",
        "A broker that has lost two disks passes for another process in the second one, for ever.",
        "tests",
        (
            "kraftd.controller.sessions:BrokerSessions.heard",
            "failed_directories[:_FAILED_MAX]",
            "failed_directories[:1]",
        ),
        where=_DIRECTORIES,
    ),
    mutant(
        "a-thousand-invented-hide-the-one-that-failed",
        "two processes of one id",
        "A heartbeat in a broker's name with a thousand directories: what has failed is never known any more.",
        "tests",
        (
            "kraftd.controller.sessions:BrokerSessions.heard",
            "known if len(known) <= _FAILED_MAX else failed",
            "known if len(known) <= _FAILED_MAX else session.failed_directories",
        ),
        where=_DIRECTORIES,
    ),
    mutant(
        "failed-once-and-for-all-starts",
        "two processes of one id",
        "What had failed in an earlier start of a broker passes for its own in this one.",
        "tests",
        (
            "kraftd.controller.sessions:BrokerSessions.registered",
            "self._sessions[broker_id] = Session(broker_epoch, offset, NO_CONTACT_MS)",
            "failed = s.failed_directories if (s := self._sessions.get(broker_id)) else frozenset(); "
            "self._sessions[broker_id] = Session(broker_epoch, offset, NO_CONTACT_MS, failed_directories=failed)",
        ),
        where=_DIRECTORIES,
    ),
    mutant(
        "blamed-before-it-was-heard",
        "two processes of one id",
        "After a change of the controller a broker whose disk has failed is told to be another process.",
        "tests",
        (
            "kraftd.controller.partitions.directory_assignment:_refused",
            "if session is None or session.metadata_offset < 0:",
            "if session is None:",
        ),
        where=_DIRECTORIES,
    ),
    mutant(
        "elected-in-a-directory-that-is-being-lost",
        "slices",
        "An election gives back what the slices of a lost directory have just taken, and neither ends.",
        "tests",
        (
            "kraftd.controller.brokers.heartbeats:_lost_directories",
            "lost_directories=frozenset(lost),",
            "lost_directories=frozenset(),",
        ),
        where=_LOST,
    ),
    mutant(
        "in-sync-in-a-directory-that-is-being-lost",
        "slices",
        "A replica is assigned to a directory that its broker is losing, and stays in sync.",
        "tests",
        (
            "kraftd.controller.partitions.directory_assignment:AssignReplicasToDirsPlan.decision",
            "context.leaving.has_online_directory(broker, asked.what)",
            "asked.what in broker.log_dirs",
        ),
        where=_LOST,
    ),
    mutant(
        "directory-ids-without-a-sign",
        "KIP-858",
        "An id that Kafka keeps for other things is taken for one of a log directory.",
        "tests",
        ("kraftd.controller.log_directories:_is_reserved", "signed=True", "signed=False"),
        where=(
            "tests/unit/controller/test_registration.py::test_directories_must_be_named_once_and_be_real",
        ),
    ),
    mutant(
        "all-lost-and-led",
        "KIP-858",
        "A broker that says that all its directories have failed leads on what is in them.",
        "tests",
        (
            "kraftd.controller.brokers.heartbeats:_lost_directories",
            "if not lost:",
            "if not lost or not left:",
        ),
        where=_LOST,
    ),
    mutant(
        "nothing-left-is-everything",
        "slices",
        "A broker that is losing all that it has is elected again where it has just lost it.",
        "tests",
        (
            "kraftd.controller.context:Leaving.has_online_directory",
            "is_lost = directory in self.directories.get(broker.broker_id, ())",
            "broker, is_lost = self.rest_of(broker), False",
        ),
        where=_LOST,
    ),
    mutant(
        "placed-in-a-directory-that-is-being-lost",
        "KIP-1066",
        "A broker gets a new replica though all its directories but the one that it is losing are cordoned.",
        "tests",
        (
            "kraftd.controller.topics.placement:usable_brokers",
            "map(leaving.rest_of, image[BROKERS].values())",
            "image[BROKERS].values()",
        ),
        where=_PLACEMENT,
    ),
    mutant(
        "in-sync-while-fenced",
        "slices",
        "A leader brings a broker back into the ISRs that the slices of its fencing take it out of, for ever.",
        "tests",
        (
            "kraftd.controller.partitions.partition_rules:active_brokers",
            "if is_active(broker) and broker.broker_id not in context.leaving.brokers",
            "if is_active(broker)",
        ),
        where=_SILENT,
    ),
    mutant(
        "die-during-failover",
        "KAFKA-18138",
        "A broker that dies while the controllers change is in nobody's list, and never fenced.",
        "tests",
        (
            "kraftd.controller.sessions:BrokerSessions.begin_missing",
            "for broker in image[BROKERS].values()",
            "for broker in ()",
        ),
        where=_SILENT,
    ),
    mutant(
        "session-of-the-last-leader",
        "KAFKA-18138",
        "A new active controller takes brokers for silent that it has never heard of.",
        "tests",
        (
            "kraftd.controller.sessions:BrokerSessions.begin_missing",
            "NO_CONTACT_MS if broker.fenced else now_ms",
            "NO_CONTACT_MS",
        ),
        where=_SILENT,
    ),
    mutant(
        "session-of-a-fenced-broker",
        "KAFKA-18138",
        "A new active controller takes fenced brokers for alive, and refuses their next start.",
        "tests",
        (
            "kraftd.controller.sessions:BrokerSessions.begin_missing",
            "NO_CONTACT_MS if broker.fenced else now_ms",
            "now_ms",
        ),
        where=_REGISTRATION,
    ),
    mutant(
        "late-word-of-a-former-start",
        "KAFKA-15221",
        "What a former start of a broker sends late keeps the session of its new one alive.",
        "tests",
        (
            "kraftd.controller.sessions:BrokerSessions.heard",
            "session = self.get(broker_id, broker_epoch)",
            "session = self._sessions.get(broker_id)",
        ),
        where=_REGISTRATION,
    ),
    # --- registration ---
    mutant(
        "foreign-broker",
        "KAFKA-13528",
        "A broker of another cluster is registered.",
        "tests",
        (
            "kraftd.controller.brokers.registration:_other_cluster",
            "if not expected or request.cluster_id == expected:",
            "if expected:",
        ),
        where=_REGISTRATION,
    ),
    mutant(
        "two-starts-of-one-broker",
        "KAFKA-15375",
        "A second broker with one id is registered while the first one lives, which then is stale for ever.",
        "tests",
        (
            "kraftd.controller.brokers.registration:_duplicate",
            "if not context.sessions.is_alive(known.broker_id, known.broker_epoch, context.now.mono_ms):",
            "if context.sessions:",
        ),
        where=_REGISTRATION,
    ),
    mutant(
        "reregister-same-incarnation",
        "KAFKA-16952",
        "A start that registers again gets another epoch, and its heartbeats are stale.",
        "tests",
        (
            "kraftd.controller.brokers.registration:_amendment",
            "broker_epoch=known.broker_epoch,\n        fenced",
            "broker_epoch=context.next_offset,\n        fenced",
        ),
        where=_REGISTRATION,
    ),
    mutant(
        "listener-that-nobody-could-use",
        "ListenerInfo",
        "A registration is written that Kafka's classes cannot read.",
        "tests",
        (
            "kraftd.controller.listeners:listeners_complaint",
            "if each.security_protocol not in _SECURITY_PROTOCOLS:",
            "if each.security_protocol > 1000:",
        ),
        where=_REGISTRATION,
    ),
    mutant(
        "a-listener-twice",
        "ListenerInfo",
        "A listener that is named twice is written twice; brokers and tools of Kafka take the last.",
        "tests",
        (
            "kraftd.controller.listeners:each_once",
            "tuple({each.name: each for each in listeners}.values())",
            "listeners",
        ),
        where=_REGISTRATION,
    ),
    mutant(
        "false-clean-marker",
        "KAFKA-18106",
        "A broker that was killed is taken for one that stopped in order.",
        "tests",
        (
            "kraftd.controller.brokers.registration:RegistrationPlan.__init__",
            "known is not None and known.broker_epoch == request.previous_broker_epoch",
            "known is not None",
        ),
        where=_REGISTRATION,
    ),
    mutant(
        "epochs-of-one-batch",
        "KAFKA-15213",
        "Two brokers that register before the log moves get one epoch.",
        "tests",
        (
            "kraftd.controller.active_controller:ActiveController._context",
            "next_offset = self._applied_offset + uncommitted.record_count",
            "next_offset = self._applied_offset",
        ),
        where=_REGISTRATION,
    ),
    # --- stopping in order ---
    mutant(
        "shutdown-treadmill",
        "KAFKA-14292",
        "What a stopping broker waits for moves on with the log, so that it never stops.",
        "tests",
        (
            "kraftd.controller.brokers.heartbeats:_is_through",
            "0 <= session.shutdown_offset <= lowest_active_offset(context)",
            "context.next_offset - 1 <= lowest_active_offset(context)",
        ),
        where=_HEARTBEATS,
    ),
    mutant(
        "stop-under-a-new-controller",
        "KAFKA-14292",
        "A broker that began to stop under the former active controller waits for ever.",
        "tests",
        (
            "kraftd.controller.timers:finish",
            "sessions.shutting_down(broker_id, epoch, end_offset - 1)",
            "pass",
        ),
        where=_HEARTBEATS,
    ),
    mutant(
        "stop-that-was-begun-already",
        "slices",
        "A new active controller begins the rest of a controlled shutdown while the broker's own goes on.",
        "tests",
        (
            "kraftd.controller.timers:Timers._finish_next",
            "if task.about is None or not plans.is_busy(task.about):",
            "if True:",
        ),
        where=_BETWEEN_SLICES,
    ),
    mutant(
        "stop-of-who-is-back",
        "slices",
        "What a broker is as a leadership begins holds until its partitions have their turn.",
        "tests",
        (
            "kraftd.controller.timers:finish",
            'return StagedPlan(None, [Stage("", {}, changes=leaderless())])',
            'return StagedPlan(None, [Stage("", {}, changes=leaderless()), *(shutdown_stage(each) for each in '
            "context.image[BROKERS].values() if state_of(each) is _STOPPING)])",
        ),
        where=_BETWEEN_SLICES,
    ),
    mutant(
        "silent-though-it-was-heard",
        "slices",
        "A broker that is heard while it is fenced, slice by slice, has no session afterwards.",
        "tests",
        (
            "kraftd.controller.sessions:BrokerSessions.fenced_for_silence",
            "session is not None and session.contact_ms == contact_ms",
            "session is not None",
        ),
        where=_BETWEEN_SLICES,
    ),
    mutant(
        "stop-before-others-know",
        "KAFKA-14292",
        "A broker that stops waits for records that the log refused, and not for those that took their place.",
        "tests",
        (
            "kraftd.controller.active_controller:ActiveController.withdraw",
            "self._sessions.withdrawn(self.next_offset)",
            "pass",
        ),
        where=_CUT_OFF,
    ),
    mutant(
        "stop-forgotten-with-its-session",
        "KAFKA-14292",
        "The log refuses to fence a broker that was told to stop, and what it waited for is gone.",
        "tests",
        (
            "kraftd.controller.sessions:BrokerSessions.over",
            "replace(session, contact_ms=NO_CONTACT_MS)",
            "replace(session, contact_ms=NO_CONTACT_MS, shutdown_offset=-1)",
        ),
        where=_REFUSED_STOPS,
    ),
    mutant(
        "stop-that-nobody-sees-to",
        "KAFKA-14292",
        "A broker in controlled shutdown whose session is another one is never told that it may stop.",
        "tests",
        (
            "kraftd.controller.brokers.heartbeats:heartbeat",
            " or _stops_adrift(context, broker, request):",
            ":",
        ),
        where=_REFUSED_STOPS,
    ),
    mutant(
        "stop-begun-twice",
        "slices",
        "Every heartbeat during a controlled shutdown waits for its end, and begins it once more.",
        "tests",
        (
            "kraftd.controller.brokers.heartbeats:_stops_adrift",
            "if broker.broker_id in context.leaving.brokers:",
            "if broker.broker_id < 0:",
        ),
        where=_REFUSED_STOPS,
    ),
    mutant(
        "stop-of-another-time",
        "KAFKA-14292",
        "A broker that came back stops by what its former shutdown waited for.",
        "tests",
        (
            "kraftd.controller.sessions:BrokerSessions.unfenced",
            "self._sessions[broker_id] = replace(session, shutdown_offset=-1)",
            "pass",
        ),
        where=_REFUSED_STOPS,
    ),
    # --- plans ---
    mutant(
        "refused-loss-counts",
        "KIP-858",
        "The registration without a lost directory counts, though the log has just refused it: it is given back.",
        "tests",
        (
            "kraftd.controller.quorum_controller:QuorumController.finished",
            "if write.slice_of is not None and active is not None:",
            "if False:",
        ),
        (
            "kraftd.controller.quorum_controller:QuorumController.finished",
            "    if error not in",
            "    if write.slice_of is not None and active is not None:\n"
            "        active.finished_slice(write, write.slice_of, error)\n"
            "    if error not in",
        ),
        where=_LOST,
    ),
    mutant(
        "finished-before-it-is-told-again",
        "slices",
        "A loss is cut off, and a timer elects the broker in the directory that it has lost.",
        "tests",
        (
            "kraftd.controller.brokers.staged_plan:StagedPlan.is_repeated_by_broker",
            "return broker is not None and not self.lost_directories.isdisjoint(broker.log_dirs)",
            "return broker is None",
        ),
        where=_LOST,
    ),
    mutant(
        "unfenced-after-a-loss-and-forgotten",
        "slices",
        "What a heartbeat began behind the loss of a directory is cut off, and not finished.",
        "tests",
        (
            "kraftd.controller.brokers.staged_plan:StagedPlan.is_repeated_by_broker",
            "return broker is not None and not self.lost_directories.isdisjoint(broker.log_dirs)",
            "return broker is not None and bool(self.lost_directories)",
        ),
        where=_LOST,
    ),
    mutant(
        "left-out-and-not-known-any-more",
        "D-35",
        "The log refuses the end of a repetition, and nobody knows what was to be repeated.",
        "tests",
        (
            "kraftd.controller.active_controller:ActiveController.finished_slice",
            "self.timers.failed(run.task, text, self._polled_ms, run.again)",
            "self.timers.failed(run.task, text, self._polled_ms)",
        ),
        where=("tests/unit/controller/test_left_out.py",),
    ),
    mutant(
        "failed-before-its-first-try",
        "D-35",
        "The alarm says that finishing failed, when only what is to be finished did.",
        "tests",
        (
            "kraftd.controller.timers:Timers.cut_off",
            "0 if before is None else before.count",
            "1 if before is None else before.count + 1",
        ),
        where=_CUT_OFF,
    ),
    mutant(
        "cut-off-and-forgotten",
        "slices",
        "The log refuses a slice, and nobody goes on with what the ones before have begun.",
        "tests",
        (
            "kraftd.controller.active_controller:ActiveController.finished_slice",
            "self._cut_off(run, run.slices - 1, text, self._polled_ms)",
            "pass",
        ),
        where=_CUT_OFF,
    ),
    mutant(
        "raised-halfway-and-forgotten",
        "D-35",
        "A slice raises, and nobody goes on with what the ones before have begun.",
        "tests",
        (
            "kraftd.controller.active_controller:ActiveController.next_slice",
            'self._cut_off(run, run.slices, f"{type(error).__name__}: {error}", now.mono_ms)',
            "pass",
        ),
        where=_CUT_OFF,
    ),
    mutant(
        "refused-halfway-and-forgotten",
        "slices",
        "A second start of a broker is refused when a part was taken from the first one, which is not given back.",
        "tests",
        (
            "kraftd.controller.brokers.registration:RegistrationPlan.advance",
            "self.is_given_up = True",
            "self.is_given_up = False",
        ),
        where=_CUT_OFF,
    ),
    mutant(
        "finished-several-times-at-once",
        "slices",
        "What is repeated and takes longer than until it is repeated again is begun anew every second.",
        "tests",
        ("kraftd.controller.timers:Timers._repeat", " or _is_begun(task, plans):", ":"),
        where=_CUT_OFF,
    ),
    mutant(
        "decision-that-raises",
        "KAFKA-14204",
        "An exception in a decision leaves the controller, and ends one leader after the other.",
        "tests",
        (
            "kraftd.controller.active_controller:ActiveController.decide",
            "except Exception as error:  # noqa: BLE001 - nothing was appended",
            "except MemoryError as error:",
        ),
        where=_SILENT,
    ),
    mutant(
        "appended-before-it-is-sure",
        "KAFKA-14204",
        "A write counts as appended before the sessions are told: if that raises, it never comes to the log.",
        "tests",
        (
            "kraftd.controller.active_controller:ActiveController._slice",
            "with self._sessions.all_or_none():",
            "made = Write(run.kind, self.leader.epoch, values, response, run.request, run), image\n"
            "    if records:\n"
            "        self.uncommitted.add(*made)\n"
            "    with self._sessions.all_or_none():",
        ),
        (
            "kraftd.controller.active_controller:ActiveController._slice",
            "return (write, image), True",
            "return made, True",
        ),
        (
            "kraftd.controller.active_controller:ActiveController._added",
            "self.uncommitted.add(write, image)",
            "if self.uncommitted.newest is not write:\n        self.uncommitted.add(write, image)",
        ),
        where=_PLANTED,
    ),
    mutant(
        "sessions-half-told",
        "D-14",
        "A registration raises, and the session of the broker's former incarnation is gone all the same.",
        "tests",
        (
            "kraftd.controller.sessions:BrokerSessions.all_or_none",
            "self._sessions = before",
            "pass",
        ),
        where=_PLANTED,
    ),
    mutant(
        "timer-that-raises",
        "D-35",
        "A timer that raises ends the active controller, and the next one.",
        "tests",
        (
            "kraftd.controller.active_controller:ActiveController._run_alone",
            "except Exception as error:  # noqa: BLE001 - nothing was appended",
            "except MemoryError as error:",
        ),
        where=_PLANTED,
    ),
    mutant(
        "slice-that-raises",
        "KAFKA-14204",
        "A slice that raises ends the active controller, and the next one.",
        "tests",
        (
            "kraftd.controller.active_controller:ActiveController.next_slice",
            "except Exception as error:  # noqa: BLE001 - nothing was appended",
            "except MemoryError as error:",
        ),
        where=("tests/unit/controller/test_left_out.py",),
    ),
    mutant(
        "refused-write-stays",
        "D-13",
        "What counts as appended is a copy of the write that had to wait: the log refuses it, and it stays.",
        "tests",
        (
            "kraftd.controller.active_controller:ActiveController._added",
            "return write",
            "return Write(write.kind, write.epoch, write.records, write.response_when_committed, "
            "write.request, write.slice_of, write.is_last) if write.slice_of else write",
        ),
        where=_PLANTED,
    ),
    mutant(
        "request-that-raises",
        "D-14",
        "An exception in a handler that decides nothing, like DescribeCluster, ends the process.",
        "tests",
        (
            "kraftd.runtime.request_router:RequestRouter._handle",
            "except Exception as error:  # noqa: BLE001 - the one boundary of all handlers (D-14)",
            "except MemoryError as error:",
        ),
        where=_FAILURES,
    ),
    mutant(
        "half-done-vote",
        "D-17",
        "An exception in a request of the quorum's own is answered, and the node goes on, half done.",
        "tests",
        (
            "kraftd.runtime.request_failures:RequestFailures.settle",
            "type(request.message) in _QUORUM",
            "request is None",
        ),
        where=_FAILURES,
    ),
    mutant(
        "raft-raises-under-a-request",
        "D-17",
        "The raft node raises while a request is handed to it, and only the request is told.",
        "tests",
        (
            "kraftd.runtime.request_failures:RequestFailures.settle",
            "or self._driver.has_failed",
            "or request is None",
        ),
        where=_FAILURES,
    ),
    mutant(
        "answered-twice",
        "D-14",
        "A request that was given up is answered late, which its client takes for the next response.",
        "tests",
        (
            "kraftd.net.budgeted:BudgetedConnection.give_up",
            "self._given_up.add(correlation_id)",
            "pass",
        ),
        where=("tests/unit/net/test_kafka_session.py",),
    ),
    mutant(
        "fenced-before-its-partitions",
        "D-35",
        "The record of a fencing comes first: who leads next does not see that partitions are left.",
        "tests",
        (
            "kraftd.controller.brokers.heartbeats:fencing",
            "last=lambda _context, _offset: (record,),",
            "first=(record,),",
        ),
        where=_SILENT,
    ),
    mutant(
        "two-plans-about-a-broker",
        "D-35",
        "A broker is unfenced while the plan that fences it is half done.",
        "tests",
        (
            "kraftd.controller.active_controller:ActiveController._begin",
            "if plan.about is not None and self.plans.is_busy(plan.about):",
            "if plan.about is not None and not self.plans:",
        ),
        where=_SILENT,
    ),
    mutant(
        "nothing-is-finished",
        "D-35",
        "A new active controller leaves undone what the former one had begun.",
        "tests",
        (
            "kraftd.controller.timers:Timers.begin",
            "if len(brokers) > 0:",
            "if False:",
        ),
        where=_SILENT,
    ),
    mutant(
        "read-uncommitted",
        "KAFKA-14857",
        "A response tells of an image that is not committed, and may never be.",
        "tests",
        (
            "kraftd.controller.active_controller:ActiveController._after_newest",
            "if newest is None or self._is_committed(request):",
            "if newest is None or request is not None:",
        ),
        where=_HEARTBEATS,
    ),
    mutant(
        "refused-by-who-leads-no-more",
        "D-12",
        "A leader that was replaced, and does not know it yet, tells a broker that its newest start is over.",
        "tests",
        (
            "kraftd.controller.active_controller:ActiveController._without_write",
            "plan.is_confirmed or ",
            "",
        ),
        where=_REGISTRATION,
    ),
    mutant(
        "told-by-who-leads-no-more",
        "D-12",
        "A leader that was replaced, and does not know it yet, tells that a topic is not there.",
        "tests",
        (
            "kraftd.controller.active_controller:ActiveController._without_records",
            "if not self._is_for_people(request):",
            "if True:",
        ),
        where=_CONTROLLER,
    ),
    mutant(
        "confirmed-by-an-older-write",
        "D-12",
        "The commit of a write that is older than the request is taken for a confirmation of the leader.",
        "tests",
        (
            "kraftd.controller.active_controller:ActiveController._after_newest",
            "return AfterWrite(newest, then, ",
            "return AfterWrite(newest, ImmediateResponse(then.respond()), ",
        ),
        where=_CONTROLLER,
    ),
    mutant(
        "a-plan-without-records-is-not-confirmed",
        "D-12",
        "What is done in slices, and had nothing to do, is told by a leader that nobody has confirmed.",
        "tests",
        (
            "kraftd.controller.active_controller:ActiveController._without_write",
            " or self._is_for_people(run.request)",
            "",
        ),
        where=_TOKENS,
    ),
    mutant(
        "who-waited-for-a-plan-is-not-confirmed",
        "D-12",
        "A request that was held back by a plan, and changes nothing, is told so by a leader nobody has confirmed.",
        "tests",
        (
            "kraftd.controller.active_controller:ActiveController._go_on",
            "return self._without_records(run.request, response)",
            "return self._after_newest(run.request, ImmediateResponse(response))",
        ),
        where=_REGISTRATION,
    ),
    mutant(
        "confirmed-once-committed",
        "D-12",
        "Between a commit and its application the newest write confirms the leader by itself.",
        "tests",
        (
            "kraftd.runtime.controller_apis:ControllerApis._reply_after",
            "self._resolve(after.then, caller)",
            "caller.reply(after.then.respond() if isinstance(after.then, NeedsRead) else after.then.response)",
        ),
        where=_APIS,
    ),
    mutant(
        "waits-for-a-confirmed-leader-without-bound",
        "D-16",
        "A leader that is cut off keeps whatever it is asked, until it refuses all of it in one turn.",
        "tests",
        (
            "kraftd.runtime.controller_apis:ControllerApis._handle",
            "if elements and waiting and waiting + elements > CONFIRMED_ELEMENTS_MAX:",
            "if False:",
        ),
        where=_APIS,
    ),
    mutant(
        "room-of-what-was-confirmed-is-not-given-back",
        "D-16",
        "What has waited for a confirmed leader counts for ever: at last every refusal is another one.",
        "tests",
        (
            "kraftd.runtime.controller_apis:ControllerApis._reply",
            "self._confirmed_elements -= caller.elements",
            "pass",
        ),
        where=_APIS,
    ),
    # --- the queue ---
    mutant(
        "deadline",
        "KAFKA-12778",
        "A request is decided long after whoever sent it has given up.",
        "tests",
        (
            "kraftd.controller.event_queue:EventQueue.take",
            "if event.deadline_ms > now_ms:",
            "if event.deadline_ms:",
        ),
        where=_QUEUE,
    ),
    mutant(
        "heartbeats-wait-for-writes",
        "KAFKA-15019",
        "When admin writes have used up a turn, heartbeats wait with them.",
        "tests",
        (
            "kraftd.controller.event_queue:EventQueue.may_handle",
            "return self.total_ns < TURN_NS or self._has_share(event_class)",
            "return self.total_ns < TURN_NS",
        ),
        where=_QUEUE,
    ),
)
