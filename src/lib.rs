//! cuckood serves named cuckoo filters over HTTP/JSON and keeps them in
//! RocksDB: "have we seen this?", with deletes and counts.
//!
//! # The house
//!
//! Each room does one thing; data flows one way, and effects are at the edges.
//!
//! | room | owns | never |
//! |---|---|---|
//! | [`cuckoo`] | the mathematics: hashes, buckets as machine words, layouts, the search for kick-outs | does I/O, knows time or chance |
//! | [`chain`] | one filter: its sub-filters and the rules of add, exists, count, delete and growth, over pages it is handed | does I/O, knows time or chance |
//! | [`page`] | how a page is named: plain numbers | |
//! | `hints` | hints to the processor and the system about memory: unsafe, as is nothing else but the call that hashes eight items at once | changes an answer |
//! | [`store`] | page images, descriptions and the redo log: ids and bytes, in RocksDB or in memory | knows what a bucket is |
//! | [`engine`] | many filters by name: lanes that commit, the page cache, checkpoints, recovery | knows HTTP |
//! | [`backup`] | archives of the whole store: written beside everything else, verified, kept, restored | knows what a store holds |
//! | [`http`] | words: routes, JSON, problems, limits of requests | decides what a filter does |
//! | [`access`] | API keys: their file, their scopes, which of them a caller has | knows a route |
//! | [`watch`] | notices that files have changed | knows what is in them |
//! | [`metrics`] | every metric family, declared once | is touched by the algorithm |
//! | [`client`] | clients of a server elsewhere: health, backups, loading files, filters from Redis | knows what is behind the API |
//! | `fuzz_targets` | one target for every reader of bytes that are not trusted | is part of the program |
//! | [`config`] | flags and environment variables, read once by `main` | |
//! | [`commands`] | what each subcommand does: the only room that wires the others together | is imported by another |
//!
//! Imports point one way, `http -> engine -> chain -> cuckoo`,
//! `engine -> store`, `http -> backup -> store` and `http -> access -> engine`; `chain` and `store` share only [`page`]. A test
//! (`tests/layering`) enforces it.
//!
//! # How data flows
//!
//! A question finds the filter's published view, probes resident pages and
//! answers, on the thread that asked: no lock that I/O could hold, no thread
//! hop. Pages that are not resident are read in one sorted batch, off the
//! async threads.
//!
//! ```text
//! GET exists ──► http ──► engine: view ──► cuckoo: probe ──► answer
//!                           │ pages missing
//!                           └──► store: one batched read ──► answer
//! ```
//!
//! A change becomes a command in the queue of its filter's lane. The lane
//! drains what waits, plans it over an overlay, commits it with one redo
//! record and one forced write, publishes the changed words and answers every
//! caller. Page images follow later, in slices, and let the log be cut.
//!
//! ```text
//! POST items ──► http ──► engine: command ──► lane: plan all that waits
//!                                               └──► store: one commit ──► publish ──► answers
//!                                                                  later: page images, cut the log
//! ```
//!
//! Good places to start reading: [`chain::plan`] for what an add does,
//! [`cuckoo::kick`] for how room is made, [`engine`] for who does what when,
//! and [`store`] for what is promised about bytes.
//!
//! # Invariants
//!
//! What is deliberately true, and what is deliberately absent:
//!
//! 1. **No false negative, ever.** Under concurrency, during kick-outs and
//!    cache misses, and across crashes, an item that was acknowledged as added
//!    and not deleted is found, provided that only items that are in the
//!    filter are deleted.
//! 2. **Acknowledged means durable** as `--wal-sync` says, and **visible means
//!    committed**: of each item a reader sees a whole commit or none of it,
//!    never half a kick-out path. A batch of questions is no snapshot.
//! 3. **A failed commit changes nothing in memory.** Plans live in an overlay,
//!    so there is no rollback code. Redo records hold absolute values, so
//!    replaying is idempotent.
//! 4. **Commands are deterministic.** The same commands in the same order give
//!    the same bytes, whatever was resident. No clock, no chance, no order of a
//!    hash map inside [`chain`]; time is a field of a command.
//! 5. **The algorithm knows no metrics.** Kick-outs and expansions are facts in
//!    a plan; the engine counts them, and the store counts reads.
//! 6. **Bytes are versioned and checked.** A newer version is refused by name;
//!    corrupt bytes are an error that names filter and page, never an answer.
//!    `docs/format.md` tabulates them.
//! 7. **Memory is bounded**: pages, open filters, bodies, batches, queues and
//!    connections. What is over a bound is refused or waits, by name.
//! 8. **No RocksDB type above [`store::rocks`].**

pub mod access;
pub mod backup;
pub mod chain;
pub mod client;
pub mod commands;
pub mod config;
pub mod cuckoo;
pub mod engine;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz_targets;
mod hints;
pub mod http;
pub mod metrics;
pub mod page;
pub mod store;
pub mod watch;
