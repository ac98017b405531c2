"""What users of coredis, which speaks RESP3 only, and of valkey-glide do.

    use_others.py PORT [CA_FILE KEY]
"""

import asyncio
import ssl
import sys

import coredis
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
        await client.delete(["c"])
        assert await client.cf.reserve("c", 1000)
        assert await client.cf.add("c", "a") and not await client.cf.addnx("c", "a")
        assert await client.cf.insert("c", ["b", "d"]) == (True, True)
        assert await client.cf.mexists("c", ["a", "zz"]) == (True, False)
        assert await client.cf.count("c", "a") == 1 and await client.cf.delete("c", "a")
        assert (await client.cf.info("c"))[b"Number of items inserted"] == 2
        await client.delete(["c"])
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
        assert await client.delete(["g"]) == 1 and await client.ping() == b"PONG"
        await client.close()
    print("valkey-glide works")


async def main():
    port, secured = int(sys.argv[1]), sys.argv[2:4]
    await use_coredis(port, secured)
    await use_glide(port, secured)


asyncio.run(main())
