"""The hashes by which items lie in filters: bytes in, numbers out."""

import struct

_M = (1 << 64) - 1


def siphash13(item: bytes, k0: int, k1: int) -> tuple[int, int]:
    """SipHash-1-3 of 128 bits: their lower and their upper half."""
    v0, v1 = k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F83
    v2, v3 = k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573
    whole = len(item) & ~7
    last = (len(item) & 255) << 56 | int.from_bytes(item[whole:], "little")
    for word in (*struct.unpack_from(f"<{whole >> 3}Q", item), last):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
        v0 ^= word
    v2 ^= 0xEE
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    low = v0 ^ v1 ^ v2 ^ v3
    v1 ^= 0xDD
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return low, v0 ^ v1 ^ v2 ^ v3


def _round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = v0 + v1 & _M
    v2 = v2 + v3 & _M
    v1 = (v1 << 13 & _M | v1 >> 51) ^ v0
    v3 = (v3 << 16 & _M | v3 >> 48) ^ v2
    v0 = (v0 << 32 & _M | v0 >> 32) + v3 & _M
    v2 = v2 + v1 & _M
    v1 = (v1 << 17 & _M | v1 >> 47) ^ v2
    return v0, v1, v2 << 32 & _M | v2 >> 32, (v3 << 21 & _M | v3 >> 43) ^ v0


def murmur64a(item: bytes) -> int:
    """MurmurHash64A without a seed."""
    m = 0xC6A4A7935BD1E995
    h = len(item) * m & _M
    whole = len(item) & ~7
    for (k,) in struct.iter_unpack("<Q", item[:whole]):
        k = k * m & _M
        h = (h ^ (k ^ k >> 47) * m & _M) * m & _M
    if rest := item[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & _M
    h = (h ^ h >> 47) * m & _M
    return h ^ h >> 47


def mix(anchor: int, salt: int) -> int:
    """One step of SplitMix64."""
    x = (anchor ^ salt) + 0x9E3779B97F4A7C15 & _M
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _M
    x = (x ^ x >> 27) * 0x94D049BB133111EB & _M
    return x ^ x >> 31
