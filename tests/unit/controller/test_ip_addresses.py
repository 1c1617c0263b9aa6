"""Which texts Java's InetAddress takes for an address, as a JVM of version 17 does."""

import pytest

from kraftd.controller.ip_addresses import is_ip_address


@pytest.mark.parametrize(
    "text",
    [
        *("1.2.3.4", "1", "1.2", "1.2.3", "1.2.65535", "1.16777215", "4294967295", "01.02.03.04"),
        *("::1", "[::1]", "::", "fe80::1%1", "::ffff:1.2.3.4", "::1.2.3.4", "1:2:3:4:5:6:7:8"),
        *("1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8"),
    ],
)
def test_an_address(text):
    assert is_ip_address(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "1.2.65536", "1.16777216", "4294967296", "0x7f.1", "1.2.3.4.5", "1.2.3.", ".1.2.3"),
        *(
            "256.1.1.1",
            "1.256.1",
            "1..2",
            "-1",
            "+1.2.3.4",
            "1.2.3.4 ",
            "\u0661.2.3.4",
            "0000000000001.2.3.4",
            "\u00b2",
        ),
        *(
            "[1.2.3.4]",
            "[]",
            "[::1",
            "::1]",
            "1:2:3:4:5:6:7:8:9",
            "1:2:3:4:5:6:7",
            "1::2::3",
            ":1",
            "12345::",
        ),
        *("fe80::1%", "::1%-1", "::1%99999999999", "2001:db8::1/64", "::g", "::ffff:1.2.3", "localhost", "a"),
    ],
)
def test_no_address(text):
    assert not is_ip_address(text)
