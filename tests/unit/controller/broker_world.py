"""An active controller with brokers, told with a log that is only a list."""

from collections import deque
from types import MappingProxyType

from kraftd.controller.activation import registration_of
from kraftd.controller.context import ControllerSettings
from kraftd.controller.decisions import AfterWrite, ImmediateResponse, NeedsRead, Resolved, Started, Write
from kraftd.controller.quorum_controller import QuorumController
from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import SUPPORTED, bootstrap_records
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.metadata.parts.topics import TOPICS
from kraftd.protocol.messages import (
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    BrokerRegistrationRequestFeature,
    BrokerRegistrationRequestListener,
)
from kraftd.records.committed import CommittedBatch
from kraftd.records.frame import decode_record, encode_record
from kraftd.records.messages import PartitionRecord, TopicRecord
from kraftd.types import Endpoint, Now

SESSION_MS = 9_000
ME = 1

FEATURES = tuple(BrokerRegistrationRequestFeature(f.name, f.min_level, f.max_level) for f in SUPPORTED)


def directory(broker_id, number=0):
    return bytes([9, broker_id, number]) + bytes(13)


def incarnation(broker_id, start=1):
    return bytes([7, broker_id, start]) + bytes(13)


def registration(broker_id, start=1, **fields):
    return BrokerRegistrationRequest(
        **{
            "broker_id": broker_id,
            "cluster_id": "c",
            "incarnation_id": incarnation(broker_id, start),
            "listeners": (BrokerRegistrationRequestListener("PLAINTEXT", f"h{broker_id}", 9092),),
            "features": FEATURES,
            "rack": None,
            "log_dirs": (directory(broker_id),),
            **fields,
        }
    )


