"""UpdateFeatures: what the whole cluster may use, raised or lowered by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.controller.limits import repeated
from ottla.metadata.decision import Decision
from ottla.metadata.features import FEATURES
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import METADATA_VERSION_FEATURE
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ottla.protocol.metadata_records.feature_level_record import FeatureLevelRecord
from ottla.protocol.schema import Message

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3
_TYPES: Final = (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE)


def update_features(
    image: MetadataImage, request: UpdateFeaturesRequest
) -> Decision[UpdateFeaturesResponse]:
    """All or nothing. A level that is already there is no error and costs no record."""
    if repeated(update.feature for update in request.feature_updates):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A feature is named more than once.")
    for update in request.feature_updates:
        _check(image, update)
    records: list[Message] = [
        FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level)
        for update in request.feature_updates
        if image.features.get(update.feature, 0) != update.max_version_level
    ]
    results = [
        UpdatableFeatureResult(feature=update.feature, error_message=None)
        for update in request.feature_updates
    ]
    response = UpdateFeaturesResponse(error_message=None, results=results)
    return Decision([] if request.validate_only else records, response)


def _check(image: MetadataImage, update: FeatureUpdateKey) -> None:
    level, current = update.max_version_level, image.features.get(update.feature, 0)
    kind = SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
    if kind not in _TYPES:
        raise _invalid(update, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    for who, (lowest, highest) in _supporters(image, update.feature):
        # Level 0 switches a feature off, which everybody can do without.
        off = level == 0 and update.feature != METADATA_VERSION_FEATURE
        if not lowest <= level <= highest and not off:
            raise _invalid(update, f"{who} supports it from {lowest} to {highest} only.")
    if level < current and kind == UPGRADE:
        raise _invalid(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade.",
        )
    if level > current and kind != UPGRADE:
        raise _invalid(update, "Can't downgrade to a newer version.")


def _supporters(image: MetadataImage, feature: str) -> Iterator[tuple[str, tuple[int, int]]]:
    own = {known.name: (known.lowest, known.level) for known in FEATURES}
    yield "The active controller", own.get(feature, (0, 0))
    for broker in image.brokers.values():
        yield f"Broker {broker.id}", broker.features.get(feature, (0, 0))
    for controller in image.controllers.values():
        yield f"Controller {controller.id}", controller.features.get(feature, (0, 0))


def _invalid(update: FeatureUpdateKey, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {update.max_version_level} for feature {update.feature}. {why}",
    )
