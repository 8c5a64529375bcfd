"""The service `vllm.grpc.engine.VllmEngine`, which the routers smg and llm-d speak, over ours.

A thin adapter: it translates messages, and decides nothing about a request. The messages come from
`smg-grpc-proto`, which only this package imports.
"""
