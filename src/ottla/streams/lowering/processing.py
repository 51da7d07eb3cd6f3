"""Lowers the program's own processors to frames."""

from __future__ import annotations

from ottla.streams.lowering.frame import Frame
from ottla.streams.lowering.root import Lowered, Root, setting_aside
from ottla.streams.operators import processors
from ottla.streams.operators import stores as kept
from ottla.streams.processor import KeyValues, StoreDeclaration, Value, ttl_ms
from ottla.streams.stores.packed import PackedState
from ottla.streams.topology import stateful as keep


def process(operation: keep.Process, root: Root) -> Lowered:
    frame = root.input
    key, _ = frame.serdes(root.node.name)
    key = operation.key or key
    settings = processors.Settings(
        stores=[_declared(store) for store in operation.declared],
        time=operation.time,
        grace_ms=operation.grace_ms,
        node=root.node.name,
        set_aside=root.sets_aside,
    )
    data = processors.process(
        frame.data, operation.factory, key.spark_type(), operation.value.spark_type(), settings
    )
    made = Frame(data, key, operation.value)
    finish = setting_aside(frame, made, root.node.name)
    states = {store.name: _state(store, frame) for store in operation.declared}
    return Lowered(made, "update", finish, states)


def _declared(store: StoreDeclaration) -> kept.Declaration:
    value, ttl = store.value.spark_type(), ttl_ms(store)
    if isinstance(store, KeyValues):
        return kept.KeyValues(store.name, store.key.spark_type(), value, ttl)
    kind = kept.Value if isinstance(store, Value) else kept.Values
    return kind(store.name, value, ttl)


def _state(store: StoreDeclaration, frame: Frame) -> PackedState:
    from pyspark.sql.types import ArrayType, DataType

    own: DataType = frame.data.schema["key"].dataType
    value = store.value.spark_type()
    if isinstance(store, KeyValues):
        return PackedState(store.key.spark_type(), value, None, store.name)
    is_value = isinstance(store, Value)
    return PackedState(own, value if is_value else ArrayType(value), None, store.name)
