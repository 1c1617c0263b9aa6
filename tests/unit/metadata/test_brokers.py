"""How records make, change and remove the registration of a broker in the image."""

import pytest
from msgspec.structs import replace

from kraftd.metadata.image import EMPTY, to_records
from kraftd.metadata.image_builder import apply, apply_all, is_applied
from kraftd.metadata.impossible import ImpossibleRecordError
from kraftd.metadata.parts.brokers import BROKERS
from kraftd.records.messages import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterBrokerRecordBrokerEndpoint,
    RegisterBrokerRecordBrokerFeature,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

ONE, TWO, THREE = (bytes([n]) * 16 for n in (1, 2, 3))
INSIDE = RegisterBrokerRecordBrokerEndpoint(name="INSIDE", host="a", port=1)
OUTSIDE = RegisterBrokerRecordBrokerEndpoint(name="OUTSIDE", host="b", port=2)
BROKER = RegisterBrokerRecord(
    broker_id=7,
    incarnation_id=ONE,
    broker_epoch=40,
    end_points=(INSIDE, OUTSIDE),
    features=(RegisterBrokerRecordBrokerFeature("f", 1, 2), RegisterBrokerRecordBrokerFeature("g", 0, 1)),
    rack=None,
    log_dirs=(ONE, TWO),
)
REGISTERED = apply(EMPTY, BROKER, 0)


def change(**what):
    return BrokerRegistrationChangeRecord(broker_id=7, broker_epoch=40, **what)


def test_a_registration_is_shown_and_a_later_one_takes_its_place():
    assert REGISTERED[BROKERS].get(7) == BROKER
    assert REGISTERED[BROKERS].get(8) is None
    later = replace(BROKER, broker_epoch=90, log_dirs=(THREE,))
    image = apply(apply(REGISTERED, later, 1), replace(BROKER, broker_id=2), 2)
    assert [broker.broker_epoch for broker in image[BROKERS].values()] == [40, 90]
    assert list(to_records(image)) == list(image[BROKERS].values())


def test_what_has_no_order_is_kept_in_one():
    shuffled = replace(
        BROKER,
        end_points=(OUTSIDE, INSIDE),
        features=tuple(reversed(BROKER.features)),
        log_dirs=(TWO, ONE),
    )
    image = apply(EMPTY, shuffled, 0)
    assert image == REGISTERED
    assert image.hash() == REGISTERED.hash()


def test_of_listeners_with_one_name_the_last_counts():
    twice = replace(BROKER, end_points=(replace(INSIDE, port=9), OUTSIDE, INSIDE))
    assert apply(EMPTY, twice, 0) == REGISTERED


@pytest.mark.parametrize(
    ("record", "after"),
    [
        (UnfenceBrokerRecord(7, 40), {"fenced": False}),
        (FenceBrokerRecord(7, 40), {"fenced": True}),
        (change(), {}),
        (change(fenced=-1), {"fenced": False}),
        (change(fenced=1), {"fenced": True}),
        (change(in_controlled_shutdown=1), {"in_controlled_shutdown": True}),
        (change(log_dirs=(THREE, ONE)), {"log_dirs": (ONE, THREE)}),
        (change(cordoned_log_dirs=(TWO, ONE)), {"cordoned_log_dirs": (ONE, TWO)}),
        (change(cordoned_log_dirs=()), {"cordoned_log_dirs": ()}),
    ],
)
@pytest.mark.parametrize("before", [{"fenced": True}, {"fenced": False, "in_controlled_shutdown": True}])
def test_a_change_changes_what_it_names_and_nothing_else(before, record, after):
    broker = replace(BROKER, **before)
    image = apply(apply(EMPTY, broker, 0), record, 1)
    assert image[BROKERS].get(7) == replace(broker, **after)
    assert image.hash() == apply(EMPTY, replace(broker, **after), 0).hash()


def test_an_unregistered_broker_leaves_no_trace():
    assert apply(REGISTERED, UnregisterBrokerRecord(7, 40), 1) == EMPTY
    assert apply(REGISTERED, UnregisterBrokerRecord(7, 40), 1).hash() == EMPTY.hash()


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (FenceBrokerRecord(8, 40), "broker 8 is not registered"),
        (UnfenceBrokerRecord(7, 41), "broker 7 is in epoch 40, not in 41"),
        (UnregisterBrokerRecord(7, 39), "broker 7 is in epoch 40, not in 39"),
        (UnregisterBrokerRecord(8, 40), "broker 8 is not registered"),
        (replace(change(), broker_epoch=1), "broker 7 is in epoch 40, not in 1"),
        (change(fenced=2), "fenced cannot change by 2"),
        (change(in_controlled_shutdown=-1), "in_controlled_shutdown cannot change by -1"),
    ],
)
def test_a_record_that_cannot_follow_is_one_error(record, reason):
    with pytest.raises(ImpossibleRecordError, match=f"offset 5 is impossible: {reason}"):
        apply_all(REGISTERED, [change(fenced=-1), record], 4)


def test_tags_of_a_registration_stay_and_those_of_a_change_make_the_image_partial():
    tags = ((99, b"later"),)
    tagged = apply(EMPTY, replace(BROKER, unknown_tags=tags), 0)
    assert not tagged.is_partial
    assert tagged.hash() != REGISTERED.hash()
    assert apply(tagged, change(fenced=-1), 1)[BROKERS].get(7).unknown_tags == tags
    later = change(fenced=-1, unknown_tags=tags)
    assert not is_applied(later)
    image = apply(REGISTERED, later, 1)
    assert image.is_partial
    assert not image[BROKERS].get(7).fenced
