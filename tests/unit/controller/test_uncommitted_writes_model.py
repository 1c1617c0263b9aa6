"""Random lives of a controller against the plainest model there is: the log, folded from the start.

Steps: decide, let the log take, refuse or lose what was decided, commit (several writes in one batch, as the
accumulator does it), lose and win leadership. Whatever happens, the committed image is the fold of the log,
and decisions were made on the image after everything that was on its way and not refused.
"""

from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kraftd.controller.activation import registration_of
from kraftd.controller.decisions import ImmediateResponse, Write
from kraftd.controller.quorum_controller import ACTIVATE, QuorumController
from kraftd.errors import ErrorCode
from kraftd.metadata.config_schema import ConfigOperation
from kraftd.metadata.feature_levels import bootstrap_records
from kraftd.metadata.image import EMPTY
from kraftd.metadata.image_builder import apply_all
from kraftd.metadata.parts.configs import CONFIGS
from kraftd.protocol.messages import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
)
from kraftd.records.committed import CommittedBatch
from kraftd.records.frame import decode_record
from kraftd.types import Endpoint, Now

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
LIST = "config.providers"

changes = st.lists(
    st.one_of(
        st.tuples(st.sampled_from("abc"), st.sampled_from([SET, DELETE]), st.sampled_from("xyz")),
        st.tuples(st.just(LIST), st.sampled_from([APPEND, SUBTRACT]), st.sampled_from("pqr")),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda change: change[0],
)
brokers = st.lists(st.sampled_from(["", "1"]), min_size=1, max_size=2, unique=True)


class ControllerLife(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.controller = QuorumController(
            me=registration_of(1, bytes(16), [Endpoint("h", 1)]), bootstrap=bootstrap_records()
        )
        self.now_ms = 0
        self.epoch = 0
        self.log = []
        self.on_their_way: deque[Write] = deque()
        self.orphans: deque[Write] = deque()
        self.is_activation_refused = False

    @property
    def now(self):
        return Now(self.now_ms, 0)

    @precondition(lambda self: not self.controller.is_active)
    @rule(take=st.integers(0, 3))
    def win(self, take):
        # What the last leadership appended survives up to some point, committed before our LeaderChange.
        for _ in range(min(take, len(self.orphans))):
            self._commit([self.orphans.popleft()], self.epoch)
        self.orphans.clear()
        self.epoch += 1
        self.is_activation_refused = False
        base = self.controller.applied_offset
        self.controller.apply(CommittedBatch(base, base + 1, self.epoch, 0, ()))
        self.log.append(None)
        self.controller.leader_changed(self.epoch, 1, is_self=True)
        self._poll()

    @precondition(lambda self: self.controller.is_active)
    @rule(changes=changes, brokers=brokers)
    def alter(self, changes, brokers):
        request = IncrementalAlterConfigsRequest(
            resources=tuple(
                IncrementalAlterConfigsRequestAlterConfigsResource(
                    4,
                    broker,
                    tuple(
                        IncrementalAlterConfigsRequestAlterableConfig(name, operation, value)
                        for name, operation, value in changes
                    ),
                )
                for broker in brokers
            )
        )
        before = self._newest_image()
        decision = self.controller.handle(request, self.now)
        if self.is_activation_refused:
            assert isinstance(decision, ImmediateResponse)
            return
        assert isinstance(decision, Write)
        for record in map(decode_record, decision.records):
            if record.name == LIST:
                self._check_list(record, {name: (op, value) for name, op, value in changes}, before)
        self.on_their_way.append(decision)

    @rule()
    def end_group(self):
        """What was decided so far goes to the log as one, or nobody says so: that only changes the cost."""
        self.controller.end_group()

    @rule(passed_ms=st.integers(1, 600))
    def time_passes(self, passed_ms):
        self.now_ms += passed_ms
        self._poll()

    @precondition(lambda self: self.on_their_way)
    @rule(count=st.integers(1, 4))
    def commit(self, count):
        group = [self.on_their_way.popleft() for _ in range(min(count, len(self.on_their_way)))]
        self._commit(group, self.epoch)
        for write in group:
            self.controller.finished(write, ErrorCode.NONE)

    @precondition(lambda self: self.on_their_way)
    @rule(data=st.data())
    def refuse(self, data):
        position = data.draw(st.integers(0, len(self.on_their_way) - 1))
        write = self.on_their_way[position]
        del self.on_their_way[position]
        self.is_activation_refused |= write.kind == ACTIVATE
        self.controller.finished(write, ErrorCode.THROTTLING_QUOTA_EXCEEDED)

    @precondition(lambda self: self.controller.is_active)
    @rule(told_first=st.booleans())
    def lose(self, told_first):
        if told_first:
            self.controller.leader_changed(self.epoch, -1, is_self=False)
        for write in self.on_their_way:
            self.controller.finished(write, ErrorCode.REQUEST_TIMED_OUT)
        self.controller.leader_changed(self.epoch, -1, is_self=False)
        self.orphans, self.on_their_way = self.on_their_way, deque()

    @invariant()
    def the_committed_image_is_the_fold_of_the_log(self):
        image = apply_all(EMPTY, [record for record in self.log if record is not None], 0)
        assert self.controller.image == image
        assert self.controller.image.hash() == image.hash()
        assert self.controller.applied_offset == len(self.log)
        assert self.controller.in_flight == len(self.on_their_way)

    def _poll(self):
        write = self.controller.poll(self.now)
        assert self.controller.wake_at_ms > self.now_ms
        if write is not None:
            self.is_activation_refused = False
            self.on_their_way.append(write)

    def _commit(self, writes, epoch):
        values = [bytes(bytearray(value)) for write in writes for value in write.records]
        base = self.controller.applied_offset
        self.controller.apply(CommittedBatch(base, base + len(values), epoch, 0, values))
        self.log += map(decode_record, values)

    def _newest_image(self):
        records = [decode_record(value) for write in self.on_their_way for value in write.records]
        return apply_all(self.controller.image, records, 0)

    def _check_list(self, record, changes, before):
        operation, value = changes[LIST]
        current = before[CONFIGS].get(4, record.resource_name, LIST)
        items = current.split(",") if current else []
        if operation == APPEND and value not in items:
            items.append(value)
        elif operation == SUBTRACT and value in items:
            items.remove(value)
        assert record.value == ",".join(items)


ControllerLife.TestCase.settings = settings(max_examples=150, stateful_step_count=30, deadline=None)
TestControllerLife = ControllerLife.TestCase
