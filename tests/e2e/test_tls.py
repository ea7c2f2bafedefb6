# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Mutual TLS between hosts, regions and homes: leases flow, a holder speaks for itself alone, strangers get nothing and are counted, and
renewed certificates need no restart.

Each scenario below runs in a process of its own inside the region's namespace, as `test_tls.py SCENARIO ADDRESS FOLDER OTHER_FOLDER`.
"""
import contextlib
import json
import socket
import ssl
import sys

from lib import played
from lib.played import Holder

PORT = 7400


# ---- scenarios, inside the namespace: a holder that shares no code with leasegate ----

def channel_of(address, folder, who, ca_folder=None):
    from grpcio_peer import grpc

    def read(path):
        with open(path, "rb") as f:
            return f.read()
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(read(f"{ca_folder or folder}/ca.pem"), read(f"{folder}/{who}.key"),
                                                                     read(f"{folder}/{who}.pem")))


def honest(address, folder, _other):
    assert Holder(channel_of(address, folder, "eu-west.python-1")).greet().welcome.lessor == "eu-west"


def impostor(address, folder, _other):
    """With a certificate of our authority, under another's name."""
    from grpcio_peer import Stream, grpc, pb
    channel = channel_of(address, folder, "eu-west.python-1")
    code, text = Holder(channel, name="python-2").stream.status()
    assert code == grpc.StatusCode.FAILED_PRECONDITION and "its certificate is that of python-1 in region eu-west" in text, (code, text)
    stream = Stream(channel)
    stream.put(pb.HolderMessage(hello=pb.Hello(holder="us-east", region="us-east", is_region=True, incarnation=1, regions_version=1)))
    code, text = stream.status()
    assert code == grpc.StatusCode.FAILED_PRECONDITION and "its certificate is that of python-1" in text, (code, text)


