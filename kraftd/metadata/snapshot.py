"""The records of an image as a snapshot holds them: encoded, in Kafka's order, in versions that all may read.

`to_values` is as lazy as the image is immutable: the image can be kept, and its records taken a few at a time
while others are applied to a newer one. A part may copy what it keeps packed already instead of encoding it.

Not here: the batches around them (`kraftd.records.snapshot`).
Follows: Kafka's ImageWriter.
"""

from collections.abc import Iterator

from kraftd.metadata.image import MetadataImage
from kraftd.metadata.record_versions import encode_allowed
from kraftd.metadata.registry import IN_SNAPSHOT
from kraftd.records.frame import AnyRecord


def to_values(image: MetadataImage) -> Iterator[bytes]:
    """The framed records that rebuild the image, in the newest versions that its `metadata.version` allows.

    Raises:
        InvariantError: It holds what that level does not allow.
        UnencodableError: A record says what its version cannot.
    """
    level = image.metadata_version

    def encode(record: AnyRecord) -> bytes:
        return encode_allowed(record, level)

    for part in IN_SNAPSHOT:
        yield from part.to_values(image, encode)
