"""What users of redis-py do, in both versions of the protocol.

    use_redis.py PORT [CA_FILE KEY]
"""

import sys

import redis


def connect(port, protocol, secured):
    options = {"port": port, "protocol": protocol}
    if secured:
        ca_file, key = secured
        options |= {"ssl": True, "ssl_ca_certs": ca_file, "host": "localhost", "password": key}
    return redis.Redis(**options)


def yes(answers):
    return [bool(answer) for answer in answers]


def filters(client, kind):
    cf = client.cf()
    client.delete("k", "copy")
    assert client.execute_command("CF.RESERVE", "k", 1000, "LAYOUT", kind) in (b"OK", "OK", True)
    assert cf.add("k", "a") and cf.addnx("k", "b") and not cf.addnx("k", "b")
    assert yes(cf.insert("k", ["c", "d"], capacity=1000)) == [True, True]
    assert cf.insertnx("k", ["c", "e"], nocreate=True) == [0, 1]
    assert cf.exists("k", "a") and not cf.exists("k", "zz")
    assert yes(cf.mexists("k", "a", "zz", "c")) == [True, False, True]
    assert cf.count("k", "a") == 1 and cf.delete("k", "a") and not cf.delete("k", "a")
    info = cf.info("k")
    assert (info.get("Number of items inserted") if protocol_of(client) == 3 else info.insertedNum) in (4, None)
    for refused, words in (
        (lambda: cf.info("none"), "not found"),
        (lambda: cf.delete("none", "a"), "Not found"),
        (lambda: cf.reserve("k", 10), "item exists"),
    ):
        try:
            refused()
            raise AssertionError(words)
        except redis.ResponseError as error:
            assert words in str(error), error


def bloom_filters(client):
    bf = client.bf()
    client.delete("b", "made", "full")
    assert bf.reserve("b", 0.001, 1000) and bf.add("b", "a") and not bf.add("b", "a")
    assert yes(bf.madd("b", "a", "b", "b")) == [False, True, False]
    assert yes(bf.insert("made", ["a", "b"], capacity=1000, error=0.01, expansion=4)) == [True, True]
    assert yes(bf.insert("made", ["a", "c"], noCreate=True)) == [False, True]
    assert bf.exists("b", "a") and not bf.exists("b", "zz")
    assert yes(bf.mexists("b", "a", "zz", "b")) == [True, False, True]
    assert bf.card("b") == 2 and bf.card("none") == 0
    assert bf.create("full", 0.01, 1000, noScale=True)
    for key, expected in (("b", (1000, 1, 2, 2)), ("made", (1000, 1, 3, 4)), ("full", (1000, 1, 0, None))):
        info = bf.info(key)
        names = (b"Capacity", b"Number of filters", b"Number of items inserted", b"Expansion rate")
        if not isinstance(info, dict):
            names, info = ("capacity", "filterNum", "insertedNum", "expansionRate"), vars(info)
        assert tuple(info[name] for name in names) == expected, info
    for refused, words in (
        (lambda: bf.info("none"), "not found"),
        (lambda: bf.insert("none", ["a"], noCreate=True), "not found"),
        (lambda: bf.reserve("b", 0.01, 10), "item exists"),
        (lambda: bf.create("mixed", 0.01, 10, expansion=2, noScale=True), "Nonscaling filters cannot expand"),
        (lambda: bf.scandump("b", 0), "/filters/{key}/dump"),
    ):
        try:
            refused()
            raise AssertionError(words)
        except redis.ResponseError as error:
            assert words in str(error), error
    client.delete("b", "made", "full")


def protocol_of(client):
    return int(client.get_connection_kwargs().get("protocol") or 2)


def move(client):
    cf = client.cf()
    items = [f"i{number}" for number in range(3000)]
    client.execute_command("CF.RESERVE", "from", 100, "LAYOUT", "classic")
    cf.insert("from", items)
    client.delete("to")
    iterator, parts = 0, 0
    while True:
        iterator, chunk = cf.scandump("from", iterator)
        if iterator == 0:
            break
        assert cf.loadchunk("to", iterator, chunk)
        parts += 1
    assert parts > 1 and all(cf.mexists("to", *items))
    client.delete("from", "to")


def pipelines(client):
    with client.pipeline() as transaction:
        transaction.execute_command("CF.ADD", "k", "x")
        transaction.execute_command("CF.EXISTS", "k", "x")
        transaction.execute_command("CF.COUNT", "k", "x")
        assert yes(transaction.execute()) == [True, True, True]
    with client.pipeline(transaction=False) as pipeline:
        for number in range(500):
            pipeline.execute_command("CF.ADD", f"p{number % 7}", f"i{number}")
        assert all(pipeline.execute())
        for number in range(500):
            pipeline.execute_command("CF.EXISTS", f"p{number % 7}", f"i{number}")
        assert all(pipeline.execute())


def keys(client):
    assert client.ping() and client.echo("x") == b"x"
    assert client.type("k") == b"MBbloomCF" and client.exists("k", "k", "none") == 2
    assert client.ttl("k") == -1 and client.expire("k", 100) and 98 <= client.ttl("k") <= 100
    assert client.persist("k") and client.ttl("none") == -2
    assert sorted(client.scan_iter("p?", count=3)) == [b"p%d" % number for number in range(7)]
    assert client.dbsize() >= 8 and client.delete(*(f"p{number}" for number in range(7))) == 7
    assert client.info()["redis_version"] == "7.4.0" and client.memory_usage("k") >= 0
    assert client.config_get("databases") == {"databases": "1"} and client.client_id() > 0
    assert {"cf.add", "bf.add"} <= set(client.command())


def main():
    port, secured = int(sys.argv[1]), sys.argv[2:4]
    for protocol in (2, 3):
        client = connect(port, protocol, secured)
        for kind in ("paged", "classic"):
            filters(client, kind)
        bloom_filters(client)
        move(client)
        pipelines(client)
        keys(client)
        client.delete("k")
    print(f"redis-py {redis.__version__} works")


main()