def strangers(address, folder, other):
    """With a certificate of another authority, in clear text, and by an older TLS."""
    from grpcio_peer import grpc
    code, text = Holder(channel_of(address, other, "eu-west.python-1", folder)).stream.status()
    assert code == grpc.StatusCode.UNAVAILABLE, (code, text)
    code, text = Holder(grpc.insecure_channel(address)).stream.status()
    assert code == grpc.StatusCode.UNAVAILABLE, (code, text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(f"{folder}/ca.pem")
    context.load_cert_chain(f"{folder}/eu-west.python-1.pem", f"{folder}/eu-west.python-1.key")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(address.rsplit(":", 1), timeout=10) as plain:
        try:
            context.wrap_socket(plain).close()
            raise AssertionError("the server speaks TLS 1.2")
        except ssl.SSLError as e:
            assert "protocol version" in str(e), e


def foreign_keys(address, folder, _other):
    """A region gets of a home what is the home's to give, and nothing of keys that are at home elsewhere; and no host's name."""
    from grpcio_peer import grpc
    channel = channel_of(address, folder, "us-east")
    h = Holder(channel, name="us-east", region="us-east", is_region=True).greet()
    n_refused = 0
    for i in range(1, 41):
        grant = h.grant(h.ask(h.key(f"192.0.2.{i}"), 10))
        assert grant.status in (h.pb.GRANT_STATUS_OK, h.pb.GRANT_STATUS_NOT_HOME), grant
        if grant.status == h.pb.GRANT_STATUS_NOT_HOME:
            assert not grant.granted_tok and not grant.lease.generation, grant
            n_refused += 1
    assert 5 <= n_refused <= 35, n_refused
    code, text = Holder(channel, name="python-1").stream.status()
    assert code == grpc.StatusCode.FAILED_PRECONDITION and "that of the server of region us-east" in text, (code, text)


def no_holder(address, folder, _other):
    """With an operator's certificate, as the operator's host or region."""
    from grpcio_peer import Stream, grpc, pb
    channel = channel_of(address, folder, "eu-west.operator.jane")
    code, text = Holder(channel, name="jane").stream.status()
    assert code == grpc.StatusCode.FAILED_PRECONDITION and "its certificate is that of operator jane of region eu-west" in text, (code, text)
    stream = Stream(channel)
    stream.put(pb.HolderMessage(hello=pb.Hello(holder="eu-west", region="eu-west", is_region=True, incarnation=1, regions_version=1)))
    assert stream.status()[0] == grpc.StatusCode.FAILED_PRECONDITION


SCENARIOS = {"no_holder": no_holder, "honest": honest, "impostor": impostor, "strangers": strangers, "foreign_keys": foreign_keys}


# ---- the tests, outside ----

if __name__ == "__main__":
    played.main(SCENARIOS, *sys.argv[1:])
else:
    import pytest
    from lib import LEASEGATE, prom
    from lib.certs import Certs
    from lib.daemon import Instance
    from lib.host import fresh_name
    from lib.net import Namespace, veth
    from lib.wait import until
    from lib.played import RULES
    from test_regions import SHORT_LIMIT, SHORT_S, assert_law, rule, running, total

    def ended(ns, cause):
        status, text = ns.http_get("/metrics", 9465)
        assert status == 200
        return prom.Page(text).get("leasegate_lessor_streams_ended_total", cause=cause)

    @contextlib.contextmanager
    def region(*others):
        """A region server, its own home, in a namespace of its own, with an authority. Others that are listed are not there."""
        name = fresh_name("tls")
        with Certs() as certs, Namespace(name) as ns, Instance(ns, name) as instance:
            instance.write("rules.yaml", RULES)
            listed = [{"name": "eu-west", "address": f"127.0.0.1:{PORT}", "hosts": 4}]
            listed += [{"name": name, "address": f"127.0.0.1:{PORT + i}", "hosts": 4} for i, name in enumerate(others, 1)]
            keys = {"region": "eu-west", "regions": {"version": 1, "list": listed}, "listen": f"127.0.0.1:{PORT}", "rules": "rules.yaml",
                    "store": "memory"}
            instance.config("region.yaml", tls=certs.region("eu-west", "127.0.0.1"), **keys)
            daemon = instance.daemon("region", instance.path("region.yaml")).start().wait_ready()
            yield daemon, certs, instance, keys
            print(f"--- leasegated region\n{daemon.stderr}")

    def run(daemon, scenario, certs, other=None):
        played.run(daemon.ns, __file__, scenario, f"127.0.0.1:{PORT}", certs.folder, other.folder if other else "")
        assert daemon.alive

    def test_a_holder_speaks_for_itself_alone_and_strangers_get_nothing():
        with region() as (daemon, certs, _instance, _keys), Certs() as other:
            certs.node("eu-west", "python-1")
            other.node("eu-west", "python-1")
            run(daemon, "honest", certs)
            run(daemon, "impostor", certs)
            # One that ends within its own handshake may be counted already.
            assert ended(daemon.ns, "impostor") == 2
            before = ended(daemon.ns, "stranger")
            run(daemon, "strangers", certs, other)
            until(lambda: ended(daemon.ns, "stranger") >= before + 3, "strangers are counted")
            assert ended(daemon.ns, "impostor") == 2
            assert "says it is host python-2, and its certificate is that of python-1 in region eu-west: refused" in daemon.stderr

    def test_an_operator_asks_from_afar_by_his_certificate():
        with region() as (daemon, certs, instance, keys), Namespace(fresh_name("afar")) as afar:
            veth(afar, "up0", ["10.90.0.1/24"], daemon.ns, "in0", ["10.90.0.2/24"])
            daemon.stop()
            keys = {**keys, "listen": "10.90.0.2:7400"}
            instance.config("region.yaml", tls=certs.region("eu-west", "10.90.0.2"), **{k: v for k, v in keys.items() if k != "rules"})
            daemon = instance.daemon("region", instance.path("region.yaml")).start().wait_ready()
            prefix = certs.operator("eu-west", "jane")
            certs.operator("us-east", "joe")
            certs.node("eu-west", "host-1")

            def ask(*words, tls=prefix, server="10.90.0.2:7400", name="eu-west"):
                return afar.run(LEASEGATE, "--server", server, "--region", name, "--tls", tls, "--instance", "nobody", *words)

            def told(*words):
                r = ask("--json", *words)
                assert r.returncode == 0, r.stderr
                return json.loads(r.stdout)
            r = ask("rules", "apply", instance.path("rules.yaml"))
            assert r.returncode == 0, r.stderr
            # Who he is says his certificate, whatever he says; and he is told as much as on the machine itself.
            assert [h["by"] for h in instance.json("rules", "history")] == ["jane"]
            here = instance.json("rules", "show")
            assert told("rules", "show") == here
            # An answer of several parts.
            long = instance.write("long.yaml", RULES + "".join(f"# {'x' * 100}\n" for _ in range(6000)))
            assert ask("rules", "apply", long).returncode == 0
            assert told("rules", "show")["text"].count("xxx") > 6000
            r = ask("rules", "apply", instance.write("bad.yaml", RULES.replace("1000/1m", "1000/1fortnight")))
            assert r.returncode == 1 and "bad.yaml:9:12" in r.stderr, r.stderr
            # Nobody else: no host, no operator of another region, no certificate of another authority, no clear text.
            before = ended(daemon.ns, "refused")
            r = ask("rules", "status", tls=str(certs.folder / "eu-west.host-1"))
            assert r.returncode == 1 and "none of an operator of region eu-west" in r.stderr, r.stderr
            assert ended(daemon.ns, "refused") == before + 1
            r = ask("rules", "status", tls=str(certs.folder / "us-east.operator.joe"))
            assert r.returncode == 1 and "none of an operator of region eu-west" in r.stderr, r.stderr
            with Certs() as other:
                before = ended(daemon.ns, "stranger")
                r = ask("rules", "status", tls=other.operator("eu-west", "jane"))
                assert r.returncode == 1 and "gave no answer" in r.stderr, r.stderr
                until(lambda: ended(daemon.ns, "stranger") > before, "a stranger is counted")
            # And he talks to nobody but that region's server.
            r = ask("rules", "status", name="us-east")
            assert r.returncode == 1 and "the server of region eu-west" in r.stderr, r.stderr
            # An operator's certificate is no host's and no region's.
            played.run(daemon.ns, __file__, "no_holder", "10.90.0.2:7400", certs.folder, "")
            assert instance.json("rules", "status")["current"]["version"] == 2
            for words in (("keys",), ("reload",)):
                assert ask(*words).returncode != 0

    def test_a_region_gets_nothing_of_keys_that_are_at_home_elsewhere():
        with region("us-east") as (daemon, certs, _instance, _keys):
            certs.region("us-east")
            run(daemon, "foreign_keys", certs)
            assert ended(daemon.ns, "impostor") == 1

    @pytest.mark.long
    def test_files_that_cannot_be_used_change_nothing_and_are_named():
        """Expired, of another name, or with another's key: what is in force stays, for new streams too."""
        with region() as (daemon, certs, _instance, _keys), Certs() as other:
            certs.node("eu-west", "python-1")
            before = prom.Page(daemon.ns.http_get("/metrics", 9465)[1]).get("leasegate_certificate_end_timestamp_seconds")
            good = {n: (certs.folder / n).read_bytes() for n in ("eu-west.pem", "eu-west.key")}
            other.region("eu-west", "127.0.0.1")
            certs.region("us-east", "127.0.0.1")
            strange = {"eu-west.pem": (certs.folder / "us-east.pem").read_bytes(), "eu-west.key": (certs.folder / "us-east.key").read_bytes()}
            keyless = {**good, "eu-west.key": (other.folder / "eu-west.key").read_bytes()}
            for files, why in ((strange, "the certificate is not that of this daemon"), (keyless, "not the one of the certificate"),
                               (certs.expired("eu-west"), "the certificate has expired")):
                n_lines = len(daemon.lines)
                for name, content in files.items():
                    (certs.folder / f"{name}.new").write_bytes(content)
                    (certs.folder / f"{name}.new").rename(certs.folder / name)
                daemon.reload()
                until(lambda why=why, n=n_lines: any(why in line and "stays in force" in line and "eu-west." in line
                                                     for line in daemon.lines[n:]), f"it is named: {why}")
                run(daemon, "honest", certs)
            page = prom.Page(daemon.ns.http_get("/metrics", 9465)[1])
            assert page.get("leasegate_certificate_end_timestamp_seconds") == before

    def test_a_daemon_without_a_certificate_of_its_own_does_not_start():
        with region() as (daemon, certs, instance, keys):
            daemon.stop()
            for tls, why in ((certs.node("eu-west", "host-1"), "the certificate is not that of this daemon"),
                             ({**certs.files("eu-west"), "key": "/nonexistent"}, "cannot read this file for TLS: No such file"),
                             ({**certs.files("eu-west"), "key": certs.files("eu-west.host-1")["key"]}, "not the one of the certificate")):
                d = instance.daemon("region", instance.config("other.yaml", tls=tls, **keys)).start()
                assert d.wait_exit() == 1
                assert why in d.stderr

    @pytest.mark.long
    def test_leases_flow_over_tls_and_renewed_certificates_need_no_restart():
        with Certs() as certs, running(rule(SHORT_LIMIT, SHORT_S), certs=certs) as c:
            for r in c:
                r.sender.rate_pps = 0.2 * SHORT_LIMIT / SHORT_S
            until(lambda: all(r.receiver.n > 20 for r in c), "every region is served", 20)
            east, west, _south = c
            certs.region(east.name)
            east.server.reload()
            until(lambda: "new files are in force" in east.server.stderr, "the region reads its new certificate", 15)
            # The streams there were go on, and a new one is made with it.
            west.node.stop()
            c.start_node(west)
            seen = {r: r.receiver.n for r in c}
            until(lambda: all(r.receiver.n > seen[r] + 20 for r in c), "every region is served", 20)
            assert total(c) and assert_law(c, SHORT_LIMIT, SHORT_S)
            assert "clear text" not in east.server.stderr
