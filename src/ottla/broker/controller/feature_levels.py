"""UpdateFeatures: raises or lowers feature levels of the whole cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.broker.controller.limits import repeated
from ottla.broker.metadata.decision import Decision
from ottla.broker.metadata.features import FEATURES
from ottla.broker.metadata.image import MetadataImage
from ottla.broker.metadata.records import METADATA_VERSION_FEATURE
from ottla.broker.raft.settings import KRAFT_VERSION_FEATURE
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
    image: MetadataImage, request: UpdateFeaturesRequest, kraft_version: int = 0, node_id: int = -1
) -> Decision[UpdateFeaturesResponse]:
    """Update all features or none. A level that is already set is no error and needs no record. The
    level of `kraft.version` is in the quorum's own records."""
    if repeated(update.feature for update in request.feature_updates):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "A feature is named more than once.")
    for update in request.feature_updates:
        if update.feature == KRAFT_VERSION_FEATURE:
            _check_kraft_version(update, kraft_version)
        else:
            _check(image, update, node_id)
    records: list[Message] = [
        FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level)
        for update in request.feature_updates
        if image.features.get(update.feature, 0) != update.max_version_level
        and update.feature != KRAFT_VERSION_FEATURE
    ]
    results = [
        UpdatableFeatureResult(feature=update.feature, error_message=None)
        for update in request.feature_updates
    ]
    response = UpdateFeaturesResponse(error_message=None, results=results)
    return Decision([] if request.validate_only else records, response)


def _check_kraft_version(update: FeatureUpdateKey, current: int) -> None:
    if update.max_version_level != current:
        raise _invalid(
            update,
            f"It is {current}, and can be chosen only when the folders of a new cluster are "
            "formatted.",
        )


def _check(image: MetadataImage, update: FeatureUpdateKey, node_id: int) -> None:
    level, current = update.max_version_level, image.features.get(update.feature, 0)
    kind = SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
    if kind not in _TYPES:
        raise _invalid(update, "The controller does not support the given upgrade type.")
    if level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    for who, (lowest, highest) in _supporters(image, update.feature, node_id):
        # Level 0 turns a feature off, which every node supports.
        off = level == 0 and update.feature != METADATA_VERSION_FEATURE
        if not lowest <= level <= highest and not off:
            versions = f"only supports versions {lowest}-{highest}"
            raise _invalid(
                update, f"{who} {versions if highest else 'does not support this feature.'}"
            )
    if level < current and kind == UPGRADE:
        raise _invalid(
            update,
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade.",
        )
    if level > current and kind != UPGRADE:
        raise _invalid(update, "Can't downgrade to a newer version.")


def _supporters(
    image: MetadataImage, feature: str, node_id: int
) -> Iterator[tuple[str, tuple[int, int]]]:
    own = {known.name: (known.lowest, known.level) for known in FEATURES}
    yield f"Local controller {node_id}", own.get(feature, (0, 0))
    for broker in image.brokers.values():
        yield f"Broker {broker.id}", broker.features.get(feature, (0, 0))
    for controller in image.controllers.values():
        yield f"Controller {controller.id}", controller.features.get(feature, (0, 0))


def _invalid(update: FeatureUpdateKey, why: str) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_UPDATE_VERSION,
        "The update failed for all features since the following feature had an error: "
        f"Invalid update version {update.max_version_level} for feature {update.feature}. {why}",
    )
