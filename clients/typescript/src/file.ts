/** Reads filters that are files, in Node and in browsers: it imports nothing of Node. */
import { type Item, type Many, line, several } from "./batches.js";
import { FilterFileError } from "./errors.js";
import { HASH, Sha256, crc32, hex, mix, murmur64a, siphash13, upper } from "./hashes.js";
import { known } from "./options.js";

const BLOCK = 4096;
const FIXED = 256;
const END_BYTES = 48;
const SUM = 12;
/** What is not part of the digest. */
const MASKED: readonly (readonly [at: number, size: number])[] = [[12, 4], [120, 8], [216, 32]];
const MOST_HEADER = 4 << 20;
/** Counters of a page. */
const MOST_COUNTERS = 16_384;

/** Bytes that are checked before others get a turn, and milliseconds after which they do. */
const PIECE = 1 << 18, TURN = 10;
/** Of a larger file no copy is made, which the SHA-256 of browsers and Node needs. */
const MOST_COPIED = 64 << 20;

const VALUES = 1, WINDOW = 2, ATTRIBUTES = 4, NO_KEY = 8;
const CLASSIC = 1, PAGED = 2;

/** Slots in 8 bytes, by the bits of a slot. */
const SLOTS: Readonly<Record<number, number>> = { 12: 5, 16: 4, 21: 3, 32: 2 };

const ASKED = { withinSeconds: 0, nowMs: 0 };
const TEXT = new TextEncoder();

/** What a file says of its filter. */
export interface FileDescription {
  layout: "classic" | "paged";
  /** Adds less deletes. */
  items: number;
  /** Probability that an item is found that was never added, as expected. */
  falsePositiveRate: number;
  createdAt: Date;
  /** When the filter was changed last: what was added later is not in the file. */
  changedAt: Date;
  /** Names the state of the filter, as the server does. */
  etag: string;
  fileBytes: number;
  /** 0: it has no values. */
  valueBits: number;
  /** Whether values are rows of attributes, which only the server can name. */
  hasAttributes: boolean;
  windowSeconds: number | undefined;
  windowResolutionSeconds: number | undefined;
  /** Whether the key of its hash is in the file. Whoever has it can test guesses. */
  hasKey: boolean;
}

/** Of questions to a file. */
export interface FileOptions {
  /** Of a filter with a window: whether it was seen within the last so many seconds. */
  withinSeconds?: number | undefined;
  /** Milliseconds since 1970, in place of the clock. */
  nowMs?: number | undefined;
}

/** A slot that matches. */
interface Match {
  page: number;
  bucket: number;
  held: number;
}

/** Whether the key of its hash was not left out of a file, by its first 256 bytes; undefined: it is no such file. */
export function hasKey(begin: Uint8Array): boolean | undefined {
  const isFile = begin.length >= FIXED && String.fromCharCode(...begin.subarray(0, 8)) === "CUCKFILE";
  return isFile ? (begin[160]! & NO_KEY) === 0 : undefined;
}

/** How long a file says that it is, by its first 256 bytes. */
export function toldBytes(begin: Uint8Array): number {
  if (hasKey(begin) === undefined) throw new FilterFileError("this is no file of a filter");
  const view = new DataView(begin.buffer, begin.byteOffset, begin.byteLength);
  const version = view.getUint16(8, true);
  if (version !== 1) throw new FilterFileError(`the file has format version ${version}, and this client reads 1 alone`);
  return view.getUint32(16, true) + view.getUint32(20, true) * 2 ** 32;
}

/**
 * Refuses a file of the other kind than one with or without its key. Somebody else keeps it, and
 * each would put its own in place of the other's again and again.
 */
export function checkKind(begin: Uint8Array, isApart: boolean, name: string): void {
  if (hasKey(begin) !== isApart) return;
  const left = "not left out of it, but `key` is given: take another path, or no key";
  const says = isApart ? left : "left out of it: give it as `key`, or take another path";
  throw new FilterFileError(`${name}: the key of the file's hash was ${says}`);
}

