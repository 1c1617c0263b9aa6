"""What no seed of the simulator has to reach, and which judge looks at it instead."""

EXCUSED: dict[str, str] = {}
