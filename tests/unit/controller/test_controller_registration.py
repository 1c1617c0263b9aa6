"""ControllerRegistration: what is written of a controller, and what is refused."""

import pytest

from kraftd.controller.controller_registration import register_controller
from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import SUPPORTED
from kraftd.protocol.messages import (
    ControllerRegistrationRequest,
    ControllerRegistrationRequestFeature,
    ControllerRegistrationRequestListener,
)
from tests.unit.controller.cluster import Cluster

FEATURES = tuple(
    ControllerRegistrationRequestFeature(each.name, each.min_level, each.max_level) for each in SUPPORTED
)


def listener(name="A", host="h", port=1, security_protocol=0):
    return ControllerRegistrationRequestListener(name, host, port, security_protocol)


def asked(*listeners):
    request = ControllerRegistrationRequest(
        controller_id=2, incarnation_id=b"i" * 16, listeners=listeners, features=FEATURES
    )
    return register_controller(Cluster(brokers=()).context(), request)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (listener(host=" "), "listener 'A' has no host"),
        (listener(port=0), "listener 'A' has port 0"),
        (listener(security_protocol=77), "listener 'A' has security protocol 77"),
        (listener(security_protocol=-1), "listener 'A' has security protocol -1"),
    ],
)
def test_a_listener_that_nobody_could_use_is_refused(wrong, why):
    records, response = asked(listener("B"), wrong)
    assert (tuple(records), response.error_code) == ((), ErrorCode.INVALID_REGISTRATION)
    assert why in response.error_message


def test_a_long_name_is_told_as_far_as_a_response_has_room():
    _, response = asked(listener("n" * 32_767, port=0))
    assert len(response.error_message) < 200


def test_of_a_listener_that_is_named_twice_the_last_is_written():
    (record,), response = asked(listener(host=""), listener("B"), listener(host="second", port=2))
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert [(end.name, end.host, end.port) for end in record.end_points] == [
        ("A", "second", 2),
        ("B", "h", 1),
    ]


def test_a_listener_of_a_controller_needs_no_name():
    """Kafka asks that of brokers only, and writes such a record."""
    (record,), _ = asked(listener(""))
    assert record.end_points[0].name == ""