/**
 * Answers from a filter's file, as `Filter.dump` and `cuckood build` write it.
 *
 * A "no" is certain for what was added before the file was made. Answers are those of the
 * server at that moment, false positives included. The header is checked at once, and each
 * block of 4,096 bytes when it is first looked into: nothing beyond the bytes is read.
 *
 * Throws `FilterFileError` if the bytes are no such file, not all of one, damaged, or of a
 * newer version; of a damaged block only what needs it is refused.
 */
export class FilterFile {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #layout: number;
  readonly #features: number;
  readonly #pagesAt: number;
  readonly #pages: number;
  readonly #stampsAt: number;
  readonly #indexAt: number;
  readonly #countersAt: number;
  readonly #counters: number;
  readonly #sumsAt: number;
  readonly #width: number;
  readonly #anchorBits: number;
  readonly #suffix: number;
  readonly #valueBits: number;
  readonly #families: number;
  readonly #level: number;
  readonly #pointer: number;
  readonly #window: number;
  readonly #resolution: number;
  readonly #epoch: number;
  readonly #bucketSize: number;
  readonly #subs: (readonly [buckets: number, at: number])[] = [];
  readonly #key: Int32Array | undefined;
  /** A byte for each block that was found right. */
  readonly #seen: Uint8Array;
  // What follows from an anchor alone: the sum of its two buckets, and to which pages it crosses.
  readonly #sum: Uint16Array;
  readonly #across: Float64Array;
  readonly #turn: Int32Array;
  readonly #buffer = new Uint8Array(1024);

