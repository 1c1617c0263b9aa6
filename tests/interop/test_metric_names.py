"""The list of Kafka's metrics that our nodes are held to (`kafka_metrics`) is that of Kafka's own classes."""

import re
import struct
import zipfile

from tests.interop.peer import Kafka
from tests.kafka_metrics import KAFKAS

CLASSES = (
    "org/apache/kafka/controller/metrics/QuorumControllerMetrics",
    "org/apache/kafka/controller/metrics/ControllerMetadataMetrics",
    "org/apache/kafka/image/loader/metrics/MetadataLoaderMetrics",
    "org/apache/kafka/image/publisher/metrics/SnapshotEmitterMetrics",
)
_UTF8, _STRING = 1, 8
_SIZES = {
    3: 4,
    4: 4,
    5: 8,
    6: 8,
    7: 2,
    8: 2,
    9: 4,
    10: 4,
    11: 4,
    12: 4,
    15: 3,
    16: 2,
    17: 4,
    18: 4,
    19: 2,
    20: 2,
}
"""How many bytes each kind of constant has behind its tag; a text says so itself."""
_TWO_PLACES = {5, 6}
_TYPES = {"KafkaController", "ControllerEventManager", "ControllerStats", "MetadataLoader", "SnapshotEmitter"}
"""What stands in front of the names, as `type` of an MBean."""


def test_every_name_that_kafka_registers_is_in_our_list(kafka: Kafka) -> None:
    (jar,) = kafka.jars.glob("kafka-metadata-*.jar")
    with zipfile.ZipFile(jar) as classes:
        texts = {text for name in CLASSES for text in string_literals(classes.read(f"{name}.class"))}
    found = {text for text in texts if re.fullmatch("[A-Z][A-Za-z]+", text)} - _TYPES
    assert found == {name for names in KAFKAS.values() for name in names}


def string_literals(class_file: bytes) -> set[str]:
    """The string literals of a class: its constants of that kind."""
    (count,) = struct.unpack_from(">H", class_file, 8)
    texts, literals = dict[int, str](), set[int]()
    at, index = 10, 1
    while index < count:
        tag = class_file[at]
        at += 1
        if tag == _UTF8:
            (size,) = struct.unpack_from(">H", class_file, at)
            texts[index] = class_file[at + 2 : at + 2 + size].decode("utf-8", "replace")
            at += 2 + size
        else:
            if tag == _STRING:
                literals.update(struct.unpack_from(">H", class_file, at))
            at += _SIZES[tag]
        index += 2 if tag in _TWO_PLACES else 1
    return {texts[each] for each in literals}
