"""Puts the service onto the gateway's gRPC listener."""

from functools import partial

from smg_grpc_proto.generated import vllm_engine_pb2_grpc

from gateway.listeners import GrpcListener
from gateway.vllm_engine.servicer import SERVICE, VllmEngineServicer


def add_vllm_engine(listener: GrpcListener, servicer: VllmEngineServicer) -> None:
    """Adds it to what the listener serves.

    Args:
        listener: Not started yet.
        servicer: Answers.
    """
    add = vllm_engine_pb2_grpc.add_VllmEngineServicer_to_server
    listener.add_service(SERVICE, partial(add, servicer))
