"""What connections leave for the log, and the log for connections."""

import pytest

from kraftd.errors import ConfigError
from kraftd.protocol import limits
from kraftd.runtime.file_limits import (
    CONNECTIONS_MIN,
    FILES_RESERVED,
    HTTP_CONNECTIONS_MAX,
    connections_allowed,
    refuse_few_files,
)

RESERVED = limits.PEER_CONNECTIONS_RESERVED + FILES_RESERVED


def test_connections_get_what_the_others_leave() -> None:
    assert connections_allowed(None, 7, http=True) == limits.CONNECTIONS_MAX
    assert connections_allowed(1 << 20, 7, http=True) == limits.CONNECTIONS_MAX
    assert connections_allowed(512, 1, http=False) == 512 - RESERVED - 1
    assert connections_allowed(512, 1, http=True) == 512 - RESERVED - HTTP_CONNECTIONS_MAX - 1
    assert connections_allowed(512, 400, http=True) == 0, "a log that grows leaves fewer"


def test_a_limit_that_leaves_nobody_a_connection_is_one_line() -> None:
    enough = RESERVED + HTTP_CONNECTIONS_MAX + 3 + CONNECTIONS_MIN
    refuse_few_files(None, 3, http=True)
    refuse_few_files(enough, 3, http=True)
    with pytest.raises(ConfigError) as refused:
        refuse_few_files(enough - 1, 3, http=True)
    assert f"may open {enough - 1} files, but needs {enough} with the 3 segments" in str(refused.value)
    assert "\n" not in str(refused.value)
