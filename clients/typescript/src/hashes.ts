/** Hashes and checksums, in halves of 32 bits: BigInt takes 25 times as long. */

/** Of the last item: the lower and the upper half of the lower 64 bits, then of the upper. */
export const HASH = new Int32Array(4);

/** Puts SipHash-1-3 of 128 bits into `HASH`. */
export function siphash13(bytes: Uint8Array, length: number, key: Int32Array): void {
  let a0 = key[0]! ^ 0x70736575, a1 = key[1]! ^ 0x736f6d65, b0 = key[2]! ^ 0x6e646f83, b1 = key[3]! ^ 0x646f7261;
  let c0 = key[0]! ^ 0x6e657261, c1 = key[1]! ^ 0x6c796765, d0 = key[2]! ^ 0x79746573, d1 = key[3]! ^ 0x74656462;
  const words = length >>> 3;
  // The words, the rest with the length, and thrice three rounds without any.
  for (let round = 0; round < words + 7; round += 1) {
    let m0 = 0, m1 = 0;
    if (round < words) {
      const at = round * 8;
      m0 = bytes[at]! | bytes[at + 1]! << 8 | bytes[at + 2]! << 16 | bytes[at + 3]! << 24;
      m1 = bytes[at + 4]! | bytes[at + 5]! << 8 | bytes[at + 6]! << 16 | bytes[at + 7]! << 24;
    } else if (round === words) {
      for (let at = words * 8; at < length; at += 1) {
        if ((at & 7) < 4) m0 |= bytes[at]! << 8 * (at & 3);
        else m1 |= bytes[at]! << 8 * (at & 3);
      }
      m1 |= length << 24;
    } else if (round === words + 1) {
      c0 ^= 0xee;
    } else if (round === words + 4) {
      HASH[0] = a0 ^ b0 ^ c0 ^ d0;
      HASH[1] = a1 ^ b1 ^ c1 ^ d1;
      b0 ^= 0xdd;
    }
    d0 ^= m0;
    d1 ^= m1;
    let sum = (a0 >>> 0) + (b0 >>> 0), kept = b0;
    a0 = sum | 0;
    a1 = a1 + b1 + (sum > 0xffffffff ? 1 : 0) | 0;
    sum = (c0 >>> 0) + (d0 >>> 0);
    c0 = sum | 0;
    c1 = c1 + d1 + (sum > 0xffffffff ? 1 : 0) | 0;
    b0 = (b0 << 13 | b1 >>> 19) ^ a0;
    b1 = (b1 << 13 | kept >>> 19) ^ a1;
    kept = d0;
    d0 = (d0 << 16 | d1 >>> 16) ^ c0;
    d1 = (d1 << 16 | kept >>> 16) ^ c1;
    // Halves change places before what is added to them.
    kept = a0;
    sum = (a1 >>> 0) + (d0 >>> 0);
    a0 = sum | 0;
    a1 = kept + d1 + (sum > 0xffffffff ? 1 : 0) | 0;
    sum = (c0 >>> 0) + (b0 >>> 0);
    c0 = sum | 0;
    c1 = c1 + b1 + (sum > 0xffffffff ? 1 : 0) | 0;
    kept = b0;
    b0 = (b0 << 17 | b1 >>> 15) ^ c0;
    b1 = (b1 << 17 | kept >>> 15) ^ c1;
    kept = d0;
    d0 = (d0 << 21 | d1 >>> 11) ^ a0;
    d1 = (d1 << 21 | kept >>> 11) ^ a1;
    kept = c0;
    c0 = c1;
    c1 = kept;
    a0 ^= m0;
    a1 ^= m1;
  }
  HASH[2] = a0 ^ b0 ^ c0 ^ d0;
  HASH[3] = a1 ^ b1 ^ c1 ^ d1;
}

/** The upper half of a product of two halves. */
export function upper(a: number, b: number): number {
  const a0 = a & 0xffff, a1 = a >>> 16, b0 = b & 0xffff, b1 = b >>> 16;
  const middle = a1 * b0 + (a0 * b0 >>> 16), other = a0 * b1 + (middle & 0xffff);
  return a1 * b1 + Math.floor(middle / 0x10000) + (other >>> 16) >>> 0;
}

const M0 = 0x5bd1e995, M1 = 0xc6a4a793 | 0;

/** Puts MurmurHash64A without a seed into the first two of `HASH`. */
export function murmur64a(bytes: Uint8Array, length: number): void {
  let h0 = Math.imul(length, M0), h1 = upper(length, M0) + Math.imul(length, M1) | 0;
  // Multiplies by M.
  const times = (x0: number, x1: number): void => {
    h1 = upper(x0 >>> 0, M0) + Math.imul(x0, M1) + Math.imul(x1, M0) | 0;
    h0 = Math.imul(x0, M0);
  };
  for (let at = 0; at < length; at += 8) {
    let k0 = 0, k1 = 0;
    for (let byte = at; byte < Math.min(at + 8, length); byte += 1) {
      if ((byte & 7) < 4) k0 |= bytes[byte]! << 8 * (byte & 3);
      else k1 |= bytes[byte]! << 8 * (byte & 3);
    }
    const g0 = h0, g1 = h1;
    if (at + 8 <= length) {
      times(k0, k1);
      times(h0 ^ h1 >>> 15, h1);
      times(g0 ^ h0, g1 ^ h1);
    } else {
      times(g0 ^ k0, g1 ^ k1);
    }
  }
  times(h0 ^ h1 >>> 15, h1);
  HASH[0] = h0 ^ h1 >>> 15;
  HASH[1] = h1;
}

