//! cuckood serves named cuckoo filters over HTTP/JSON and keeps them in
//! RocksDB: "have we seen this?", with deletes and counts.
//!
//! # Map
//!
//! Each module does one thing; data flows one way, and effects are at the edges.
//! Every `mod.rs` and `lib.rs` has a map of its own. All but `watch`, `client`, `config`
//! and `commands` are packages: `crates/NAME` is `cuckood-NAME`, and its `Cargo.toml` says
//! what it may import, so the compiler holds the directions.
//!
//! | module | owns | never |
//! |---|---|---|
//! | [`cuckoo`], [`chain`] | the package `cuckood-filter`: one filter and its mathematics, over pages it is handed | does I/O, knows time or chance |
//! | [`mod@file`] | the package `cuckood-file`: files of filters, mapped, asked and written | asks a server |
//! | [`page`], [`store`], `resident`, `stored` | the package `cuckood-pages`: names of pages; images, descriptions and the redo log, in RocksDB or in memory; the page cache and checkpoints | knows names, lanes or callers |
//! | [`engine`] | many filters by name: lanes that commit, recovery; [`engine::LaneOrder`] says what may order commits elsewhere | knows HTTP, or the cluster |
//! | [`cluster`] | lanes that several pods have: records in a log that all read, the rules by which each applies them, and an engine that follows them | knows what a commit holds |
//! | [`backup`] | archives of the whole store: written beside everything else, verified, kept, restored | knows what a store holds |
//! | [`codes`] | what can go wrong, in one table | |
//! | [`server`] | what every protocol stands on: connections, TLS, what requests may hold, who asks, other pods | knows a word of a protocol |
//! | [`http`] | words: routes, JSON, problems | decides what a filter does |
//! | [`redis`] | words: the Redis protocol, beside `http` | decides what a filter does |
//! | [`access`] | API keys: their file, their scopes, which of them a caller has; keyed hashes, by which those who share a secret know each other | knows a route |
//! | [`share`] | what may be held of a bounded resource, in all and by each holder | knows what is held, or who an API key is |
//! | [`watch`] | notices that files have changed | knows what is in them |
//! | [`metrics`] | every metric family, declared once | is touched by the algorithm |
//! | [`client`] | clients of a server elsewhere: health, backups, loading files, filters from Redis | knows what is behind the API |
//! | [`config`] | flags and environment variables, read once by `main` | |
//! | [`commands`] | what each subcommand does: the only module that wires the others together | is imported by another |
//!
//! Imports point one way: `http` and `redis`, side by side, `-> server -> cluster ->
//! engine -> pages -> filter`, and `server -> backup -> pages`. Within a package no file or
//! folder imports one that imports it: `tests/layering` holds that, and what the program's
//! modules may import. `docs/code-tour.md` follows one add and one question function by
//! function.
//!
//! # Where to change what
//!
//! | to add | begin in | and then |
//! |---|---|---|
//! | a route | a handler in `http/src/handlers/` | its line in `http/src/routes.rs`; what is said of it in `http/src/openapi/document/operations/`; `make openapi` |
//! | a command of the Redis protocol | its line in `redis/src/commands/table.rs` | done in `redis/src/session/`: of items by `ItemVerb` in `redis/src/commands/items.rs`, of filters in `redis/src/session/filters.rs`; `docs/redisbloom.md` |
//! | a field of a filter's description | `FilterInfo` in `engine/src/answer.rs`, filled in the same file | `FilterBody` and its example in `http/src/handlers/filter_body.rs`; if the list has it, `FilterSummary`, filled in `engine/src/listing.rs` and said in `http/src/handlers/filters.rs`; the console's `http/src/console/filter.js`; `src/client/filter/in_file.rs`, if a file has it; `make openapi`, then `make clients`; the descriptions in the boxes of the README. If it is stored: `filter/src/chain/meta/encoding.rs`, `docs/format.md`. `CF.INFO` has RedisBloom's fields and no others (`redis/src/commands/filter.rs`) |
//! | a parameter of a filter | `filter/src/chain/params/` | all that a field of the description has; `http/src/parse/filter_fields.rs`, what is said of it in `http/src/parse/filter_fields/schema.rs`; `filter/src/chain/params/differences.rs`; the console's `http/src/console/create.js`; what who asks a file needs of it, `filter/src/file/header.rs` |
//! | a bound of a kind of request | `Scarce` in `server/src/used_up.rs`: its name and its sentence | its `Budget` in `Admission`, in `server/src/admission/limits.rs`, taken where the request is worked on; `docs/limits.md`, and its test in `tests/api/shares.rs` |
//! | a limit that a flag sets | `Limits` in `server/src/admission/limits.rs` | its flag in `config/limits.rs`, `docs/limits.md` |
//! | a bound of the engine (probes, queues, cold reads) | `EngineOptions` in `engine/src/open.rs` | its flag in the section of `config/` that it belongs to, `docs/limits.md` |
//! | a flag | the section of `config/` that it belongs to, checked there | `config/serve.rs` hands it on; `docs/limits.md` |
//! | a kind of error | `codes/src/lib.rs`, one line of the table | the error in `engine/src/error.rs`, `server/src/refusal.rs` or `http/src/problem/error.rs`; its first word in `redis/src/commands/errors.rs` follows |
//! | a failure of the engine | `engine/src/error.rs`, its sentence and its code | |
//! | a metric | `metrics/src/lib.rs` | counted where it happens; `docs/operations.md`; `dashboard.json` and, for its alert, `alerts.yaml` in `deploy/helm/cuckood/files/`, `docs/runbook.md`, `tests/deploy/alerts.test.yaml` |
//! | a stored value | `pages/src/store/format.rs` and `pages/src/store/values.rs` | `docs/format.md` |
//! | a background task | `engine/src/tasks/` | started in `engine/src/open.rs` |
//! | a rule of adding | `filter/src/chain/plan/planner.rs` | its property against the model in `filter/src/chain/plan/tests.rs` |
//! | what splits or merges pages | `filter/src/chain/paged/split.rs`, `filter/src/chain/paged/merge.rs` | at which load: `SplitLoads` in `filter/src/cuckoo/paged/rate.rs`, which sizes new filters, too; whether they are due: `Table` in `filter/src/chain/meta/table/mod.rs`; `docs/engine.md`, `docs/format.md` |
//! | what a split or a merge writes to the log | `put_wholes` in `engine/src/lane/changes.rs` | its bytes in `pages/src/store/redo/`; read again by `LoggedPage` in `pages/src/logged.rs` for recovery (`engine/src/recovery.rs`) and followers (`engine/src/lane/follow.rs`), and by `PageDelta` in `pages/src/stored/page.rs` for checks and dumps; `docs/format.md` |
//! | what a commit can do to a filter | `FilterChange` in `pages/src/store/commit.rs` | what followers make of it: `after_each` in `engine/src/lane/record.rs`; what takes it back: `undo` in `engine/src/lane/commit.rs`; a feature level, `Membership::NEWEST_LEVEL` in `cluster/src/membership/part.rs` |
//! | what a follower does with a record | `Lane::apply` in `engine/src/lane/follow.rs` | who reads the log for it: `cluster/src/lane/following.rs`; which record may follow, and one that does not decode: `cluster/src/replica/follow.rs`; one that can't be applied: `put_back` in `cluster/src/lane/ordering.rs`; why a lane halts: `engine/src/shared/halt.rs` |
//! | what pods say of themselves | `PodState` in `cluster/src/jetstream/pods.rs` | announced in `commands/announcing.rs`, shown in `server/src/cluster/status.rs` |
//! | what a cluster asks of the engine | `engine::LaneOrder` in `engine/src/lane/ordering.rs` | `cluster/src/lane/ordering.rs` does it over the log |
//! | a rule of the commit log | `cluster/src/replica/mod.rs`, rule by rule | its test in `cluster/src/tests/`, its line in `docs/cluster-design.md` |
//! | a share for each API key | a [`share::Resource`], where the bound is held | its row in `docs/limits.md`, its test among the shares in `tests/api` |
//!
//! | to find | look in |
//! |---|---|
//! | what a lane does with a command | `engine/src/lane/run.rs`, then `engine/src/lane/group_commit.rs` |
//! | what a commit writes, and what becomes of one that failed | `engine/src/lane/commit.rs` |
//! | what a plan is counted in | `engine/src/lane/commit.rs`, `Lane::record` |
//! | how a reader notices that pages changed | `engine/src/reader.rs`, `pages/src/resident/seqlock.rs` |
//! | checksums of what is stored | `pages/src/store/format.rs` |
//! | which status an error has, and whether to ask again | `codes/src/lib.rs` |
//! | which pod does something about a filter | `server/src/cluster/route.rs`, then `server/src/cluster/forward.rs` |
//! | which routes and commands go to the leader | `about` in `http/src/cluster/answer.rs`, `CommandRoutes` in `redis/src/session/routes.rs` |
//! | how long a lease lives | `LEASE_TTL` in `commands/cluster.rs`; `docs/limits.md` |
//! | when a lease is taken, renewed, lost and handed over | `cluster/src/lease.rs`, then `cluster/src/jetstream/keeping.rs` |
//! | how a pod starts, joins and leaves | `commands/pod.rs`, `cluster/src/membership/start.rs`; with a snapshot, `commands/snapshot.rs` |
//! | memory for answers | `ANSWERS_PART` in `server/src/admission/limits.rs`, taken in `server/src/admission/answers.rs` |
//! | how far the commit log is trimmed | `cluster/src/trimming.rs`, done in `commands/trimming.rs` |
//!
//! # Glossary
//!
//! | word | what it is here |
//! |---|---|
//! | filter | a set that answers "have we seen this item?", known by a name; a [`chain::meta::Chain`] on pages |
//! | name, key | what a caller calls a filter: [`engine::FilterName`]; the path says key |
//! | item | bytes that are added, asked for, counted or deleted; never stored |
//! | item hash | 64 or 128 bits of an item: all that a filter knows of it |
//! | fingerprint | the bits of an item's hash that lie in a slot |
//! | slot | room for one fingerprint, 8 to 32 bits; zero is empty |
//! | bucket | the slots in which a fingerprint may lie; an item has two candidate buckets |
//! | class | all items with the same fingerprint and the same two buckets; a filter cannot tell them apart |
//! | false positive | an item that was never added and is found; the false-positive rate says how often |
//! | layout | from an item's hash to fingerprint and buckets: `classic` is RedisBloom's, `paged` keeps both buckets mostly on one page |
//! | kick-out | a fingerprint that moves to its other bucket, so that another has room |
//! | crossing | in `paged`, the fingerprints whose second bucket lies on another page |
//! | sub-filter | a table of buckets; a filter that grows is a chain of them |
//! | expansion | appending a sub-filter to a chain |
//! | capacity | items that the first sub-filter is made for |
//! | load | share of the slots in use, 0 to 1 |
//! | compaction | moving fingerprints into fewer sub-filters, after deletes |
//! | side counter | copies of a class beyond those in slots, beside the page |
//! | page | up to 4 KiB of buckets: what is cached, read and written as one |
//! | frame | memory for one page in the cache |
//! | resident | said of a page that lies in a frame |
//! | pin | what keeps a page resident |
//! | dirty | said of a page that differs from its stored image |
//! | page image | a page as the store keeps it |
//! | view | a filter as of its last commit: its chain and its page tables |
//! | version | a count of a page's publications: readers compare it before and after reading |
//! | lane | the one thread that changes a filter; a filter always has the same one. In [`cuckoo::bucket`], as in SIMD, a slot of a word |
//! | command | what a lane is asked to do |
//! | group commit | the commands that one commit serves, planned on top of each other |
//! | slice | as much of a plan as a lane makes in one turn |
//! | suspended plan | one that waits for its next slice; a lane has one at most |
//! | plan | what a command would change, computed over an overlay |
//! | overlay | changes that are planned and not published |
//! | commit | one atomic write of everything that was planned |
//! | publication | making a commit visible to readers |
//! | indeterminate | said of a commit that failed: whether it took place is unknown until it is settled |
//! | redo record | the slots that a commit wrote, as absolute values |
//! | log | the redo records that no checkpoint has made needless |
//! | checkpoint | writing images of dirty pages, so that the log can be cut |
//! | recovery | replaying the log after a start |
//! | commit log | what several pods share: the records of each lane in one order, kept by brokers |
//! | record | a commit as the commit log has it, with what is checked before it is applied |
//! | replica | a lane as one pod has it |
//! | position | the newest record that a replica applied, and the hash of all before it |
//! | fence | that a record is appended only behind the one it was planned behind |
//! | in flight | said of a record that was sent to the commit log and is not settled |
//! | term | a time in which one pod plans a lane's changes, and nobody else changes it |
//! | side record | what a commit keeps beside filters: an answer for retries, the progress of an import |
//! | garbage | pages of filters and sub-filters that are gone, to be reclaimed |
//! | dump | one filter as a file |
//! | backup | the whole store as an archive |
//! | lookup | one question to many filters |
//! | problem | an error as HTTP tells it (RFC 9457) |
//! | principal | the API key that a request came with |
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
//! takes what waits, plans it over an overlay, commits it with one redo
//! record and one forced write, publishes the changed words and answers every
//! caller. Page images follow later, in slices, and let the log be cut.
//!
//! ```text
//! POST items ──► http ──► engine: command ──► lane: plan all that waits
//!                                               └──► store: one commit ──► publish ──► answers
//!                                                                  later: page images, cut the log
//! ```
//!
//! Good places to start reading: [`chain`] for what an add does, step by step,
//! [`cuckoo::kick`] for the search for kick-outs, [`engine`] for what happens
//! when, and [`store`] for what is promised about bytes.
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
//! 8. **No RocksDB type above [`store::rocks`], no NATS type above
//!    [`cluster::jetstream`].**

pub mod client;
pub mod commands;
pub mod config;
pub mod watch;

pub use cuckood_filter::{chain, cuckoo};
pub use cuckood_pages::{page, store};
pub use {
    cuckood_access as access, cuckood_backup as backup, cuckood_cluster as cluster,
    cuckood_codes as codes, cuckood_engine as engine, cuckood_file as file, cuckood_http as http,
    cuckood_metrics as metrics, cuckood_redis as redis, cuckood_server as server,
    cuckood_share as share,
};
