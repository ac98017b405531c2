"""What users of coredis, which speaks RESP3 only, and of valkey-glide do.

    use_others.py PORT [CA_FILE KEY]
"""

import asyncio
import ssl
import sys

import coredis
from coredis import PureToken
from glide import (
    AdvancedGlideClientConfiguration, GlideClient, GlideClientConfiguration, NodeAddress, ProtocolVersion,
    ServerCredentials, TlsAdvancedConfiguration,
)


async def use_coredis(port, secured):
    options = {"port": port}
    if secured:
        ca_file, key = secured
        options |= {
            "host": "localhost", "password": key, "ssl_context": ssl.create_default_context(cafile=ca_file),
        }
    async with coredis.Redis(**options) as client:
        await client.delete(["c", "b"])
        assert await client.cf.reserve("c", 1000)
        assert await client.cf.add("c", "a") and not await client.cf.addnx("c", "a")
        assert await client.cf.insert("c", ["b", "d"]) == (True, True)
        assert await client.cf.mexists("c", ["a", "zz"]) == (True, False)
        assert await client.cf.count("c", "a") == 1 and await client.cf.delete("c", "a")
        assert (await client.cf.info("c"))[b"Number of items inserted"] == 2
        assert await client.bf.reserve("b", 0.01, 1000, expansion=2)
        assert await client.bf.add("b", "a") and not await client.bf.add("b", "a")
        assert await client.bf.madd("b", ["a", "b"]) == (False, True)
        assert await client.bf.insert("b", ["c"], nocreate=True) == (True,)
        assert await client.bf.mexists("b", ["a", "zz"]) == (True, False)
        assert await client.bf.card("b") == 3
        info = await client.bf.info("b")
        assert info.pop(b"Size") > 0
        assert info == {
            b"Capacity": 1000, b"Number of filters": 1, b"Number of items inserted": 3, b"Expansion rate": 2,
        }
        assert await client.bf.info("b", PureToken.ITEMS) == 3
        await client.delete(["c", "b"])
    print(f"coredis {coredis.__version__} works")


async def use_glide(port, secured):
    for protocol in (ProtocolVersion.RESP2, ProtocolVersion.RESP3):
        options = {"protocol": protocol}
        host = "127.0.0.1"
        if secured:
            ca_file, key = secured
            tls = TlsAdvancedConfiguration(root_pem_cacerts=open(ca_file, "rb").read())
            host = "localhost"
            options |= {
                "use_tls": True, "credentials": ServerCredentials(key),
                "advanced_config": AdvancedGlideClientConfiguration(tls_config=tls),
            }
        client = await GlideClient.create(GlideClientConfiguration([NodeAddress(host, port)], **options))
        assert await client.custom_command(["CF.ADD", "g", "a"])
        assert await client.custom_command(["CF.EXISTS", "g", "a"])
        assert not await client.custom_command(["CF.EXISTS", "g", "zz"])
        assert await client.custom_command(["BF.RESERVE", "h", "0.01", "1000"]) == "OK"
        # It does not know these: in RESP2 an array stays one of numbers.
        added = await client.custom_command(["BF.MADD", "h", "a", "b", "a"])
        assert [bool(it) for it in added] == [True, True, False]
        assert await client.custom_command(["BF.EXISTS", "h", "b"]) and not await client.custom_command(["BF.ADD", "h", "b"])
        info = await client.custom_command(["BF.INFO", "h"])
        info = info if isinstance(info, dict) else dict(zip(info[::2], info[1::2]))
        assert (info[b"Number of items inserted"], info[b"Expansion rate"]) == (2, 2)
        assert await client.delete(["g", "h"]) == 2 and await client.ping() == b"PONG"
        await client.close()
    print("valkey-glide works")


async def main():
    port, secured = int(sys.argv[1]), sys.argv[2:4]
    await use_coredis(port, secured)
    await use_glide(port, secured)


asyncio.run(main())
