"""ControllerRegistration: a controller says, at each start, where it listens and what it supports.

So whoever changes a feature knows whether every controller can run with it. The active controller registers
itself, with its first records (`activation`) or as soon as metadata.version has such records (`timers`); the
others send this request.

Follows: Kafka's ClusterControlManager.registerController.
Differs: what is in the image already is not written again; only voters of the quorum are registered.
"""

from collections.abc import Sequence

from kraftd.controller.context import Context
from kraftd.controller.listeners import each_once, listeners_complaint
from kraftd.controller.operations import WriteOperation
from kraftd.errors import ErrorCode
from kraftd.metadata.feature_levels import REGISTER_CONTROLLER_SINCE, metadata_version_name
from kraftd.metadata.image import MetadataImage
from kraftd.metadata.parts.controllers import CONTROLLERS, ControllerRegistration
from kraftd.metadata.parts.features import FEATURES
from kraftd.protocol.messages import ControllerRegistrationRequest, ControllerRegistrationResponse
from kraftd.records.frame import AnyRecord
from kraftd.records.messages import RegisterControllerRecord


def register_controller(
    context: Context, request: ControllerRegistrationRequest
) -> tuple[Sequence[AnyRecord], ControllerRegistrationResponse]:
    """The record of a controller, unless it is known already."""
    complaint = _complaint(context, request)
    if complaint is not None:
        return (), refuse(request, *complaint)
    registration = registration_in(request)
    response = ControllerRegistrationResponse(error_message=None)
    if context.image[CONTROLLERS].get(registration.id) == registration:
        return (), response
    return [registration.to_record()], response


def registration_in(request: ControllerRegistrationRequest) -> ControllerRegistration:
    """What a controller says of itself."""
    return ControllerRegistration(
        id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        endpoints=tuple(
            sorted((e.name, e.host, e.port, e.security_protocol) for e in each_once(request.listeners))
        ),
        features=tuple(
            sorted((f.name, f.min_supported_version, f.max_supported_version) for f in request.features)
        ),
    )


def missing_registration(
    image: MetadataImage, me: ControllerRegistration
) -> Sequence[RegisterControllerRecord]:
    """The record by which a controller registers itself, if the image can have it and does not hold it."""
    if image.metadata_version < REGISTER_CONTROLLER_SINCE or image[CONTROLLERS].get(me.id) == me:
        return ()
    return (me.to_record(),)


def refuse(
    _request: ControllerRegistrationRequest, error: ErrorCode, text: str
) -> ControllerRegistrationResponse:
    """The response to a controller that was not registered, or may not have been."""
    return ControllerRegistrationResponse(error_code=error, error_message=text)


def _complaint(context: Context, request: ControllerRegistrationRequest) -> tuple[ErrorCode, str] | None:
    """Why a controller cannot be registered, None if it can."""
    voters, level = context.settings.voter_ids, context.image.metadata_version
    if voters and request.controller_id not in voters:
        text = f"node {request.controller_id} is no controller of this quorum"
        return ErrorCode.INVALID_REGISTRATION, text
    if level < REGISTER_CONTROLLER_SINCE:
        name = metadata_version_name(level)
        return ErrorCode.UNSUPPORTED_VERSION, f"metadata.version {name} has no registrations of controllers"
    if not request.listeners:
        return ErrorCode.INVALID_REGISTRATION, "a controller that listens nowhere"
    wrong = listeners_complaint(request.listeners)
    if wrong is not None:
        return ErrorCode.INVALID_REGISTRATION, wrong
    ranges = {f.name: (f.min_supported_version, f.max_supported_version) for f in request.features}
    for name, finalized in context.image[FEATURES].items():
        low, high = ranges.get(name, (0, 0))
        if not low <= finalized <= high:
            text = (
                f"the cluster runs {name} at level {finalized}; the controller supports {low} to {high} only"
            )
            return ErrorCode.UNSUPPORTED_VERSION, text
    return None


CONTROLLER_REGISTRATION = WriteOperation(ControllerRegistrationRequest, register_controller, refuse)
