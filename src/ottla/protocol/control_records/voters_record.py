"""VotersRecord."""

from __future__ import annotations

from ottla.protocol.schema import Message, Struct, array, int16, int32, string, struct, uint16, uuid


class Endpoint(Struct):
    name: str = string()
    host: str = string()
    port: int = uint16()


class KRaftVersionFeature(Struct):
    min_supported_version: int = int16()
    max_supported_version: int = int16()


class Voter(Struct):
    voter_id: int = int32()
    voter_directory_id: bytes = uuid()
    endpoints: list[Endpoint] = array(Endpoint)
    k_raft_version_feature: KRaftVersionFeature = struct(KRaftVersionFeature)


class VotersRecord(Message, versions=(0, 0), flexible=0):
    version: int = int16()
    voters: list[Voter] = array(Voter)