/** One step of SplitMix64. */
export function mix(anchor: number, salt: number): bigint {
  const step = (x: bigint): bigint => BigInt.asUintN(64, x);
  let x = step(BigInt(anchor ^ salt) + 0x9e3779b97f4a7c15n);
  x = step((x ^ x >> 30n) * 0xbf58476d1ce4e5b9n);
  x = step((x ^ x >> 27n) * 0x94d049bb133111ebn);
  return x ^ x >> 31n;
}

const CRC = new Uint32Array(1024).map((_, n) => n);
for (let n = 0; n < 1024; n += 1) {
  if (n >= 256) {
    CRC[n] = CRC[n - 256]! >>> 8 ^ CRC[CRC[n - 256]! & 255]!;
    continue;
  }
  for (let bit = 0; bit < 8; bit += 1) CRC[n] = CRC[n]! & 1 ? CRC[n]! >>> 1 ^ 0xedb88320 : CRC[n]! >>> 1;
}

/** CRC-32 as zlib has it, behind another one; four bytes a step. */
export function crc32(bytes: Uint8Array, before = 0): number {
  let crc = ~before, at = 0;
  for (const end = bytes.length & ~3; at < end; at += 4) {
    crc ^= bytes[at]! | bytes[at + 1]! << 8 | bytes[at + 2]! << 16 | bytes[at + 3]! << 24;
    crc = CRC[768 + (crc & 255)]! ^ CRC[512 + (crc >>> 8 & 255)]! ^ CRC[256 + (crc >>> 16 & 255)]! ^ CRC[crc >>> 24]!;
  }
  for (; at < bytes.length; at += 1) crc = CRC[(crc ^ bytes[at]!) & 255]! ^ crc >>> 8;
  return ~crc >>> 0;
}

/** The first 32 bits of the fractions of a root of the first primes. */
function fractions(count: number, root: (prime: number) => number): Int32Array {
  const primes: number[] = [];
  for (let n = 2; primes.length < count; n += 1) if (primes.every((it) => n % it !== 0)) primes.push(n);
  return Int32Array.from(primes, (it) => (root(it) % 1) * 2 ** 32 | 0);
}

const ROUNDS = fractions(64, Math.cbrt);

/** SHA-256 of pieces; browsers have one of their own only where pages come by TLS. */
export class Sha256 {
  readonly #state = fractions(8, Math.sqrt);
  readonly #words = new Int32Array(64);
  readonly #block = new Uint8Array(64);
  #length = 0;

  update(bytes: Uint8Array): this {
    let at = 0;
    const filled = this.#length % 64;
    this.#length += bytes.length;
    if (filled > 0) {
      at = Math.min(64 - filled, bytes.length);
      this.#block.set(bytes.subarray(0, at), filled);
      if (filled + at < 64) return this;
      this.#compress(this.#block, 0);
    }
    for (; at + 64 <= bytes.length; at += 64) this.#compress(bytes, at);
    this.#block.set(bytes.subarray(at));
    return this;
  }

  digest(): Uint8Array {
    const length = this.#length, end = new Uint8Array((length % 64 < 56 ? 64 : 128) - length % 64);
    const view = new DataView(end.buffer);
    end[0] = 0x80;
    view.setUint32(end.length - 8, Math.floor(length / 2 ** 29));
    view.setUint32(end.length - 4, length * 8 >>> 0);
    this.update(end);
    const out = new DataView(new ArrayBuffer(32));
    this.#state.forEach((word, at) => out.setInt32(4 * at, word));
    return new Uint8Array(out.buffer);
  }

  #compress(bytes: Uint8Array, at: number): void {
    const w = this.#words, s = this.#state;
    for (let n = 0; n < 16; n += 1, at += 4) {
      w[n] = bytes[at]! << 24 | bytes[at + 1]! << 16 | bytes[at + 2]! << 8 | bytes[at + 3]!;
    }
    for (let n = 16; n < 64; n += 1) {
      const x = w[n - 15]!, y = w[n - 2]!;
      const older = (x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3;
      const newer = (y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10;
      w[n] = w[n - 16]! + older + w[n - 7]! + newer | 0;
    }
    let a = s[0]!, b = s[1]!, c = s[2]!, d = s[3]!, e = s[4]!, f = s[5]!, g = s[6]!, h = s[7]!;
    for (let n = 0; n < 64; n += 1) {
      const chosen = (e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7);
      const one = h + chosen + (e & f ^ ~e & g) + ROUNDS[n]! + w[n]! | 0;
      const most = (a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10);
      const two = most + (a & b ^ a & c ^ b & c) | 0;
      h = g; g = f; f = e; e = d + one | 0; d = c; c = b; b = a; a = one + two | 0;
    }
    [a, b, c, d, e, f, g, h].forEach((word, n) => (s[n] = s[n]! + word | 0));
  }
}

/** Bytes in hexadecimal digits. */
export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
