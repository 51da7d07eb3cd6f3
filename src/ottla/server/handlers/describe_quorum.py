"""DescribeQuorum: who leads the metadata log, who votes, who is how far behind."""

from __future__ import annotations

from ottla.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from ottla.server.context import RequestContext
from ottla.server.handlers._quorum import ask


async def handle(context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
    response: DescribeQuorumResponse = await ask(context, request)
    return response
