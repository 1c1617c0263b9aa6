"""What is told of a decision that raised: a defect of this program, which costs nothing else (D-14, D-35).

The line names the place in the code, because the process goes on and leaves no trace of its own. A module of
its own, short as it is, because it looks into tracebacks, which no rule of the controller does.
"""

from collections.abc import Sequence
from typing import Any

from kraftd.controller.plans import LeftOut, LogLine
from kraftd.controller.policies import PolicyFailure
from kraftd.protocol.brief import brief

_REQUEST_BYTES_MAX = 400


def failure_line(kind: str, request: Any, error: Exception, left_out: Sequence[LeftOut] = ()) -> LogLine:
    """The line about a decision of this kind that raised; one a minute for each kind and place.

    If it cost no more than what it left out, the first of that is named.
    """
    where = place_of(error)
    fields: dict[str, object] = {
        "kind": kind,
        "error": brief(f"{type(error).__name__}: {error}", _REQUEST_BYTES_MAX),
        "at": where,
    }
    if left_out:
        fields |= {"left_out": left_out[0].what, "others": len(left_out) - 1}
    if request is not None:
        fields["request"] = brief(repr(request)[:_REQUEST_BYTES_MAX], _REQUEST_BYTES_MAX)
    return LogLine("decision_failed", fields, is_warning=True, key=(kind, where))


def policy_failure_line(failure: PolicyFailure) -> LogLine:
    """The line about a policy of the operator's that raised; one a minute for each policy and place."""
    fields: dict[str, object] = {"policy": failure.policy, "error": failure.error, "at": failure.at}
    return LogLine("policy_failed", fields, is_warning=True, key=(failure.policy, failure.at))


def place_of(error: BaseException) -> str:
    """File and line of the innermost call that raised."""
    trace = error.__traceback__
    where = ""
    while trace is not None:
        where = f"{trace.tb_frame.f_code.co_filename.rpartition('kraftd/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return where
