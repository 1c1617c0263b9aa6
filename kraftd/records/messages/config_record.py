"""The value of one dynamic config of one resource. Generated from `proto/records/ConfigRecord.json`."""

from typing import ClassVar

from msgspec import Struct

from kraftd.serde.generated import UnknownTags


class ConfigRecord(Struct, frozen=True, gc=False):
    """The value of one dynamic config of one resource."""

    API_KEY: ClassVar[int] = 4
    NAME: ClassVar[str] = "ConfigRecord"
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0

    resource_type: int = 0
    """4 is a broker or, with an empty name, all of them; 2 a topic. (int8)"""
    resource_name: str = ""
    """Id or name of the resource; empty for the cluster-wide default. (string)"""
    name: str = ""
    """Name of the config. (string)"""
    value: str | None = ""
    """Its value from here on; null removes it. (string)"""
    unknown_tags: UnknownTags = ()
