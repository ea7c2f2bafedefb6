#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""An independent peer of the lease service, on grpcio and on Python code that protoc makes from lease.proto.

    grpcio_peer.py holder ADDRESS   asks the lessor at ADDRESS, tries what must be refused, exits 0 when all was as expected
    grpcio_peer.py lessor           listens, prints its port, serves one holder after the other until its input closes

Exit code 77: grpcio or protoc is not installed. The end-to-end tests take Stream from here.
"""
import concurrent.futures
import queue
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import grpc
except ImportError:
    sys.exit(77)

PROTO = Path(__file__).resolve().parents[3] / "include" / "proto"
METHOD = "/leasegate.v1.LeaseService/Hold"
N_KEYS = 2000


def load_proto():
    """The module protoc makes of lease.proto, made anew."""
    with tempfile.TemporaryDirectory() as out:
        try:
            subprocess.run(["protoc", f"--proto_path={PROTO}", f"--python_out={out}", "lease.proto"], check=True)
        except FileNotFoundError:
            sys.exit(77)
        sys.path.insert(0, out)
        import lease_pb2
        return lease_pb2


pb = load_proto()


class Stream:
    """One Hold call; what is put is sent in order."""

    def __init__(self, channel, method=METHOD, raw=False, **call):
        self.outgoing = queue.Queue()
        stub = channel.stream_stream(
            method,
            request_serializer=(lambda b: b) if raw else pb.HolderMessage.SerializeToString,
            response_deserializer=pb.LessorMessage.FromString)
        self.call = stub(iter(self.outgoing.get, None), timeout=20, **call)

    def put(self, message):
        self.outgoing.put(message)

    def next(self):
        return next(self.call)

    def status(self):
        """Waits for the end."""
        try:
            for _ in self.call:
                pass
        except grpc.RpcError:
            pass
        self.outgoing.put(None)
        return self.call.code(), self.call.details()


def hello():
    return pb.HolderMessage(hello=pb.Hello(holder="python-1", region="eu-west", incarnation=5, regions_version=7, max_keys=100))


def key(i):
    return pb.Key(rule="per-user", fingerprint=99, form=pb.KEY_FORM_SOURCE, a=bytes(12) + i.to_bytes(4, "big"))


def usage(i, seq):
    return pb.ReportUsage(key=key(i), seq=seq, life=1, epoch=3, generation=1, granted_tok=10, consumed_tok=4, returned_tok=1,
                          remaining_tok=5, demand_mtps=1500, peak_tok=2, slots=[pb.UsageSlot(id=1, age_ms=20, tok=4)])


def check(condition, what):
    if not condition:
        sys.exit(f"grpcio_peer: {what}")


def check_status(got, code, text):
    check(got[0] == code and text in (got[1] or ""), f"wanted {code} {text!r}, got {got}")


def hold_leases(channel):
    """Hello, welcome, then requests and reports: each request is answered by a grant of what it wants."""
    stream = Stream(channel)
    stream.put(hello())
    welcome = stream.next().welcome
    check(welcome.lessor == "eu-west" and welcome.epoch == 3 and welcome.regions_version == 7, f"welcome: {welcome}")
    granted = {}
    for first in range(0, N_KEYS, 500):
        asks = [pb.Ask(request=pb.LeaseRequest(usage=usage(i, i + 1), want_tok=100 + i)) for i in range(first, first + 500)]
        stream.put(pb.HolderMessage(asks=asks))
    stream.put(pb.HolderMessage(asks=[pb.Ask(report=usage(7, N_KEYS + 1))], synced=pb.Synced()))
    while len(granted) < N_KEYS:
        for grant in stream.next().grants:
            check(grant.status == pb.GRANT_STATUS_OK and grant.kind == pb.LEASE_KIND_BLOCK, f"grant: {grant}")
            check(grant.lease.epoch == 3 and grant.lease.generation == 1 and grant.ttl_ms == 10000, f"lease: {grant}")
            granted[int.from_bytes(grant.key.a, "big")] = (grant.granted_tok, grant.ack_seq)
    for i in range(N_KEYS):
        # The report about key 7 came later and is not answered.
        check(granted[i] == (100 + i, i + 1), f"key {i}: {granted[i]}")
    stream.call.cancel()


def try_what_must_be_refused(channel):
    stream = Stream(channel, method="/leasegate.v1.LeaseService/Keep")
    stream.put(hello())
    check_status(stream.status(), grpc.StatusCode.UNIMPLEMENTED, "no such method")

    stream = Stream(channel, raw=True)
    stream.put(b"\xff\xff\xff\xff")
    check_status(stream.status(), grpc.StatusCode.INVALID_ARGUMENT, "this is no HolderMessage")

    stream = Stream(channel)
    stream.put(pb.HolderMessage(synced=pb.Synced()))
    check_status(stream.status(), grpc.StatusCode.INVALID_ARGUMENT, "the first message is no hello")

    stream = Stream(channel)
    stream.put(hello())
    bad = usage(1, 1)
    bad.remaining_tok = 6
    stream.put(pb.HolderMessage(asks=[pb.Ask(report=bad)]))
    check_status(stream.status(), grpc.StatusCode.INVALID_ARGUMENT, "ask 1: remaining_tok is not granted - consumed - returned")

    stream = Stream(channel, raw=True)
    stream.put(bytes(1 << 20) + b"x")
    check_status(stream.status(), grpc.StatusCode.RESOURCE_EXHAUSTED, "longer than 1 MiB")

    stream = Stream(channel, compression=grpc.Compression.Gzip)
    stream.put(hello())
    check(stream.status()[0] == grpc.StatusCode.UNIMPLEMENTED, "a compressed stream was accepted")


def holder(address):
    with grpc.insecure_channel(address) as channel:
        hold_leases(channel)
        try_what_must_be_refused(channel)
        hold_leases(channel)


def hold(requests, context):
    """Serves a holder; ends the stream with a status once it has said synced."""
    first = next(requests)
    check(first.hello.holder == "host-1" and first.hello.region == "eu-west", f"hello: {first}")
    check(first.hello.incarnation == 42 and first.hello.max_keys == 65536 and not first.hello.is_region, f"hello: {first}")
    yield pb.LessorMessage(welcome=pb.Welcome(lessor="eu-west", epoch=3, regions_version=7))
    for message in requests:
        grants = []
        for ask in message.asks:
            used = ask.request.usage if ask.HasField("request") else ask.report
            if used.remaining_tok != max(0, used.granted_tok - used.consumed_tok - used.returned_tok):
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "remaining_tok is wrong")
            grants.append(pb.LeaseGrant(
                key=used.key, lease=pb.LeaseId(epoch=3, generation=1), ack_seq=used.seq, granted_tok=ask.request.want_tok,
                ttl_ms=10000, cap_tok=123, partial=True))
        if grants:
            yield pb.LessorMessage(grants=grants)
        if message.HasField("synced"):
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "that was 100% of it")


def lessor():
    # The holder pings each 2 s when nothing comes; grpcio would call that abuse.
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(4), options=[("grpc.http2.max_ping_strikes", 0)])
    handlers = {"Hold": grpc.stream_stream_rpc_method_handler(
        hold, request_deserializer=pb.HolderMessage.FromString, response_serializer=pb.LessorMessage.SerializeToString)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("leasegate.v1.LeaseService", handlers),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    sys.stdin.read()
    server.stop(None)


if __name__ == "__main__":
    if sys.argv[1] == "holder":
        holder(sys.argv[2])
    else:
        lessor()