class BrokerWorld:
    """One controller, its log, its clock, and the requests that brokers send it."""

    def __init__(self, log=(), epoch=2, operations=None, **settings):
        self.now_ms = 100_000
        self.epoch = epoch
        self.log = []
        self.lines = []
        self.settings = ControllerSettings(cluster_id="c", voter_ids=frozenset({ME}), **settings)
        self.waiting = deque()
        self.answers = {}
        self.read_ends_with = ErrorCode.NONE
        self.controller = QuorumController(
            me=registration_of(ME, bytes([ME]) * 16, [Endpoint("host", 9093)]),
            bootstrap=bootstrap_records(),
            settings=self.settings,
            **({} if operations is None else {"operations": operations}),
        )
        if log:
            self._apply([encode_record(record) for record in log], epoch - 1)
        self.lead(epoch)

    # -- the log

    @property
    def now(self):
        return Now(self.now_ms, 0)

    @property
    def image(self):
        return self.controller.image

    def broker(self, broker_id):
        return self.image[BROKERS].get(broker_id)

    def partition(self, topic_id, number=0):
        return self.image[TOPICS].partition(topic_id, number)

    def records(self, kind):
        return [record for record in self.log if isinstance(record, kind)]

    def _apply(self, values, epoch):
        base = self.controller.applied_offset
        self.log += map(decode_record, values)
        self.controller.apply(CommittedBatch(base, base + len(values), epoch, 0, values))

    def lead(self, epoch):
        self.elected(epoch)
        self.settle()

    def elected(self, epoch):
        """Lead from now on; nothing is done yet."""
        self.epoch = epoch
        base = self.controller.applied_offset
        self.controller.apply(CommittedBatch(base, base + 1, epoch, 0, ()))
        self.controller.leader_changed(epoch, ME, is_self=True)

    def commit(self):
        """Commit what waits; tell the controller."""
        while self.waiting:
            write, caller = self.waiting.popleft()
            self._apply([bytes(bytearray(value)) for value in write.records], write.epoch)
            self._finish(write, caller, ErrorCode.NONE)

    def refuse(self, error=ErrorCode.THROTTLING_QUOTA_EXCEEDED):
        """The log refuses what waits."""
        while self.waiting:
            write, caller = self.waiting.popleft()
            self._finish(write, caller, error)

    def _finish(self, write, caller, error):
        response = self.controller.finished(write, error)
        if caller is not None:
            self.answers[caller] = response
        for after, other in [each for each in self.after if each[0].write is write]:
            self.after.remove((after, other))
            if error is ErrorCode.NONE:
                self._take(after.then, other)
            else:
                self.answers[other] = after.refuse(error)

    @property
    def after(self):
        return self.__dict__.setdefault("_after", [])

    @property
    def plans(self):
        return self.__dict__.setdefault("_plans", {})

    # -- requests

    def send(self, request, version=4):
        """Send a request. Its answer is in `answers`, under what is returned, once it is there."""
        caller = object()
        if type(request) in self.controller.noted_requests:
            self.controller.arrived(request, self.now)
        self._take(self.controller.handle(request, self.now, version), caller)
        return caller

    def _take(self, decision, caller):
        match decision:
            case Write(is_last=False, slice_of=run):
                self.plans[run] = caller
                self.waiting.append((decision, None))
            case Write():
                self.waiting.append((decision, caller))
            case ImmediateResponse():
                self.answers[caller] = decision.response
            case AfterWrite():
                assert self.waiting[-1][0] is decision.write
                self.after.append((decision, caller))
            case NeedsRead():
                error = self.read_ends_with
                self.answers[caller] = decision.refuse(error) if error else decision.respond()
            case Started():
                self.plans[decision.run] = caller

    def slice(self):
        """One slice, if one is due; it is not committed."""
        item = self.controller.next_slice(self.now)
        if isinstance(item, Resolved):
            self._take(item.decision, self.plans.pop(item.run))
        elif item is not None:
            caller = self.plans.pop(item.slice_of, None) if item.is_last else None
            self.waiting.append((item, caller))
        return item

    def poll(self):
        """What is due by itself; it is not committed."""
        write = self.controller.poll(self.now)
        if write is not None:
            self.waiting.append((write, None))

    def settle(self):
        """Do and commit everything that is due."""
        for _ in range(1_000):
            self.commit()
            if self.controller.has_next_slice:
                self.slice()
            elif self.controller.wake_at_ms <= self.now_ms:
                self.poll()
            elif not self.waiting:
                break
        else:
            raise AssertionError("it never ends")
        self.lines += self.controller.lines
        self.controller.lines.clear()

    def ask(self, request, version=4):
        """Send a request and return its answer."""
        caller = self.send(request, version)
        self.settle()
        return self.answers.pop(caller)

    # -- brokers

    def register(self, broker_id, start=1, version=4, **fields):
        return self.ask(registration(broker_id, start, **fields), version)

    def beat(self, broker_id, *, offset=None, epoch=None, want_fence=False, stop=False, **fields):
        known = self.broker(broker_id)
        return self.ask(
            BrokerHeartbeatRequest(
                broker_id=broker_id,
                broker_epoch=known.broker_epoch if epoch is None else epoch,
                current_metadata_offset=self.controller.applied_offset - 1 if offset is None else offset,
                want_fence=want_fence,
                want_shut_down=stop,
                **fields,
            ),
            version=2,
        )

    def up(self, *broker_ids):
        """Register and unfence brokers."""
        for broker_id in broker_ids:
            assert self.register(broker_id).error_code == ErrorCode.NONE
            assert not self.beat(broker_id).is_fenced

    def wait(self, ms, *beating, step_ms=500):
        """Let time pass; these brokers go on with their heartbeats."""
        end_ms = self.now_ms + ms
        while self.now_ms < end_ms:
            self.now_ms = min(self.now_ms + step_ms, end_ms)
            for broker_id in beating:
                self.beat(broker_id)
            self.settle()

    def topic(self, number, *partitions, directories=None):
        """Write a topic with these replicas, each led by the first one."""
        topic_id = bytes([1, number]) + bytes(14)
        records = [TopicRecord(f"t{number}", topic_id)]
        for partition_id, replicas in enumerate(partitions):
            records.append(
                PartitionRecord(
                    partition_id,
                    topic_id,
                    replicas,
                    replicas,
                    leader=replicas[0],
                    leader_epoch=0,
                    partition_epoch=0,
                    directories=tuple((directories or {}).get(each, directory(each)) for each in replicas),
                )
            )
        self.append(*records)
        return topic_id

    def append(self, *records):
        """Write records as if an operation had decided them."""
        write = self.controller._active.append("Test", records)
        self.waiting.append((write, None))
        self.commit()

    def events(self):
        return [line.name for line in self.lines]

    def line(self, event):
        (line,) = [line for line in self.lines if line.name == event]
        return MappingProxyType(dict(line.fields))