  /** `key`: the 16 bytes of the hash key, of a file that it was left out of. */
  constructor(file: ArrayBuffer | Uint8Array, options: { key?: Uint8Array | undefined } = {}) {
    const { key } = known("FilterFile", options, { key: 0 });
    // Of a Buffer of Node `slice` is no copy.
    const bytes = (this.#bytes =
      file instanceof Uint8Array ? new Uint8Array(file.buffer, file.byteOffset, file.byteLength) : new Uint8Array(file));
    const total = toldBytes(bytes);
    const view = (this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    const word = (at: number): number => view.getUint32(at, true);
    if (bytes.length !== total) {
      throw new FilterFileError(`the file has ${bytes.length} bytes and should have ${total}: it was cut off, or added to`);
    }
    const pagesAt = (this.#pagesAt = this.#number(24));
    if (!(pagesAt >= FIXED && pagesAt <= Math.min(MOST_HEADER, total - END_BYTES) && pagesAt % BLOCK === 0)) {
      throw damaged("its length can't be");
    }
    const sum = crc32(new Uint8Array(4), crc32(bytes.subarray(0, SUM)));
    if (crc32(bytes.subarray(SUM + 4, pagesAt), sum) !== word(SUM)) throw damaged("its checksum does not match");
    this.#layout = view.getUint16(10, true);
    this.#features = word(160);
    const unknown = this.#features & ~(VALUES | WINDOW | ATTRIBUTES | NO_KEY);
    if (unknown !== 0) throw new FilterFileError(`the file has features that this client does not know (bits ${unknown >>> 0})`);
    this.#pages = this.#number(32);
    this.#stampsAt = this.#number(40);
    this.#indexAt = this.#number(48);
    this.#countersAt = this.#number(56);
    this.#counters = this.#number(64);
    this.#sumsAt = this.#number(72);
    [this.#width, this.#anchorBits, this.#suffix, this.#valueBits] = bytes.subarray(164, 168) as unknown as [number, number, number, number];
    this.#families = word(168);
    this.#level = word(172);
    this.#pointer = word(176);
    this.#window = word(180);
    this.#resolution = word(184);
    this.#epoch = this.#number(192);
    this.#bucketSize = word(200);
    const anchors = this.#layout === PAGED ? 2 ** Math.min(this.#anchorBits, 8) : 0;
    this.#sum = new Uint16Array(anchors);
    this.#across = new Float64Array(anchors);
    this.#turn = new Int32Array(2 * anchors);
    if (this.#layout === CLASSIC) this.#openClassic();
    else if (this.#layout === PAGED) this.#openPaged();
    else throw damaged("it has an unknown layout");
    this.#key = this.#ownKey(key);
    this.#checkParts(total);
    const sums = bytes.subarray(this.#sumsAt, total - END_BYTES);
    const end = String.fromCharCode(...bytes.subarray(total - 8));
    if (crc32(sums) !== word(total - END_BYTES) || word(total - END_BYTES + 4) !== 0 || end !== "CUCKEND1") {
      throw new FilterFileError("the checksums of the file are damaged");
    }
    this.#seen = new Uint8Array((this.#sumsAt - pagesAt) / BLOCK);
  }

  #number(at: number): number {
    return this.#view.getUint32(at, true) + this.#view.getUint32(at + 4, true) * 2 ** 32;
  }

  #openClassic(): void {
    const size = this.#bucketSize, subs = this.#view.getUint32(204, true);
    const may = this.#view.getUint32(208, true) === FIXED && subs > 0 && subs <= (this.#pagesAt - FIXED) / 16;
    if (!may || size === 0 || size > 255) throw damaged("its sub-filters can't be");
    let at = this.#pagesAt;
    for (let sub = 0; sub < subs; sub += 1) {
      const buckets = this.#number(FIXED + 16 * sub);
      // More could not be in memory.
      const isPower = buckets > 0 && buckets <= 2 ** 32 && (buckets & (buckets - 1)) === 0;
      if (!isPower || this.#number(FIXED + 16 * sub + 8) !== at) throw damaged("its sub-filters can't be");
      this.#subs.push([buckets, at]);
      at += whole(buckets * size);
    }
    if (at !== this.#pagesAt + this.#pages * BLOCK || this.#features !== 0) throw damaged("its pages can't be");
  }

  #openPaged(): void {
    const fingerprint = this.#width - this.#valueBits, isWindow = (this.#features & WINDOW) !== 0;
    const ofLevel = this.#families * 2 ** this.#level;
    const may =
      this.#width in SLOTS && this.#anchorBits === (fingerprint < 16 ? 6 : 8) && this.#suffix > 0 &&
      this.#suffix === fingerprint - this.#anchorBits && this.#families > 0 && this.#level < 32 &&
      this.#pointer < ofLevel && this.#pages === ofLevel + this.#pointer;
    if (!may) throw damaged("its pages can't be");
    if (isWindow && !(this.#valueBits > 0 && this.#resolution > 0 && this.#resolution <= this.#window)) {
      throw damaged("its window can't be");
    }
    const hasValues = this.#valueBits > 0 && !isWindow;
    if (((this.#features & VALUES) !== 0) !== hasValues) throw damaged("its values can't be");
    for (let anchor = 0; anchor < this.#sum.length; anchor += 1) {
      const turn = mix(anchor, 0xbeef);
      this.#sum[anchor] = Number(mix(anchor, 0x77) >> 40n & 0x1ffn | 1n);
      this.#across[anchor] = Number(mix(anchor, 0x1234) * BigInt(this.#families) >> 64n);
      this.#turn[2 * anchor] = Number(BigInt.asIntN(32, turn));
      this.#turn[2 * anchor + 1] = Number(BigInt.asIntN(32, turn >> 32n));
    }
  }

  #ownKey(given: Uint8Array | undefined): Int32Array | undefined {
    const told = this.#bytes.subarray(96, 112);
    let own = told;
    if ((this.#features & NO_KEY) !== 0) {
      if (given === undefined) return undefined;
      own = new Sha256().update(given).digest().subarray(0, 16);
    } else if (given === undefined) {
      given = told;
    } else {
      own = given;
    }
    if (given.length !== 16 || hex(own) !== hex(told)) throw new FilterFileError("this is not the key of the file's hash");
    const view = new DataView(given.buffer, given.byteOffset, 16);
    return Int32Array.of(...[0, 4, 8, 12].map((at) => view.getInt32(at, true)));
  }

  /** Refuses offsets that are not what follows from the sizes. */
  #checkParts(total: number): void {
    let at = this.#pagesAt + this.#pages * BLOCK;
    const stampsAt = (this.#features & WINDOW) !== 0 ? at : 0;
    if (stampsAt > 0) at += 8 * this.#pages;
    const indexAt = this.#counters > 0 && stampsAt === 0 ? at : 0;
    const countersAt = indexAt > 0 ? at + 8 * (this.#pages + 1) : 0;
    if (indexAt > 0) at = countersAt + 12 * this.#counters;
    const sumsAt = whole(at), end = sumsAt + (sumsAt - this.#pagesAt) / BLOCK * 4 + END_BYTES;
    const fits =
      stampsAt === this.#stampsAt && indexAt === this.#indexAt && countersAt === this.#countersAt &&
      sumsAt === this.#sumsAt && end === total;
    if (!fits) throw damaged("its fields do not fit each other");
  }

  /** Names the state of the filter that the file is of, as the server's `ETag` does. */
  get etag(): string {
    const number = (at: number): string => this.#view.getBigUint64(at, true).toString(16);
    return `"${hex(this.#bytes.subarray(216, 232))}-${number(232)}-${number(120)}"`;
  }

  /** What the file says of its filter. */
  describe(): FileDescription {
    const isWindow = (this.#features & WINDOW) !== 0;
    return {
      layout: this.#layout === CLASSIC ? "classic" : "paged",
      items: this.#number(128),
      falsePositiveRate: this.#view.getFloat64(152, true),
      createdAt: new Date(this.#number(112)),
      changedAt: new Date(this.#number(120)),
      etag: this.etag,
      fileBytes: this.#bytes.length,
      valueBits: isWindow || this.#layout === CLASSIC ? 0 : this.#valueBits,
      hasAttributes: (this.#features & ATTRIBUTES) !== 0,
      windowSeconds: isWindow ? this.#window : undefined,
      windowResolutionSeconds: isWindow ? this.#resolution : undefined,
      hasKey: (this.#features & NO_KEY) === 0,
    };
  }

  /**
   * Checks every block, and the digest of all, which it returns. Equal filters have equal
   * ones. Meanwhile others get their turns.
   */
  async verify(): Promise<string> {
    const bytes = this.#bytes, end = bytes.length - 40;
    // Node 18 has none, and browsers have it only where pages come by TLS.
    const subtle = end <= MOST_COPIED ? globalThis.crypto?.subtle : undefined;
    const head = bytes.slice(0, subtle === undefined ? this.#pagesAt : end);
    for (const [at, size] of MASKED) head.fill(0, at, at + size);
    const sum = subtle === undefined ? new Sha256().update(head) : undefined;
    let began = performance.now();
    for (let at = this.#pagesAt; at < end; at += PIECE) {
      if (at < this.#sumsAt) this.#check(at, Math.min(PIECE, this.#sumsAt - at));
      sum?.update(bytes.subarray(at, Math.min(at + PIECE, end)));
      if (performance.now() - began < TURN) continue;
      await new Promise<void>((resolve) => setTimeout(resolve));
      began = performance.now();
    }
    const digest = hex(sum?.digest() ?? new Uint8Array(await subtle!.digest("SHA-256", head)));
    if (digest !== hex(this.#bytes.subarray(end, end + 32))) {
      throw new FilterFileError("the digest of the file is not the one that it has");
    }
    return digest;
  }

  /** Whether the item is found. False is certain; true can be a false positive. */
  exists(item: Item, options: FileOptions = {}): boolean {
    return this.#exists(item, this.#since(known("exists", options, ASKED)));
  }

  /** The same of many items, in their order. */
  existsMany(items: Many<Item>, options: FileOptions = {}): boolean[] {
    const since = this.#since(known("existsMany", options, ASKED));
    return several(items).map((item) => this.#exists(item, since));
  }

  /** Copies of the item: never too low, too high as often as a false positive occurs. */
  count(item: Item, options: Pick<FileOptions, "nowMs"> = {}): number {
    known("count", options, { nowMs: 0 });
    if ((this.#features & WINDOW) !== 0) return Number(this.exists(item, options));
    let copies = 0;
    if (this.#layout === CLASSIC) {
      this.#classic(item, (it) => {
        copies += it;
        return false;
      }, true);
      return copies;
    }
    this.#entries(item, (_, it) => (copies += it));
    return copies;
  }

  /** The same of many items, in their order. */
  countMany(items: Many<Item>, options: Pick<FileOptions, "nowMs"> = {}): number[] {
    known("countMany", options, { nowMs: 0 });
    return several(items).map((item) => this.count(item, options));
  }

  /**
   * The values of the item, ascending; of a filter with attributes the bits of its rows.
   * None is missing; a value of another item can be among them.
   */
  values(item: Item): number[] {
    if ((this.#features & VALUES) === 0) throw new FilterFileError("the filter has no values");
    const found = new Set<number>();
    this.#entries(item, (held) => found.add(held % 2 ** this.#valueBits));
    return [...found].sort((a, b) => a - b);
  }

  /** The same of many items, in their order. */
  valuesMany(items: Many<Item>): number[][] {
    return several(items).map((item) => this.values(item));
  }

  /** The first epoch in which an item may have been seen last that is found. */
  #since({ withinSeconds, nowMs = Date.now() }: FileOptions): number | undefined {
    if ((this.#features & WINDOW) === 0) {
      if (withinSeconds !== undefined) throw new FilterFileError("the filter has no window");
      return undefined;
    }
    const asked = withinSeconds ?? this.#window;
    if (!(asked > 0 && asked <= this.#window)) {
      throw new RangeError(`withinSeconds is ${asked}: above 0 and up to ${this.#window} is allowed`);
    }
    const current = Math.max(this.#epoch, Math.floor(Math.floor(nowMs / 1000) / this.#resolution));
    return Math.max(0, current - Math.ceil(asked / this.#resolution));
  }

  #exists(item: Item, since: number | undefined): boolean {
    if (this.#layout === CLASSIC) return this.#classic(item, () => true, false);
    if (since === undefined) return this.#matches(item, undefined);
    const found: Match[] = [];
    this.#matches(item, found);
    return found.some(({ page, held }) => this.#epochOf(page, held) >= since);
  }

  /** Puts the hash of an item into `HASH`. */
  #hash(item: Item): void {
    let bytes: Uint8Array = this.#buffer, length = 0;
    if (typeof item === "string" && item.length * 3 <= bytes.length) {
      let code = 0;
      while (length < item.length && (code = item.charCodeAt(length)) < 128) bytes[length++] = code;
      if (length < item.length) length = TEXT.encodeInto(item, bytes).written;
    } else {
      bytes = bytesOf(item);
      length = bytes.length;
    }
    if (this.#layout === CLASSIC) return murmur64a(bytes, length);
    if (this.#key === undefined) throw new FilterFileError("the key of its hash was left out of the file: give it as key");
    siphash13(bytes, length, this.#key);
  }

  /** Whether any slot matches; all that do go into `found`, if that is asked for. */
  #matches(item: Item, found: Match[] | undefined): boolean {
    this.#hash(item);
    const bits = this.#anchorBits, used = 9 + bits, families = this.#families, mask = this.#width === 32 ? 255 : 511;
    const low = HASH[0]!, anchor = low >>> 9 & (1 << bits) - 1;
    let p0 = low >>> used | HASH[1]! << 32 - used, p1 = HASH[1]! >>> used | HASH[2]! << 32 - used;
    // No fingerprint is 0.
    if (anchor === 0 && (p0 & (1 << this.#suffix) - 1) === 0) p0 |= 1 << this.#suffix - 1;
    const high = HASH[3]! >>> 0, below = Math.imul(high, families) >>> 0;
    let family = upper(high, families) + (below + upper(HASH[2]! >>> 0, families) > 0xffffffff ? 1 : 0);
    let bucket = low & mask;
    const first = this.#inBucket(family, p0, p1, bucket, anchor, found);
    if (first && found === undefined) return true;
    bucket = this.#sum[anchor]! - bucket & mask;
    if ((anchor & 7) === 1) {
      family = this.#across[anchor]! - family;
      if (family < 0) family += families;
      p0 ^= this.#turn[2 * anchor]!;
      p1 ^= this.#turn[2 * anchor + 1]!;
    }
    return this.#inBucket(family, p0, p1, bucket, anchor, found) || first;
  }

  #inBucket(family: number, p0: number, p1: number, bucket: number, anchor: number, found: Match[] | undefined): boolean {
    const width = this.#width, suffix = this.#suffix;
    let level = this.#level;
    let page = family + this.#families * ((p0 & 2 ** level - 1) >>> 0);
    if (page < this.#pointer) {
      if (p0 >>> level & 1) page += this.#families * 2 ** level;
      level += 1;
    }
    const path = level === 0 ? p0 : level === 32 ? p1 : p0 >>> level | p1 << 32 - level;
    const fresh = (anchor << suffix | reversed(path) >>> 32 - suffix | (level > 0 ? 1 : 0)) >>> 0;
    const at = this.#pagesAt + page * BLOCK + bucket * (width === 32 ? 16 : 8);
    if (this.#seen[page] === 0) this.#check(at, 1);
    const view = this.#view, slots = SLOTS[width]! * (width === 32 ? 2 : 1);
    const w0 = view.getUint32(at, true), w1 = view.getUint32(at + 4, true);
    let isThere = false;
    for (let slot = 0; slot < slots; slot += 1) {
      let held: number;
      if (width === 32) {
        held = view.getUint32(at + 4 * slot, true);
      } else {
        const shift = width * slot;
        held = (shift >= 32 ? w1 >>> shift - 32 : shift === 0 ? w0 : w0 >>> shift | w1 << 32 - shift) & (1 << width) - 1;
      }
      const fingerprint = held >>> this.#valueBits;
      // Up to its lowest 1 a fingerprint has no bits of the path, but at level 0.
      const known = level === 0 ? -1 : ~(fingerprint ^ fingerprint - 1);
      if (fingerprint === 0 || ((fingerprint ^ fresh) & known) !== 0) continue;
      if (found === undefined) return true;
      found.push({ page, bucket, held });
      isThere = true;
    }
    return isThere;
  }

  /** Calls with what each slot that matches holds, and with what is counted beside pages. */
  #entries(item: Item, take: (held: number, copies: number) => void): void {
    const found: Match[] = [], classes = new Set<string>(), values = 2 ** this.#valueBits;
    this.#matches(item, found);
    for (const { page, bucket, held } of found) {
      take(held, 1);
      const anchor = held >>> this.#suffix + this.#valueBits, first = held - held % values;
      const other = this.#sum[anchor]! - bucket & (this.#width === 32 ? 255 : 511);
      const stands = (anchor & 7) === 1 ? bucket : Math.min(bucket, other);
      const name = `${page} ${stands} ${first}`;
      if (classes.has(name)) continue;
      classes.add(name);
      this.#beside(page, stands, first, first + values - 1, take);
    }
  }

  /** Calls with what is counted beside a page at a place, from one slot's content to another's. */
  #beside(block: number, where: number, first: number, last: number, take: (held: number, copies: number) => void): void {
    if (this.#counters === 0) return;
    const at = this.#indexAt + 8 * block;
    this.#check(at, 16);
    const begin = this.#number(at), end = this.#number(at + 8);
    if (!(begin <= end && end <= this.#counters && end - begin <= MOST_COUNTERS)) {
      throw new FilterFileError(`block ${Math.floor((at - this.#pagesAt) / BLOCK)} of the file is damaged`);
    }
    const view = this.#view;
    const counter = (number: number): number => {
      const place = this.#countersAt + 12 * number;
      this.#check(place, 12);
      return place;
    };
    const order = (place: number): number => view.getUint16(place + 8, true) * 2 ** 32 + view.getUint32(place, true);
    let low = begin, high = end;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (order(counter(middle)) < where * 2 ** 32 + first) low = middle + 1;
      else high = middle;
    }
    for (; low < end; low += 1) {
      const place = counter(low);
      if (order(place) > where * 2 ** 32 + last) return;
      take(view.getUint32(place, true), view.getUint32(place + 4, true) + view.getUint16(place + 10, true) * 2 ** 32);
    }
  }

  /** The epoch in which what a slot holds was seen last; -1: never. */
  #epochOf(page: number, held: number): number {
    const at = this.#stampsAt + 8 * page, epochs = 2 ** this.#valueBits;
    this.#check(at, 8);
    const stamp = this.#number(at) - 1;
    return stamp < 0 ? -1 : stamp - ((stamp % epochs - held % epochs + epochs) % epochs);
  }

  /** Calls with the copies in each sub-filter that has any, until that says true. */
  #classic(item: Item, take: (copies: number) => boolean, isCounted: boolean): boolean {
    this.#hash(item);
    const low = HASH[0]! >>> 0, fingerprint = (low % 255 + (HASH[1]! >>> 0) % 255) % 255 + 1, size = this.#bucketSize;
    for (const [buckets, begin] of this.#subs) {
      const first = (low & buckets - 1) >>> 0, second = ((first ^ Math.imul(fingerprint, 0x5bd1e995)) & buckets - 1) >>> 0;
      let copies = 0;
      for (const bucket of first === second ? [first] : [first, second]) {
        const at = begin + bucket * size;
        this.#check(at, size);
        for (let slot = 0; slot < size; slot += 1) if (this.#bytes[at + slot] === fingerprint) copies += 1;
      }
      if (copies === 0) continue;
      if (isCounted) {
        const at = begin + Math.min(first, second) * size - this.#pagesAt;
        this.#beside(Math.floor(at / BLOCK), at % BLOCK, fingerprint, fingerprint, (_, more) => (copies += more));
      }
      if (take(copies)) return true;
    }
    return false;
  }

  /** Each block before it is first looked into. */
  #check(at: number, size: number): void {
    const last = Math.floor((at + size - 1 - this.#pagesAt) / BLOCK);
    for (let block = Math.floor((at - this.#pagesAt) / BLOCK); block <= last; block += 1) {
      if (this.#seen[block] === 1) continue;
      const begin = this.#pagesAt + block * BLOCK;
      if (crc32(this.#bytes.subarray(begin, begin + BLOCK)) !== this.#view.getUint32(this.#sumsAt + 4 * block, true)) {
        throw new FilterFileError(`block ${block} of the file is damaged`);
      }
      this.#seen[block] = 1;
    }
  }
}

function bytesOf(item: Item): Uint8Array {
  if (item instanceof Uint8Array) return item;
  if (typeof item === "string") return TEXT.encode(item);
  // What is no item is refused there.
  line(item);
  return TEXT.encode(String(item));
}

/** The bits of a half in reverse. */
function reversed(x: number): number {
  x = x >>> 1 & 0x55555555 | (x & 0x55555555) << 1;
  x = x >>> 2 & 0x33333333 | (x & 0x33333333) << 2;
  x = x >>> 4 & 0x0f0f0f0f | (x & 0x0f0f0f0f) << 4;
  return x << 24 | (x & 0xff00) << 8 | x >>> 8 & 0xff00 | x >>> 24;
}

/** So many bytes in whole blocks. */
function whole(size: number): number {
  return Math.ceil(size / BLOCK) * BLOCK;
}

function damaged(why: string): FilterFileError {
  return new FilterFileError(`the header of the file is damaged: ${why}`);
}
